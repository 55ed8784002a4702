"""``RangeSet``: which bytes of a model are there, as ranges, and which are missing.

Ranges that touch are joined, so a model written in order is one range whatever its size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from streamlink.errors import StoreError
from streamlink.model.spec import ModelSpec

__all__ = ["RangeSet", "require_complete"]


class RangeSet:
    """Disjoint ranges ``[start, stop)`` in ascending order, as two parallel lists."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def __len__(self) -> int:
        """Return the number of ranges (not of the numbers in them)."""
        return len(self._starts)

    @property
    def total(self) -> int:
        """How many numbers are in the set."""
        return sum(self._stops) - sum(self._starts)

    def add(self, start: int, stop: int) -> None:
        """Add ``[start, stop)``; an empty range adds nothing.

        Raises:
            ValueError: ``start`` is negative or above ``stop``.
        """
        if not 0 <= start <= stop:
            raise ValueError(f"[{start}, {stop}) is no range")
        if start == stop:
            return
        if self._stops and start == self._stops[-1]:
            self._stops[-1] = stop  # a model written in order ends here
            return
        # Everything from the first range that ends at or after start to the last that begins at or
        # before stop overlaps or touches the new one and is joined with it.
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]

    def contains(self, start: int, stop: int) -> bool:
        """Tell whether all of ``[start, stop)`` is in the set; of an empty range, always."""
        if start >= stop:
            return True
        # Ranges that touch are joined, so one range has all of it or none has.
        index = bisect_right(self._starts, start) - 1
        return index >= 0 and stop <= self._stops[index]

    def gaps(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges missing from ``[0, stop)``, in ascending order."""
        position = 0
        for start, end in self:
            if start >= stop:
                break
            if position < start:
                yield position, start
            position = end
        if position < stop:
            yield position, stop

    def is_complete(self, stop: int) -> bool:
        """Tell whether all of ``[0, stop)`` is in the set."""
        return self.contains(0, stop)

    def clear(self) -> None:
        """Forget everything."""
        self._starts.clear()
        self._stops.clear()


def require_complete(written: RangeSet, spec: ModelSpec) -> None:
    """Raise ``StoreError`` that names the first tensor not written, unless all of it was."""
    gap = next(written.gaps(spec.nbytes), None)
    if gap is not None:
        index, inside = spec.locate(gap[0])
        raise StoreError(
            f"only {written.total} of {spec.nbytes} bytes were written; the first missing one is "
            f"byte {inside} of tensor {spec.tensors[index].name!r}"
        )
