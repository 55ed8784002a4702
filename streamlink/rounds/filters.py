"""Filters: functions that change a model or an update on its way.

A filter is a function that every range of a model passes through, or it chooses such a function for
each model (``PerModel``). The server applies filters in both directions, an executor to its update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from streamlink.link import Attempt, Update
from streamlink.model.computed import RangeFunction, map_model
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import TensorSpec

__all__ = ["Filter", "ModelFacts", "PerModel", "filtered", "functions_of", "on_floats"]


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
