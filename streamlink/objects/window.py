"""The pure half of lazy reading: what is kept of what arrived, and how far a stream should go."""

from __future__ import annotations

from collections import deque

from streamlink.extent import Extent
from streamlink.model.spec import ModelSpec

__all__ = ["Kept", "extent_for"]


class Kept:
    """The latest pieces that arrived, so that a step back costs nothing.

    Args:
        most_bytes: how much is kept (bytes); the latest piece always is.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._pieces: deque[tuple[int, memoryview]] = deque()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """How much is kept (bytes)."""
        return self._nbytes

    def add(self, offset: int, view: memoryview) -> None:
        """Keep a piece, and forget the oldest beyond the bound."""
        self._pieces.append((offset, view))
        self._nbytes += view.nbytes
        while self._nbytes > self._most and len(self._pieces) > 1:
            self._nbytes -= self._pieces.popleft()[1].nbytes

    def find(self, offset: int, stop: int) -> memoryview | None:
        """Return kept bytes from ``offset`` on, at most up to ``stop``; None: there are none."""
        # The latest first: nearly all reads go on where the last one ended.
        for start, view in reversed(self._pieces):
            if start <= offset < start + view.nbytes:
                return view[offset - start : stop - start]
        return None

    def clear(self) -> None:
        """Forget all."""
        self._pieces.clear()
        self._nbytes = 0


def extent_for(spec: ModelSpec, start: int, stop: int, *, is_sequential: bool) -> Extent:
    """Return what a stream should bring for a read of ``[start, stop)``.

    A reader that goes on where it stopped gets all the rest: the stream reads ahead by itself, as
    far as its window allows. One that jumps gets to the end of the tensor that it asks for.
    """
    if is_sequential or start == stop:
        return Extent(start, spec.nbytes if start < stop else stop)
    index, inside = spec.locate(stop - 1)
    return Extent(start, stop - 1 - inside + spec.tensors[index].nbytes)
