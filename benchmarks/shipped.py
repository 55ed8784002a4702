"""A round of two clients with streamlink, and with Flower and APPFL as they are shipped.

The frameworks run their cases of ``integrations`` without streamlink; ours is a job of its own with
as large a model, whose clients hold it whole, as theirs do, and add one to it. What is compared is
a round, so that no start of a process counts. All are run in turn. A framework's run that fails is
a result: it is reported with its reason, the later turns are run, and nothing is said to be met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from benchmarks.executors import ADDED
from benchmarks.integrations.cases import Case, short
from benchmarks.integrations.environments import BrokenEnvironment, NoEnvironment
from benchmarks.integrations.series import Limits, measure
from benchmarks.jobs import Job, Site, run_job
from benchmarks.models import Layout
from benchmarks.parts import Facts, Parts, at_once
from benchmarks.stats import Result
from benchmarks.tables import report_progress

__all__ = ["LEAST", "failures", "is_met", "ratios", "run"]

MB = 1_000_000
LEAST = {"flower": 10.0, "appfl": 5.0}
"""By how many times a round is to be shorter."""
TURNS = 3
ROUNDS = 2
TURN_SECONDS = 300.0
MOST_SECONDS = 600.0  # of a framework's run
UNAVAILABLE = (NoEnvironment.__name__, BrokenEnvironment.__name__)
OURS = "streamlink"


def run(quick: bool, part: Parts = at_once) -> Result:
    """Measure 256 MB in 64 arrays, two rounds, in three turns (quick: 4 MB, streamlink alone)."""
    layout = Layout(tensors=64, tensor_bytes=(MB // 16) if quick else 4 * MB)
    names = (OURS,) if quick else (OURS, *LEAST)
    count = 1 if quick else TURNS
    turns = [part(f"turn {number} of {count}", TURN_SECONDS, partial(_turn, layout, names))
             for number in range(1, count + 1)]  # fmt: skip
    found = {name: [turn["rounds"][name] for turn in turns] for name in names}
    failed = {name: failures(name, turns) for name in names}
    return Result(
        name="shipped",
        claim=f"a round of two clients with {short(layout.nbytes)} takes at most "
        + " and ".join(f"1/{least:g} of {name}'s" for name, least in LEAST.items()),
        columns=(
            "framework",
            "round, s",
            "lowest..highest",
            "to streamlink",
            "asked for",
            "what failed",
        ),
        rows=tuple((*_row(name, found), "; ".join(failed[name])) for name in found),
        facts={
            "layout": layout.as_json(),
            "rounds": found,
            "ratios": ratios(found),
            "failed": failed,
        },
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
    """Tell whether a round is so much shorter than with each framework; None: a turn failed."""
    seen = ratios(found)
    if any(seen.get(name, least) < least for name, least in LEAST.items()):
        return False
    return True if all(found.get(name) and all(found[name]) for name in LEAST) else None


def failures(name: str, turns: Sequence[Facts]) -> list[str]:
    """Return the turns in which a framework failed, each with its reason."""
    return [f"turn {number}: {turn['failed'][name]}"
            for number, turn in enumerate(turns, 1) if name in turn["failed"]]  # fmt: skip


def _turn(layout: Layout, names: Sequence[str]) -> Facts:
    """Run streamlink and each framework once."""
    rounds: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for name in names:
        report_progress(f"  {name}")
        rounds[name], why = (_ours(layout), "") if name == OURS else _theirs(name, layout)
        failed |= {name: why} if why else {}
    lacking = any(why.startswith(UNAVAILABLE) for why in failed.values())
    return {"rounds": rounds, "failed": failed, "is_unavailable": lacking}


def _ours(layout: Layout) -> list[float]:
    facts = {"layout": layout.as_json(), "kind": "dict", "returns": "values", "folder": "",
             "is_on_disk": False}  # fmt: skip
    sites = [Site(f"site-{number}", "benchmarks.executors:client", facts) for number in (1, 2)]
    rules = {"min_clients": 2, "num_rounds": ROUNDS}
    ran = run_job(Job(layout, ADDED, 2, rules), sites)
    return [each["seconds"] for each in ran.rounds]


def _theirs(name: str, layout: Layout) -> tuple[list[float], str]:
    """Run a framework once; returns its rounds, and why there are none: empty, if there are."""
    case = Case(name, layout.nbytes, layout.tensors, "bare", rounds=ROUNDS)
    try:
        outcome = measure(case, Limits(timeout=MOST_SECONDS))
    except (NoEnvironment, BrokenEnvironment) as error:
        return [], f"{type(error).__name__}: {error}"
    if outcome.ended != "done" or not outcome.exact:
        return [], f"{outcome.ended}: {outcome.said}"
    return outcome.rounds, ""


def _row(name: str, found: Mapping[str, Sequence[Sequence[float]]]) -> tuple[str, ...]:
    seconds = [each for turn in found[name] for each in turn]
    if not seconds:
        return (name, "-", "-", "-", "")
    least = LEAST.get(name)
    seen = ratios(found).get(name)
    told = ("", "") if least is None or seen is None else (f"{seen:.1f} x", f"{least:g} x")
    return (name, f"{median(seconds):.2f}", f"{min(seconds):.2f}..{max(seconds):.2f}", *told)
