"""Filters: functions that change a model on its way, such as clipping, noise or quantization.

Every range of a model passes through the filters of its direction, the first one first: those of
``ScatterAndGather`` (``filters_down``, ``filters_up``) on the server, and an executor's
``filter_up`` at a client. Nothing is copied or computed ahead, so a filter costs no memory.
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

__all__ = ["Filter", "FilterContext", "FilterFactory", "RangeFunction", "on_floats"]


@dataclass(frozen=True, slots=True)
class FilterContext:
    """The model that a filter is made for."""

    attempt: Attempt
    """The job, round and attempt it belongs to."""
    peer_name: str
    """The other end: on the server the client's name, at a client ``server``."""
    update: Update = Update()
    """Of an update: its weight, and whether it is values or differences."""


class FilterFactory:
    """A filter that depends on the model: ``make(context)`` returns the function for one model.

    Args:
        make: called once for each model, before its first range is read. Where an update is resumed
            by a new process it is called again with the same context, and must return the same
            function: draw noise from a seed that is made of the context.
    """

    def __init__(self, make: Callable[[FilterContext], RangeFunction]) -> None:
        self.make = make


Filter = RangeFunction | FilterFactory
"""A function of ``(tensor, start, values)`` for every range of every model, or a factory of such
functions; see ``RangeFunction`` for shapes and dtypes."""


def on_floats(function: RangeFunction) -> RangeFunction:
    """Return ``function``, applied to floating point and complex tensors only.

    Integers and booleans pass unchanged: a count or an index must not be clipped or get noise.
    """

    def apply(tensor: TensorSpec, start: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        is_exact = tensor.dtype[0] in "IU" or tensor.dtype == "BOOL"
        return values if is_exact else function(tensor, start, values)

    return apply


def functions_of(filters: Sequence[Filter], context: FilterContext) -> list[RangeFunction]:
    """Return the functions that ``filters`` apply to one model, the first one first."""
    return [each.make(context) if isinstance(each, FilterFactory) else each for each in filters]


def filtered(source: ModelSource, functions: Sequence[RangeFunction]) -> ModelSource:
    """Return ``source`` seen through ``functions``, the first one first."""
    for function in functions:
        source = map_model(source, function)
    return source
