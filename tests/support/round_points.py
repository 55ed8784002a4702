"""A server that is killed at a point of its rounds, by what the rounds themselves do there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamlink.rounds.combine import Combiner
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import Happening
from streamlink.rounds.ledger import Ledger
from streamlink.rounds.scatter import Plan
from streamlink.rounds.stored import SpooledUpdate

__all__ = ["POINTS", "RoundPoint"]

_EVENTS = {
    "offering": Happening.TASK_OFFERED,
    "arrived": Happening.UPDATE_ARRIVED,
    "computed": Happening.AFTER_AGGREGATION,
    "committed": Happening.AFTER_PERSIST,
    "between rounds": Happening.ROUND_DONE,
}
_CALLS: dict[str, tuple[type, str]] = {
    "stored": (SpooledUpdate, "write"),
    "aggregating": (Combiner, "compute"),
    "intended": (Ledger, "intend"),
    "noted": (Ledger, "note"),
    "all done": (ScatterAndGather, "run"),
}
POINTS = (*_EVENTS, *_CALLS)
"""Where a server dies: after an event, or after a call.

*offering*: a client was asked. *stored*: an update is in the spool, its client does not know.
*arrived*: and may know. *aggregating*: part of the mean is computed, *computed*: all of it.
*intended*: the ledger knows that the store's commit is next. *committed*: it was; the ledger does
not know. *noted*: it does. *between rounds*: nothing is under way. *all done*: no client knows.
"""


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """The server dies at ``point``, in round ``round``, the ``count``-th time."""

    point: str
    round: int = 0
    count: int = 1

    def arm(self) -> None:
        """Arrange for it, in the process that is to die."""
        rounds, left = [-1], [self.count]

        def strike() -> None:
            if self.point == "all done" or rounds[0] == self.round:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        def heard(what: Happening) -> None:
            if what is Happening.ROUND_STARTED:
                rounds[0] += 1
            if what is _EVENTS.get(self.point):
                strike()

        _after(Plan, "tell", lambda _, what, *rest: heard(what))
        if self.point in _CALLS:
            _after(*_CALLS[self.point], lambda *_: strike())


def _after(kind: type, method: str, act: Callable[..., object]) -> None:
    original = getattr(kind, method)

    def wrapped(*given: Any, **named: Any) -> Any:
        result = original(*given, **named)
        act(*given)
        return result

    setattr(kind, method, wrapped)
