"""Events of a round, for the program that embeds the rounds.

The rounds call ``on_event`` with each ``RoundEvent``, in order, from the thread that runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamlink.link import Attempt
from streamlink.rounds.report import RoundReport

__all__ = ["EventKind", "RoundEvent"]


class EventKind(Enum):
    """What a ``RoundEvent`` reports, in the order of a round."""

    ROUND_STARTED = "round started"
    TASK_OFFERED = "task offered"
    """To ``peer_name``."""
    UPDATE_ARRIVED = "update arrived"
    """Of ``peer_name``, whole. Only where updates are spooled: in lockstep all end together."""
    CLIENT_DROPPED = "client dropped"
    """``peer_name`` failed or was lost; ``detail`` says why. Through a spool a lost client may come
    back: then ``TASK_OFFERED`` follows."""
    BEFORE_AGGREGATION = "before aggregation"
    AFTER_AGGREGATION = "after aggregation"
    BEFORE_PERSIST = "before persist"
    AFTER_PERSIST = "after persist"
    ROUND_DONE = "round done"
    """``report`` has its result."""
    ROUND_FAILED = "round failed"
    """No new model; ``detail`` says why."""
    EVALUATION_STARTED = "evaluation started"
    """Of the round's new model, where ``evaluate_every`` wants it; after ``ROUND_DONE``."""
    CLIENT_EVALUATED = "client evaluated"
    """``peer_name`` has answered with its metrics."""
    CLIENT_NOT_EVALUATED = "client not evaluated"
    """``peer_name`` was asked in vain; ``detail`` says why."""
    EVALUATED = "evaluated"
    """``report`` has the result, too."""
    BEST_FOUND = "best model found"
    """The model is the best so far, by ``best_metric``; ``detail`` has the value."""
    BEST_KEPT = "best model kept"
    """Its copy is in the store for the best model; only where there is one."""
    STOPPED_EARLY = "stopped early"
    """No round follows; ``detail`` says why (``patience``)."""


@dataclass(frozen=True, slots=True)
class RoundEvent:
    """One event of a round."""

    kind: EventKind
    attempt: Attempt
    """The job, round and attempt it belongs to."""
    peer_name: str = ""
    """The client it is about; empty: none."""
    detail: str = ""
    """Why, where there is a reason to give."""
    report: RoundReport | None = None
    """The result of the round; of ``ROUND_DONE``, and of ``EVALUATED`` and later."""
