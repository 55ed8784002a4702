"""A round of two clients with streamlink, and with Flower and APPFL as they are shipped.

The frameworks run their cases of ``integrations`` without streamlink; ours is a job of its own with
as large a model, whose clients hold it whole, as theirs do, and add one to it. What is compared is
a round, so that no start of a process counts. All are run in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from benchmarks.executors import ADDED
from benchmarks.integrations.cases import Case, short
from benchmarks.integrations.environments import BrokenEnvironment, NoEnvironment
from benchmarks.integrations.series import Limits, measure
from benchmarks.jobs import Job, Site, run_job
from benchmarks.models import Layout
from benchmarks.stats import Result, interleave

__all__ = ["LEAST", "is_met", "ratios", "run"]

MB = 1_000_000
LEAST = {"flower": 10.0, "appfl": 5.0}
"""By how many times a round is to be shorter."""
TURNS = 3
ROUNDS = 2
OURS = "streamlink"


def run(quick: bool) -> Result:
    """Measure 256 MB in 64 arrays, two rounds, in three turns (quick: 4 MB, streamlink alone)."""
    layout = Layout(tensors=64, tensor_bytes=(MB // 16) if quick else 4 * MB)
    missing: dict[str, str] = {}
    runs: dict[str, Callable[[], list[float]]] = {OURS: partial(_ours, layout)}
    if not quick:
        runs |= {name: partial(_theirs, name, layout, missing) for name in LEAST}
    found = interleave(runs, pairs=1 if quick else TURNS)
    return Result(
        name="shipped",
        claim=f"a round of two clients with {short(layout.nbytes)} takes at most "
        + " and ".join(f"1/{least:g} of {name}'s" for name, least in LEAST.items()),
        columns=("framework", "round, s", "lowest..highest", "to streamlink", "asked for"),
        rows=tuple(_row(name, found, missing) for name in found),
        facts={"layout": layout.as_json(), "rounds": found, "missing": missing},
        met=None if quick else is_met(found),
    )


def ratios(found: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """Return how many rounds of ours one of a framework's lasts, by its name.

    Args:
        found: the rounds of each run, in turn (seconds); none of a framework that could not be run.
    """
    of = {name: [each for turn in turns for each in turn] for name, turns in found.items()}
    return {name: median(seconds) / median(of[OURS])
            for name, seconds in of.items() if name != OURS and seconds}  # fmt: skip


def is_met(found: Mapping[str, Sequence[Sequence[float]]]) -> bool | None:
    """Tell whether a round is so much shorter than with each framework; None: one did not run."""
    seen = ratios(found)
    if any(seen.get(name, least) < least for name, least in LEAST.items()):
        return False
    return True if len(seen) == len(LEAST) else None


def _ours(layout: Layout) -> list[float]:
    facts = {"layout": layout.as_json(), "kind": "dict", "returns": "values", "folder": "",
             "is_on_disk": False}  # fmt: skip
    sites = [Site(f"site-{number}", "benchmarks.executors:client", facts) for number in (1, 2)]
    rules = {"min_clients": 2, "num_rounds": ROUNDS}
    ran = run_job(Job(layout, ADDED, 2, rules), sites)
    return [each["seconds"] for each in ran.rounds]


def _theirs(name: str, layout: Layout, missing: dict[str, str]) -> list[float]:
    """Run a framework once; an empty list: it cannot be had here, or the run failed."""
    if name in missing:
        return []
    case = Case(name, layout.nbytes, layout.tensors, "bare", rounds=ROUNDS)
    try:
        outcome = measure(case, Limits())
    except (NoEnvironment, BrokenEnvironment) as error:
        missing[name] = str(error)
        return []
    if outcome.ended != "done" or not outcome.exact:
        missing[name] = f"{outcome.ended}: {outcome.said}"
        return []
    return outcome.rounds


def _row(
    name: str, found: Mapping[str, Sequence[Sequence[float]]], missing: Mapping[str, str]
) -> tuple[str, ...]:
    seconds = [each for turn in found[name] for each in turn]
    if not seconds:
        return (name, "-", "-", "-", missing.get(name, ""))
    least = LEAST.get(name)
    seen = ratios(found).get(name)
    told = ("", "") if least is None or seen is None else (f"{seen:.1f} x", f"{least:g} x")
    return (name, f"{median(seconds):.2f}", f"{min(seconds):.2f}..{max(seconds):.2f}", *told)
