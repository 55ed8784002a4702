"""Goes through the state of an aggregator, as a round does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.state import StateKeeper
from streamlink.rounds.aggregate.state_step import StateStep

__all__ = ["advanced", "change", "passed", "pieces"]

ALL = 1 << 30


def pieces(
    step: StateStep, tensor: TensorSpec, longest: int = ALL
) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the state of a tensor piece by piece, and put what the caller has made of each."""
    done = 0
    while done < tensor.count:
        state = step.take(tensor.numpy_dtype, min(longest, tensor.count - done))
        yield state
        step.put(state)
        done += state[0].size if state else tensor.count


def passed(step: StateStep, spec: ModelSpec) -> list[str]:
    """Return a whole state as text, tensor by tensor."""
    seen = []
    for tensor in spec.tensors:
        copies = [[each.copy() for each in state] for state in pieces(step, tensor)]
        slots = [np.concatenate(each) for each in zip(*copies, strict=True)]
        seen.append(str([(slot.dtype.name, slot.tolist()) for slot in slots]))
    return seen


def change(step: StateStep, spec: ModelSpec, add: float, longest: int = ALL) -> None:
    """Add a number to every element of a state."""
    for tensor in spec.tensors:
        for state in pieces(step, tensor, longest):
            for each in state:
                each += each.dtype.type(add)


def advanced(keeper: StateKeeper, spec: ModelSpec, add: float, longest: int = ALL) -> None:
    """Take a step in which a number is added to every element."""
    step = keeper.begin()
    change(step, spec, add, longest)
    step.commit()
    step.close()
    keeper.advance()
