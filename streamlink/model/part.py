"""A part of a model: some of its tensors, in the model's order, as a model of its own.

Parameter-efficient training asks for adapters or heads only. The server names them by patterns, and
both ends make the same part of the same spec; the bytes are those of the whole model's source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate

from streamlink.errors import ModelError, SpecMismatch
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec, TensorSpec

__all__ = ["PartSource", "part_of", "part_source"]

_WILDCARDS = re.compile(r"[*?\[]")


def part_of(spec: ModelSpec, patterns: Sequence[str]) -> ModelSpec:
    """Return the tensors whose names match any of the patterns, in the order of ``spec``.

    Args:
        spec: the whole model.
        patterns: names, with ``*``, ``?`` and ``[...]`` as in file names, upper and lower case
            told apart; none at all: the whole model.

    Raises:
        ModelError: a pattern matches no tensor.
    """
    if not patterns:
        return spec
    wanted: set[str] = set()
    for pattern in patterns:
        matches = set(_matches(pattern, spec))
        if not matches:
            raise ModelError(f"no tensor's name matches the pattern {pattern!r}; {_examples(spec)}")
        wanted |= matches
    if len(wanted) == len(spec.tensors):
        return spec
    return ModelSpec(tuple(tensor for tensor in spec.tensors if tensor.name in wanted))


def part_source(source: ModelSource, part: ModelSpec) -> ModelSource:
    """Return a source of just ``part``: ``source`` itself where that is all of it.

    Raises:
        SpecMismatch: ``part`` is no part of the source's model; see ``PartSource``.
    """
    return source if source.spec == part else PartSource(source, part)


class PartSource:
    """Gives some tensors of another source as a model of their own; its reads are passed on.

    Tensors that lie side by side are read at once, so what a read costs is the pieces it falls
    into, whatever the number of tensors.

    Args:
        source: the whole model; closed with this one.
        part: some of its tensors, or all, in an order of its own.

    Raises:
        SpecMismatch: a tensor is not in the source, or is another one there.
    """

    def __init__(self, source: ModelSource, part: ModelSpec) -> None:
        self._source = source
        self._part = part
        self._starts, self._shifts = _runs(source.spec, part)

    @property
    def spec(self) -> ModelSpec:
        """The part's tensors, in logical order."""
        return self._part

    def read(self, offset: int, length: int) -> Payload:
        """Read ``[offset, offset + length)`` of the part, as the whole model's source gives it."""
        self._part.check_range(offset, length)
        views: list[memoryview] = []
        for start, nbytes in self._pieces(offset, offset + length):
            views += self._source.read(start, nbytes)
        return tuple(views)

    def close(self) -> None:
        """Close the whole model's source."""
        self._source.close()

    def _pieces(self, offset: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (offset in the source, bytes) of what lies under bytes ``[offset, stop)``."""
        run = bisect_right(self._starts, offset) - 1
        while offset < stop:
            end = min(stop, self._starts[run + 1])
            yield offset + self._shifts[run], end - offset
            offset, run = end, run + 1


def _runs(whole: ModelSpec, part: ModelSpec) -> tuple[list[int], list[int]]:
    """Return where each run of bytes begins in the part, and how far it is moved in the whole.

    The part's end closes the first list.
    """
    starts: list[int] = []
    shifts: list[int] = []
    position = 0
    for index, tensor in zip(_positions(whole, part.tensors), part.tensors, strict=True):
        if tensor.nbytes:
            shift = whole.offset_of(index) - position
            if not shifts or shift != shifts[-1]:
                starts.append(position)
                shifts.append(shift)
            position += tensor.nbytes
    starts.append(position)
    return starts, shifts


def _positions(whole: ModelSpec, tensors: Iterable[TensorSpec]) -> Iterator[int]:
    """Yield the position of each tensor in the whole model."""
    names = whole.names
    for tensor in tensors:
        index = names.get(tensor.name)
        if index is None:
            raise SpecMismatch(f"tensor {tensor.name!r} of the part is not in the model")
        found = whole.tensors[index]
        if found != tensor:
            raise SpecMismatch(
                f"tensor {tensor.name!r} is {tensor.dtype} of shape {tensor.shape} in the part and "
                f"{found.dtype} of shape {found.shape} in the model"
            )
        yield index


def _matches(pattern: str, spec: ModelSpec) -> Iterable[str]:
    if not _WILDCARDS.search(pattern):  # a name; a thousand of them need no thousand searches
        return [pattern] if pattern in spec.names else []
    match = re.compile(translate(pattern)).match
    return (tensor.name for tensor in spec.tensors if match(tensor.name))


def _examples(spec: ModelSpec) -> str:
    if not spec.tensors:
        return "the model has no tensors"
    names = ", ".join(repr(tensor.name) for tensor in spec.tensors[:3])
    return f"names are like {names}"
