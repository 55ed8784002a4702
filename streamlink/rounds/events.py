"""What happens in a round, told to whoever embeds it, and the filters that may change a model.

Facts go out as ``RoundEvent``s, in order, from the thread that runs the rounds. A filter is asked
once for each model that travels and gives the function that every range of it goes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from streamlink.link import Attempt
from streamlink.model.interfaces import ModelSource
from streamlink.model.mapped import RangeFunction, map_model

__all__ = ["Filter", "Happening", "RoundEvent", "always", "filtered", "functions_of"]

Filter = Callable[[Attempt, str], RangeFunction]
"""``filter(attempt, peer)`` returns the function that is applied to the elements of one model."""


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
    ROUND_FAILED = "round failed"
    """No new model; ``detail`` says why."""


@dataclass(frozen=True, slots=True)
class RoundEvent:
    """One thing that happened."""

    what: Happening
    attempt: Attempt
    peer: str = ""
    detail: str = ""


def always(function: RangeFunction) -> Filter:
    """Return the filter that applies ``function`` to every model, whoever it is of or for."""
    return lambda attempt, peer: function


def functions_of(filters: Sequence[Filter], attempt: Attempt, peer: str) -> list[RangeFunction]:
    """Ask every filter what it does to the model of this attempt, from or for ``peer``."""
    return [each(attempt, peer) for each in filters]


def filtered(source: ModelSource, functions: Sequence[RangeFunction]) -> ModelSource:
    """Return ``source`` seen through ``functions``, the first one first."""
    for function in functions:
        source = map_model(source, function)
    return source
