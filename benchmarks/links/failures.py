"""Which failures are final, and which a later run makes good.

What fails for a peer is a result: it is shown, and not tried again. What this machine lacks, a
program or a line, is none: it is named as that, and each invocation tries it again. What fails for
streamlink or for the raw socket is mostly a fault of the moment, and would leave every figure
beside it without its reference, so the next invocation tries such a case once more. Nothing of it
is forgotten: a failure stays in the file of raw results, and is reported beside the run that made
it good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from benchmarks.links.cases import Run
from benchmarks.links.plans import OURS, RAW

__all__ = ["NOT_TRIED", "TIMED_OUT", "given_up", "is_ours", "is_unavailable", "kind_of",
           "made_good", "sentence_of", "standing"]  # fmt: skip

NOT_INSTALLED = ("NotInstalled", "NoEnvironment", "BrokenEnvironment", "OSError: there is no ")
"""How errors begin where this machine has not the program of a peer; the last one is that of kept
runs of before."""
UNAVAILABLE = (*NOT_INSTALLED, "OSError")
"""How errors begin where this machine lacks what a peer or a line needs: a later run may have it;
see ``measuring.measure``."""
TIMED_OUT = "TimedOut"
"""How the error begins of a run that took too long; see ``measuring.TimedOut``."""
NOT_TRIED = "not tried again: "
"""How the error begins that stands for a run that was never begun."""
MOST_TRIES = 2


class Failing(Protocol):
    """A run of any kind."""

    error: str

    @property
    def case(self) -> Any:
        """What was run; cases can be compared."""


R = TypeVar("R", bound=Failing)


def is_ours(run: Failing) -> bool:
    """Tell whether a run moves the model by streamlink or a raw socket; the two-site job does."""
    if not isinstance(run, Run):
        return True
    return run.case.peer == RAW or run.case.peer.startswith(OURS)


def is_unavailable(run: Failing) -> bool:
    """Tell whether a run failed because this machine lacks something, which may be there later."""
    return run.error.startswith(UNAVAILABLE)


def kind_of(error: str) -> str:
    """Return in two words what an error means: what failed, or is not there."""
    if error.startswith(NOT_INSTALLED):
        return "not installed"
    return "not available" if error.startswith(UNAVAILABLE) else "failed"


def sentence_of(case: object, error: str) -> str:
    """Return why there is nothing of a case, and whether it is tried again."""
    if not error.startswith(UNAVAILABLE):
        return f"{case}: {error}"
    reason = error.partition(": ")[2] or error
    return f"{case}: {kind_of(error)}, and tried again by the next invocation: {reason}"


def given_up(runs: Iterable[Failing]) -> set[Any]:
    """Return the cases that are not run any more: a peer's failed once, ours twice in a row.

    Args:
        runs: in the order in which they were run, without those of what could not be had.
    """
    tries: Counter[Any] = Counter()
    over: set[Any] = set()
    for run in runs:
        if not run.error:
            tries[run.case] = 0
        elif not run.error.startswith(NOT_TRIED):
            tries[run.case] += 1
            if tries[run.case] >= (MOST_TRIES if is_ours(run) else 1):
                over.add(run.case)
    return over


def standing(runs: Sequence[R]) -> list[R]:
    """Return the runs without the failures that a later run of their case has made good."""
    return [run for run, is_good_later in _looked_ahead(runs) if not is_good_later]


def made_good(runs: Sequence[R]) -> list[str]:
    """Return a sentence for each failure that a later run has made good."""
    return [f"{run.case}: {kind_of(run.error)}, and not when it was tried again: {run.error}"
            for run, is_good_later in _looked_ahead(runs) if is_good_later]  # fmt: skip


def _looked_ahead(runs: Sequence[R]) -> Iterator[tuple[R, bool]]:
    """Yield each run, and whether it is a failure that a later one has made good."""
    good_at = {run.case: at for at, run in enumerate(runs) if not run.error}
    for at, run in enumerate(runs):
        may_be = bool(run.error) and (is_ours(run) or is_unavailable(run))
        yield run, may_be and good_at.get(run.case, -1) > at
