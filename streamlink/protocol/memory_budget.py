"""One number of bytes, dealt to the windows of all streams of a process.

Pure: no lock, no clock. A stream joins with its minimum, which it keeps until it leaves: with it
alone it makes progress, so nobody waits for bytes that another needs in order to move. Streams
whose minimum does not fit wait in order of arrival, and nothing is dealt beyond minimums meanwhile:
a stream that waits cannot be overtaken by those that grow.

What was dealt may be promised to a peer already, so it is never taken: ``surplus`` says how much a
stream should give back when it next can, by granting no credit for what its sink consumes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

__all__ = ["MemoryBudget"]


@dataclass(slots=True)
class _Share:
    minimum: int
    wanted: int
    dealt: int = 0


class MemoryBudget:
    """Deals ``total_bytes`` to streams; the sum of what is dealt never exceeds it."""

    def __init__(self, total_bytes: int) -> None:
        if total_bytes <= 0:
            raise ValueError(f"total_bytes={total_bytes} is not positive")
        self.total_bytes = total_bytes
        self.dealt_bytes = 0
        self._active: dict[Hashable, _Share] = {}
        self._waiting: dict[Hashable, _Share] = {}

    def join(self, stream: Hashable, *, minimum: int) -> None:
        """Add a stream; ``dealt`` is zero until its ``minimum`` fits.

        Raises:
            ValueError: it has joined before, or its minimum could never fit.
        """
        if stream in self._active or stream in self._waiting:
            raise ValueError(f"stream {stream!r} has joined before")
        if not 0 < minimum <= self.total_bytes:
            raise ValueError(f"minimum={minimum} is not within 1 to {self.total_bytes} bytes")
        self._waiting[stream] = _Share(minimum, minimum)
        self._admit()

    def want(self, stream: Hashable, nbytes: int) -> int:
        """Note that a stream could use ``nbytes`` in all; returns what it has from now on.

        It is given more only where nobody waits. A want below what it has takes nothing away.
        """
        share = self._share(stream)
        share.wanted = max(nbytes, share.minimum)
        if stream in self._active and not self._waiting:
            self._deal(share, min(share.wanted - share.dealt, self.free_bytes))
        return share.dealt

    def give_back(self, stream: Hashable, nbytes: int) -> None:
        """Return ``nbytes`` that no credit promises, down to the stream's minimum.

        Raises:
            ValueError: the stream would keep less than its minimum.
        """
        share = self._share(stream)
        if not 0 <= nbytes <= max(share.dealt - share.minimum, 0):
            raise ValueError(f"{nbytes} of {share.dealt} bytes, minimum {share.minimum}")
        share.dealt -= nbytes
        self.dealt_bytes -= nbytes
        self._admit()

    def leave(self, stream: Hashable) -> None:
        """Remove a stream, and return everything that it has."""
        share = self._share(stream)
        self._active.pop(stream, None)
        self._waiting.pop(stream, None)
        self.dealt_bytes -= share.dealt
        self._admit()

    def dealt(self, stream: Hashable) -> int:
        """Return what a stream has (bytes); 0: it waits."""
        return self._share(stream).dealt

    def surplus(self, stream: Hashable) -> int:
        """Return how many bytes a stream should give back when no credit promises them."""
        share = self._share(stream)
        if stream in self._waiting:
            return 0
        kept = share.minimum if self._waiting else share.wanted
        return max(share.dealt - kept, 0)

    @property
    def free_bytes(self) -> int:
        """What is not dealt."""
        return self.total_bytes - self.dealt_bytes

    def _share(self, stream: Hashable) -> _Share:
        return self._active.get(stream) or self._waiting[stream]

    def _admit(self) -> None:
        while self._waiting:
            stream, share = next(iter(self._waiting.items()))
            if share.minimum > self.free_bytes:
                return
            self._active[stream] = self._waiting.pop(stream)
            self._deal(share, share.minimum)

    def _deal(self, share: _Share, nbytes: int) -> None:
        if nbytes > 0:
            share.dealt += nbytes
            self.dealt_bytes += nbytes
