"""What happens in a round, told to whoever embeds it, and the filters that may change a model.

Facts go out as ``RoundEvent``s, in order, from the thread that runs the rounds. A filter is a
function that every range of a model goes through, or chooses one for each model (``PerModel``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy.typing as npt

from streamlink.link import Attempt, Update
from streamlink.model.computed import RangeFunction, map_model
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import TensorSpec
from streamlink.rounds.report import RoundReport

__all__ = [
    "Filter",
    "Happening",
    "ModelFacts",
    "PerModel",
    "RoundEvent",
    "filtered",
    "functions_of",
    "on_floats",
]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Which model it is that passes a filter."""

    attempt: Attempt
    """The job, round and attempt it belongs to."""
    peer: str
    """Whom it goes to, or comes from: on the server a client, at a client the server."""
    update: Update = Update()
    """Of an update: its weight, and whether it is values or differences."""


class PerModel:
    """A filter that depends on the model: ``choose(facts)`` gives the function for one of them.

    Args:
        choose: asked once for each model that passes, before its first range.
    """

    def __init__(self, choose: Callable[[ModelFacts], RangeFunction]) -> None:
        self.choose = choose


Filter = RangeFunction | PerModel
"""``function(tensor, start, values)`` for every range of every model, or a ``PerModel``."""


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


def on_floats(function: RangeFunction) -> RangeFunction:
    """Return ``function``, applied to floating point and complex tensors only."""

    def apply(tensor: TensorSpec, start: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        is_exact = tensor.dtype[0] in "IU" or tensor.dtype == "BOOL"
        return values if is_exact else function(tensor, start, values)

    return apply


def functions_of(filters: Sequence[Filter], facts: ModelFacts) -> list[RangeFunction]:
    """Return what the filters do to one model, the first one first."""
    return [each.choose(facts) if isinstance(each, PerModel) else each for each in filters]


def filtered(source: ModelSource, functions: Sequence[RangeFunction]) -> ModelSource:
    """Return ``source`` seen through ``functions``, the first one first."""
    for function in functions:
        source = map_model(source, function)
    return source
