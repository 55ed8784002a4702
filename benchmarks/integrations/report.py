"""The table: what each line of a framework took, and what was asked of it, met or not.

A row is one case on one kind of machine, at one commit or at several that were measured together
(``kept.Checkout``); it names all of them. A run that was ended because memory or its time ran out
is a result: its peaks and the time in its calls so far are lower bounds, marked ``>``, and a ratio
to them is an upper bound, marked ``<``. The rounds that it completed count.

Machines of one kind differ by a factor of two, and the same one changes within hours. So a ratio is
that of each run to the nearest in time of those it is compared with, and the median of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median

from rich.console import Console

from benchmarks.integrations.cases import Case, Outcome, lines_of, short
from benchmarks.tables import print_table

__all__ = ["BESIDE_BARE", "COLUMNS", "failed", "print_report", "rows_of", "verdicts"]

BESIDE_BARE = "to bare: calls, round, server, client"
COLUMNS = ("case", "line", "commit", "machine", "runs", "ended", "exact", "calls, s", "round, s",
           "server, MB", "client, MB", BESIDE_BARE, "to tuned", "asked for")  # fmt: skip
MiB = 1 << 20
ROUND_MOST = {"first": 2 / 3, "second": 1 / 2}
Figure = Callable[[Outcome], float | None]


def calls(outcome: Outcome) -> float | None:
    """Return the seconds inside the framework's send and receive calls, over all sides."""
    found = [each["send"] + each["receive"] for each in outcome.calls.values()]
    return sum(found) if sum(found) and outcome.ended != "failed" else None


def round_seconds(outcome: Outcome) -> float | None:
    """Return the seconds of a round."""
    return median(outcome.rounds) if outcome.rounds and outcome.ended != "failed" else None


def server(outcome: Outcome) -> float | None:
    """Return the server's peak over its base (bytes), also of a run that came to no end."""
    memory = outcome.memory.get("server")
    return memory.over_base_bytes if memory else None


def client(outcome: Outcome) -> float | None:
    """Return the largest client's peak over its base (bytes)."""
    # Not what set the case up, or gave the order: "setup", "driver".
    return max((each.over_base_bytes for side, each in outcome.memory.items()
                if side.startswith("site")), default=None)  # fmt: skip


FIGURES: tuple[Figure, ...] = (calls, round_seconds, server, client)
MEMORY = FIGURES[2:]
GROWING = (calls, *MEMORY)
"""Figures that a run which was ended early would have more of."""


def values(outcomes: Sequence[Outcome], figure: Figure) -> list[float]:
    """Return what the runs have of a figure."""
    return [value for each in outcomes if (value := figure(each)) is not None]


def verdicts(ours: Sequence[Outcome], bare: Sequence[Outcome]) -> list[tuple[str, bool | None]]:
    """Return what was asked of a line, and whether it was met; None: there is nothing to tell."""
    case = ours[0].case
    found = [("exact", all(each.exact for each in ours)),
             ("calls ≤ 1/5", _ratio_met(ours, bare, calls, 1 / 5)),
             (f"round ≤ {'2/3' if case.line == 'first' else '1/2'}",
              _ratio_met(ours, bare, round_seconds, ROUND_MOST[case.line])),
             _server_verdict(case, ours, bare),
             ("client ≤ 0.6", _ratio_met(ours, bare, client, 0.6))]  # fmt: skip
    most = [value <= 1.1 * case.size_bytes + 64 * MiB for value in values(ours, client)]
    return [*found, ("client ≤ 1.1 model + 64 MiB", all(most) if most else None)]


def _server_verdict(
    case: Case, ours: Sequence[Outcome], bare: Sequence[Outcome]
) -> tuple[str, bool | None]:
    if case.line == "first":
        return "server ≤ 0.6", _ratio_met(ours, bare, server, 0.6)
    most = [value <= 256 * MiB + 0.1 * case.size_bytes for value in values(ours, server)]
    return "server ≤ 256 MiB + 0.1 model", all(most) if most else None


def failed(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the runs with streamlink that failed.

    In the first line the framework's own aggregation holds the models. So a run of it that is out
    of memory counts as a result if the framework alone never completed the case either.
    """
    alone = {each.case for each in outcomes if each.case.line == "bare" and each.ended == "done"}

    def is_result(each: Outcome) -> bool:
        is_first, bare = each.case.line == "first", replace(each.case, line="bare")
        return each.ended == "out of memory" and is_first and bare not in alone

    ours = [each for each in outcomes if each.case.is_ours]
    return [each for each in ours if not (_is_right(each) or is_result(each))]


def _is_right(outcome: Outcome) -> bool:
    is_exact = outcome.exact is True or bool(outcome.case.failure)
    return outcome.ended == "done" and is_exact and not outcome.left_behind


def _ratio_met(
    ours: Sequence[Outcome], bare: Sequence[Outcome], figure: Figure, most: float
) -> bool | None:
    ratio = _ratio(ours, bare, figure)
    if ratio is None or (ratio > most and _bound("<", bare, figure)):
        return None
    return ratio <= most


def _ratio(ours: Sequence[Outcome], other: Sequence[Outcome], figure: Figure) -> float | None:
    ratios = [a / b for each in ours if (a := figure(each)) is not None
              and (b := _nearest(each, other, figure))]  # fmt: skip
    return median(ratios) if ratios else None


def _nearest(run: Outcome, others: Sequence[Outcome], figure: Figure) -> float | None:
    """Return the figure of the run that was nearest in time to this one."""
    found = [(abs(_time(each) - _time(run)), value) for each in others
             if (value := figure(each)) is not None]  # fmt: skip
    nearest = min(found, default=(0.0, 0.0))[0]
    return median(value for away, value in found if away == nearest) if found else None


def _time(run: Outcome) -> float:
    return datetime.fromisoformat(run.at).timestamp() if run.at else 0.0


def _ratios(ours: Sequence[Outcome], other: Sequence[Outcome]) -> str:
    """Return the ratios of all figures; nothing where the other line was not run."""
    if not other or ours[0].case == other[0].case:
        return ""
    found = [(figure, _ratio(ours, other, figure)) for figure in FIGURES]
    return ", ".join("-" if ratio is None else f"{_bound('<', other, figure)}{ratio:.2f}"
                     for figure, ratio in found)  # fmt: skip


def _bound(sign: str, runs: Sequence[Outcome], figure: Figure) -> str:
    """Return ``sign`` where a figure is of runs that were ended before they had all of it."""
    return sign if figure in GROWING and any(each.ended != "done" for each in runs) else ""


def rows_of(
    outcomes: Sequence[Outcome], counts: Callable[[Outcome], bool] | None = None
) -> list[tuple[str, ...]]:
    """Return one row for each case that was run on a kind of machine.

    Args:
        outcomes: all runs, in any order.
        counts: whether a run is one of those that were measured together; the others, and all of
            them with None, are told apart by their commits.
    """
    groups: dict[tuple[str, str, Case], list[Outcome]] = {}
    for each in sorted(outcomes, key=_place):
        commit = "" if counts and counts(each) else each.commit
        groups.setdefault((each.where, commit, each.case), []).append(each)

    def beside(where: str, commit: str, case: Case, line: str) -> list[Outcome]:
        has_line = line in lines_of(case.framework)
        return groups.get((where, commit, replace(case, line=line)), []) if has_line else []

    return [_row(runs, beside(*key, "bare"), beside(*key, "tuned")) for key, runs in groups.items()]


def _place(outcome: Outcome) -> tuple[str, int, int, int]:
    """Return where a run stands in the table, whenever it was run."""
    case = outcome.case
    line = lines_of(case.framework).index(case.line)
    return case.framework, case.size_bytes, -case.arrays, line


def _row(
    runs: Sequence[Outcome], bare: Sequence[Outcome], tuned: Sequence[Outcome]
) -> tuple[str, ...]:
    case = runs[0].case
    ended = ", ".join(dict.fromkeys(_end_of(each) for each in runs))
    exact = {True: "yes", False: "NO", None: "-"}[_all([each.exact for each in runs])]
    figures = [_bound(">", runs, figure) + _spread(found, 1e6 if figure in MEMORY else 1)
               if (found := values(runs, figure)) else "-"
               for figure in FIGURES]  # fmt: skip
    asked = verdicts(runs, bare) if case.is_ours and not case.failure else []
    told = "; ".join(f"{name} {_met(met)}" for name, met in asked)
    left = [each for outcome in runs for each in outcome.left_behind]
    told += f"; LEFT BEHIND {left}" if left else ""
    against = (_ratios(runs, bare), _ratios(runs, tuned) if case.is_ours else "")
    commits = ", ".join(dict.fromkeys(each.commit for each in runs))
    head = (_named(case), case.line, commits, runs[0].where, str(len(runs)), ended, exact)
    return (*head, *figures, *against, told)


def _end_of(outcome: Outcome) -> str:
    if outcome.ended == "timeout":
        return f"not done within {outcome.seconds / 60:.0f} minutes"
    return outcome.ended


def _named(case: Case) -> str:
    words = [f"{case.framework} {short(case.size_bytes)} in {case.arrays}"]
    words.append(f"{case.clients} client{'s' if case.clients > 1 else ''}")
    extra = (case.dtype, case.mode, case.failure)
    return ", ".join(words + [each for each in extra if each not in ("float32", "processes", None)])


def _met(met: bool | None) -> str:
    return {True: "met", False: "NOT MET", None: "-"}[met]


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    told = [each for each in verdicts if each is not None]
    return all(told) if told else None


def _spread(found: Sequence[float], unit: float) -> str:
    digits = 2 if unit == 1 else 0
    low, middle, high = (
        f"{each / unit:.{digits}f}" for each in (min(found), median(found), max(found))
    )
    return middle if len(found) == 1 else f"{middle} ({low}..{high})"


def print_report(
    outcomes: Sequence[Outcome],
    console: Console | None = None,
    *,
    counts: Callable[[Outcome], bool] | None = None,
) -> None:
    """Print the table of all runs."""
    print_table(console or Console(), COLUMNS, rows_of(outcomes, counts))
