"""Runs of the two-site job that tests make up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.links.lines import parse_line
from benchmarks.links.sites.cases import (
    CLIENTS,
    FAR,
    NEAR,
    SERVER,
    Look,
    Probed,
    SiteCase,
    SiteRun,
    Used,
    Variant,
    Way,
)

__all__ = ["probed_of", "site_case", "site_run"]

MIB = 1 << 20
LOCKSTEP = Variant("lockstep")


def site_case(variant: Variant = LOCKSTEP, keys: int = 64) -> SiteCase:
    near, far = parse_line("100Mbit,4ms"), parse_line("20Mbit,20ms")
    return SiteCase(variant, near, far, keys, 1 << 14, 3)


def probed_of(rate: float = 1e7, **settings: float) -> Probed:
    found: dict[str, float] = {
        "stream.chunk_bytes": 2 * MIB,
        "stream.window_bytes": 16 * MIB,
        "timeouts.streaming_ack_wait": 60.0,
    }
    found |= {name.replace("__", "."): value for name, value in settings.items()}
    return Probed(rate, rate, 0.02, 3.0, 1 << 20, found, dict.fromkeys(found, "so it is"))


def site_run(case: SiteCase | None = None, **more: Any) -> SiteRun:
    case = case or site_case()
    looks = tuple(Look(float(at), (50 + at) * MIB, at / 10) for at in range(6))
    ways = [
        Way(client, direction, number, seconds, seconds + 1, case.nbytes, case.nbytes)
        for number in range(case.rounds)
        for client, seconds in ((NEAR, 0.5), (FAR, 2.5)) for direction in ("down", "up")
    ]  # fmt: skip
    run = SiteRun(
        case,
        seconds=15.0,
        round_seconds=[5.0] * case.rounds,
        ways=ways,
        wire_bytes=dict.fromkeys(CLIENTS, 6 * case.nbytes),
        used={name: Used(40 * MIB, 60 * MIB, 1.5, looks) for name in (SERVER, *CLIENTS)},
        peak_bytes=200 * MIB,
        probed={name: probed_of() for name in CLIENTS},
        commit="abc",
        at="2026-11-26T00:00:00+00:00",
        machine={"cores": 2, "cpu": "a cpu", "memory_bytes": 24 * 10**9},
    )
    return replace(run, **more)
