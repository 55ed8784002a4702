"""What happens in a round, told to whoever embeds it, and the filters that may change a model.

Facts go out as ``RoundEvent``s, in order, from the thread that runs the rounds. A filter is a
function that every range of a model goes through, or chooses one for each model (``PerModel``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamlink.link import Attempt
from streamlink.rounds.report import RoundReport

__all__ = ["Happening", "RoundEvent"]


class Happening(Enum):
    """What a ``RoundEvent`` is about, in the order of a round."""

    ROUND_STARTED = "round started"
    TASK_OFFERED = "task offered"
    """To ``peer``."""
    UPDATE_ARRIVED = "update arrived"
    """Of ``peer``, whole. Only where updates are spooled: in lockstep all end together."""
    CLIENT_DROPPED = "client dropped"
    """``peer`` takes no part any more; ``detail`` says why."""
    BEFORE_AGGREGATION = "before aggregation"
    AFTER_AGGREGATION = "after aggregation"
    BEFORE_PERSIST = "before persist"
    AFTER_PERSIST = "after persist"
    ROUND_DONE = "round done"
    """``report`` says what it gave."""
    ROUND_FAILED = "round failed"
    """No new model; ``detail`` says why."""


@dataclass(frozen=True, slots=True)
class RoundEvent:
    """One thing that happened."""

    what: Happening
    attempt: Attempt
    peer: str = ""
    detail: str = ""
    report: RoundReport | None = None
    """What the round gave; of ``ROUND_DONE`` only."""
