"""Compares two models range by range: which tensors differ, where first, in how many elements.

Elements are compared bit by bit, so equal NaNs are equal and -0.0 differs from 0.0. If both sources
have block hashes, blocks with equal hashes are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.model.digest import BLOCK_BYTES, HasBlockHashes, block_count
from streamlink.model.interfaces import ModelSource
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec, Segment, require_same

__all__ = ["TensorDifference", "difference"]


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """Tensor ``name`` differs in ``count`` elements, first at byte ``offset`` inside the tensor."""

    name: str
    offset: int
    count: int

    def __str__(self) -> str:
        return f"{self.name}: {self.count} elements differ, the first at byte {self.offset}"


def difference(ours: ModelSource, theirs: ModelSource) -> Iterator[TensorDifference]:
    """Yield the tensors that differ, in logical order; nothing for equal models.

    Raises:
        SpecMismatch: the models do not have the same tensors (raised by the first ``next``).
    """
    require_same(ours.spec, theirs.spec, "the second source", "the first source")
    found: TensorDifference | None = None
    for piece in _differing_pieces(ours, theirs):
        if found is None or found.name != piece.name:
            if found is not None:
                yield found
            found = piece
        else:
            found = TensorDifference(found.name, found.offset, found.count + piece.count)
    if found is not None:
        yield found


def _differing_pieces(ours: ModelSource, theirs: ModelSource) -> Iterator[TensorDifference]:
    """Yield the differences of each block; a tensor that spans blocks appears once for each."""
    spec = ours.spec
    # An element that crosses a block boundary is compared with the first block only, so that it is
    # not counted twice.
    compared = 0
    for block in range(block_count(spec.nbytes)):
        if _has_equal_hash(ours, theirs, block):
            continue
        start = block * BLOCK_BYTES
        length = min(BLOCK_BYTES, spec.nbytes - start)
        # Equal blocks cost one comparison in C; only the others are looked at element by element.
        if join(ours.read(start, length)) == join(theirs.read(start, length)):
            continue
        for segment in spec.segments(start, length):
            first, stop = _whole_elements(spec, segment)
            first = max(first, compared)
            if first < stop:
                yield from _compare(ours, theirs, segment, first, stop)
                compared = stop


def _has_equal_hash(ours: ModelSource, theirs: ModelSource, block: int) -> bool:
    if not (isinstance(ours, HasBlockHashes) and isinstance(theirs, HasBlockHashes)):
        return False
    block_hash = ours.block_hash(block)
    return block_hash is not None and block_hash == theirs.block_hash(block)


def _whole_elements(spec: ModelSpec, segment: Segment) -> tuple[int, int]:
    """Return the logical range of the segment, widened to whole elements."""
    base, itemsize = spec.offset_of(segment.index), segment.tensor.itemsize
    first = segment.start // itemsize * itemsize
    # The second is rounded up: minus the floor of the negative is the ceiling.
    return base + first, base - (-segment.stop // itemsize) * itemsize


def _compare(
    ours: ModelSource, theirs: ModelSource, segment: Segment, start: int, stop: int
) -> Iterator[TensorDifference]:
    length = stop - start
    itemsize = segment.tensor.itemsize
    mine = _elements(join(ours.read(start, length)), itemsize)
    other = _elements(join(theirs.read(start, length)), itemsize)
    differing = np.flatnonzero(mine != other)
    if differing.size:
        offset = start - ours.spec.offset_of(segment.index) + int(differing[0]) * itemsize
        bytes_of = slice(int(differing[0]) * itemsize, (int(differing[0]) + 1) * itemsize)
        inside = np.flatnonzero(mine.view(np.uint8)[bytes_of] != other.view(np.uint8)[bytes_of])
        yield TensorDifference(segment.tensor.name, offset + int(inside[0]), int(differing.size))


def _elements(view: memoryview, itemsize: int) -> npt.NDArray[Any]:
    """Return the bytes as unsigned integers of the elements' size, so that bits are compared."""
    return np.frombuffer(view, f"<u{itemsize}")
