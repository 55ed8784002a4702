"""A part of a model: some of its tensors, in the model's order, as a model of its own.

Parameter-efficient training returns only adapters or heads. The server names them by patterns, and
both ends derive the same part from the same spec. ``PartSource`` reads a part from a source of the
whole model; ``PartSink`` filters a part from the bytes of the whole model as they arrive.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from fnmatch import translate

from streamlink.errors import ModelError, SpecMismatch
from streamlink.model.interfaces import (
    Check,
    ModelSink,
    ModelSource,
    ModelStore,
    Payload,
    Progress,
    watch,
)
from streamlink.model.spec import ModelSpec, TensorSpec

__all__ = [
    "PartSink",
    "PartSource",
    "part_of",
    "part_sink",
    "part_source",
    "place_in",
    "require_part",
]

_WILDCARDS = re.compile(r"[*?\[]")


def part_of(spec: ModelSpec, patterns: Sequence[str]) -> ModelSpec:
    """Return the tensors whose names match any of the patterns, in the order of ``spec``.

    Args:
        spec: the whole model.
        patterns: names, with ``*``, ``?`` and ``[...]`` as in file names, case-sensitive. Without
            any pattern the part is the whole model.

    Raises:
        ModelError: a pattern matches no tensor.
    """
    if not patterns:
        return spec
    # A set of names, not a list of tensors: patterns may overlap, and the order is the model's, so
    # that both ends derive the same part from patterns in any order.
    wanted: set[str] = set()
    for pattern in patterns:
        matches = set(_matches(pattern, spec))
        if not matches:
            raise ModelError(f"no tensor's name matches the pattern {pattern!r}; {_examples(spec)}")
        wanted |= matches
    # The same object: ``part_source`` and ``part_sink`` then compare it quickly, and add no layer.
    if len(wanted) == len(spec.tensors):
        return spec
    return ModelSpec(tuple(tensor for tensor in spec.tensors if tensor.name in wanted))


def require_part(store: ModelStore, patterns: Sequence[str]) -> None:
    """Check that the model in ``store`` has the part; without patterns it is not opened.

    Raises:
        ModelError: a pattern matches no tensor.
        StoreError: the store holds no model, or the model cannot be read.
    """
    if patterns:
        with closing(store.open()) as source:
            part_of(source.spec, patterns)


def place_in(whole: ModelSpec, part: ModelSpec, offset: int) -> int:
    """Return the offset in ``whole`` of byte ``offset`` of ``part``; the end maps to the end.

    Raises:
        ValueError: the part has no such byte.
    """
    if offset == part.nbytes:
        return whole.nbytes
    index, inside = part.locate(offset)
    return whole.offset_of(whole.names[part.tensors[index].name]) + inside


def part_source(source: ModelSource, part: ModelSpec) -> ModelSource:
    """Return a source of ``part`` only: ``source`` itself if the part is the whole model.

    Raises:
        SpecMismatch: ``part`` is not a part of the source's model; see ``PartSource``.
    """
    return source if source.spec == part else PartSource(source, part)


def part_sink(sink: ModelSink, whole: ModelSpec) -> ModelSink:
    """Return a sink for the model ``whole`` that passes on the tensors that ``sink`` has.

    It is ``sink`` itself if that has all of them.

    Raises:
        SpecMismatch: the sink's tensors are not a part of ``whole``; see ``PartSource``.
    """
    return sink if sink.spec == whole else PartSink(sink, whole)


class PartSource:
    """A source of some tensors of another source.

    Adjacent tensors are read together: the cost of a read grows with the number of contiguous
    pieces, not with the number of tensors.

    Args:
        source: the whole model; closed with this one.
        part: some of its tensors, or all, in any order.

    Raises:
        SpecMismatch: a tensor is not in the source, or has another dtype or shape there.
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
        """Read bytes ``[offset, offset + length)`` of the part from the whole model's source."""
        self._part.check_range(offset, length)
        views: list[memoryview] = []
        for start, nbytes in self._pieces(offset, offset + length):
            views += self._source.read(start, nbytes)
        return tuple(views)

    def watch(self) -> Check:
        """Return the check of the whole model; it also fails for changes outside the part."""
        return watch(self._source)

    def close(self) -> None:
        """Close the whole model's source."""
        self._source.close()

    def _pieces(self, offset: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (offset in the source, length) of each contiguous piece of ``[offset, stop)``."""
        run = bisect_right(self._starts, offset) - 1
        while offset < stop:
            end = min(stop, self._starts[run + 1])
            yield offset + self._shifts[run], end - offset
            offset, run = end, run + 1


class PartSink:
    """A sink for a whole model that passes on some tensors and drops the bytes of the others.

    The cost of a write grows with the number of contiguous pieces, not with the number of tensors.

    Args:
        sink: takes the part, in any order of tensors; committed and discarded with this one.
        whole: the model that is written.

    Raises:
        SpecMismatch: a tensor of the sink is not in the model, or has another dtype or shape there.
    """

    def __init__(self, sink: ModelSink, whole: ModelSpec) -> None:
        self._sink = sink
        self._whole = whole
        starts, shifts = _runs(whole, sink.spec)
        runs = zip(starts, starts[1:], shifts, strict=False)
        self._runs = sorted((start + shift, stop + shift, shift) for start, stop, shift in runs)
        self._stops = [stop for _, stop, _ in self._runs]

    @property
    def spec(self) -> ModelSpec:
        """The whole model's tensors, in logical order."""
        return self._whole

    def write(self, offset: int, payload: memoryview) -> None:
        """Pass on those bytes of ``payload`` that belong to the part."""
        stop = offset + payload.nbytes
        self._whole.check_range(offset, payload.nbytes)
        # The first run that ends behind the offset: bytes before it are of tensors that nobody
        # wants.
        run = bisect_right(self._stops, offset)
        while run < len(self._runs) and self._runs[run][0] < stop:
            start, end, shift = self._runs[run]
            first, last = max(offset, start), min(stop, end)
            self._sink.write(first - shift, payload[first - offset : last - offset])
            run += 1

    def commit(self, progress: Progress | None = None) -> None:
        """Commit the part; raises ``StoreError`` if some of it was never written."""
        self._sink.commit(progress)

    def discard(self) -> None:
        """Discard what was written of the part."""
        self._sink.discard()


def _runs(whole: ModelSpec, part: ModelSpec) -> tuple[list[int], list[int]]:
    """Return the runs: their starts in the part, and how far each is shifted in the whole model.

    A run is a sequence of tensors that are adjacent in both. The first list also ends with the
    part's end, so that run ``i`` is ``[starts[i], starts[i + 1])``.
    """
    starts: list[int] = []
    shifts: list[int] = []
    position = 0
    for index, tensor in zip(_positions(whole, part.tensors), part.tensors, strict=True):
        if tensor.nbytes:
            shift = whole.offset_of(index) - position
            # Equal shifts mean that the tensor follows the previous one in both models.
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
    if not _WILDCARDS.search(pattern):  # a plain name: a dictionary lookup instead of a scan
        return [pattern] if pattern in spec.names else []
    # ``translate`` and not ``fnmatch``, which folds case on some systems: both ends must find the
    # same tensors.
    match = re.compile(translate(pattern)).match
    return (tensor.name for tensor in spec.tensors if match(tensor.name))


def _examples(spec: ModelSpec) -> str:
    if not spec.tensors:
        return "the model has no tensors"
    names = ", ".join(repr(tensor.name) for tensor in spec.tensors[:3])
    return f"names are like {names}"
