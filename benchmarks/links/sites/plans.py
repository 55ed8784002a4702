"""Which variants of the two-site job are run, with which model and lines, and how long that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from benchmarks.links.lines import Line, parse_line
from benchmarks.links.sites.cases import CLIENTS, FAR, NEAR, Encoding, SiteCase, Variant

__all__ = ["SitePlan", "lines_of", "plan_seconds", "site_plan", "small_site_plan"]

KEYS, ROUNDS = 64, 3  # those of FLARE's notes
KEY_BYTES = 4_000_000  # a 500th of theirs
NEAR_LINE, FAR_LINE = "500Mbit,40ms", "100Mbit,200ms"
"""About the rates that the times of FLARE's notes make of 128 GB; the far one has five times the
delay."""
ENCODINGS: tuple[Encoding, ...] = ("plain", "auto", "bf16")
GATHERED = (
    Variant("lockstep"),
    Variant("lockstep", duplex=True),
    Variant("spool"),
    Variant("lockstep", executor="streaming"),
)
"""Duplex needs lockstep rounds; the last one is how we would do it."""
START_SECONDS = 8.0  # of a run: processes, imports, the model, and the comparison in the end
PROBE_OVERHEAD_SECONDS = 5.0
MEASUREMENTS = 6  # of a probe
SHARES = {"plain": 1.0, "auto": 0.9, "bf16": 0.5}
"""Of the bytes that travel, roughly: for the time that a plan is said to take."""


@dataclass(frozen=True)
class SitePlan:
    """Cases that are run in turn, ``runs`` times each.

    Attributes:
        accuracy_seconds: how long a raw socket measures each direction of a line first.
        probe_seconds: of each of the probe's measurements, at the start of the series.
        stop_seconds: nothing is begun that would not end within so long; the same command does it
            later.
    """

    cases: tuple[SiteCase, ...]
    runs: int = 1
    accuracy_seconds: float = 10.0
    probe_seconds: float = 5.0
    stop_seconds: float = inf


def site_plan() -> SitePlan:
    """Return what is measured for the record: about 20 minutes on a machine that is not busy."""
    near, far = parse_line(NEAR_LINE), parse_line(FAR_LINE)
    variants = [_with(each, encoding) for encoding in ENCODINGS for each in GATHERED]
    return SitePlan(tuple(SiteCase(each, near, far, KEYS, KEY_BYTES, ROUNDS) for each in variants))


def small_site_plan() -> SitePlan:
    """Return every path once, with a model of a MiB, in a minute."""
    near, far = parse_line("100Mbit,4ms"), parse_line("20Mbit,20ms")
    encodings: tuple[Encoding, ...] = ("plain", "auto", "bf16", "plain")
    variants = [_with(each, encoding) for each, encoding in zip(GATHERED, encodings, strict=True)]
    cases = (SiteCase(each, near, far, KEYS, 1 << 14, ROUNDS) for each in variants)
    return SitePlan(tuple(cases), accuracy_seconds=0.5, probe_seconds=0.5)


def lines_of(case: SiteCase) -> dict[str, Line]:
    """Return the line of each client."""
    return {name: case.line(name) for name in CLIENTS}


def plan_seconds(to_do: Iterable[SiteCase], plan: SitePlan) -> float:
    """Return about how long the rest takes: as long as the far client's line needs (seconds)."""
    seconds = [_case_seconds(case) for case in to_do]
    first = 2 * plan.accuracy_seconds + MEASUREMENTS * plan.probe_seconds + PROBE_OVERHEAD_SECONDS
    return len(CLIENTS) * first + sum(seconds) if seconds else 0.0


def _case_seconds(case: SiteCase) -> float:
    variant = case.variant
    traverses = 2.0 * case.rounds
    if variant.executor == "streaming":
        traverses = case.rounds
    elif variant.duplex:
        traverses = case.rounds + 1.0
    alone = max(case.line(name).seconds(case.nbytes) for name in (NEAR, FAR))
    return START_SECONDS + traverses * alone * SHARES[variant.encoding]


def _with(variant: Variant, encoding: Encoding) -> Variant:
    return Variant(variant.gather, encoding, variant.duplex, variant.executor)
