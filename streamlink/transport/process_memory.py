"""The memory of this process that all its streams share: ``protocol.memory_budget`` behind a lock.

One number bounds a process, so its servers and clients share one budget: the first that opens makes
it, the last that closes drops it. Its lock is the innermost: who holds it takes no other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.protocol.memory_budget import MemoryBudget, Need, NoPlace

__all__ = ["ProcessMemory", "Seat", "Share", "SharesMemory", "open_memory"]

ROOM_SECONDS = 5.0
"""How long a session waits for its place (seconds): streams return what they do not need sooner."""

_NO_PLACE = (
    "this session has as many streams as stream.memory_bytes has memory reserved for: "
    "limits.max_streams and two"
)


class SharesMemory(Protocol):
    """A stream that can keep within a share of the memory."""

    def share(self, share: Share) -> None:
        """Keep within ``share`` until the stream ends."""

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the stream."""


class ProcessMemory:
    """The memory that streams of this process share; made by ``open_memory``.

    Args:
        total_bytes: how much it is.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.users = 0
        """Servers and clients that have it open (count)."""
        self._budget = MemoryBudget(total_bytes)
        self._lock = threading.Lock()
        self._waiting: set[Seat] = set()

    def seat(self, config: LinkConfig, clock: Clock) -> Seat | None:
        """Reserve the minimums of one session's streams; None: there was no room for it."""
        seat = Seat(self, clock.event())
        with self.dealing() as budget:
            budget.claim(seat, config.places)
            self._waiting.add(seat)
        try:
            has_come = seat.is_here.wait(ROOM_SECONDS)
        except BaseException:  # an interrupt: nobody else knows of the seat
            seat.vacate()
            raise
        if has_come:
            return seat
        seat.vacate()
        return None

    def vacate(self, seat: Seat) -> None:
        """Return a seat, or wait for it no more."""
        with self.dealing() as budget:
            budget.vacate(seat)
            self._waiting.discard(seat)

    def expect(self, config: LinkConfig) -> None:
        """Keep room for the clients of a server, but never more than half of the memory."""
        clients = (config.grpc.max_clients + 1) * config.client_bytes
        with self.dealing() as budget:
            budget.expect(min(clients, self.total_bytes // 2))

    @contextmanager
    def dealing(self) -> Iterator[MemoryBudget]:
        """Give the budget; at its end those hear of it whose seats have been reserved."""
        with self._lock:
            yield self._budget
            come = [seat for seat in self._waiting if self._budget.has(seat)]
            self._waiting.difference_update(come)
        # Without the lock: the events of a virtual clock take another.
        for seat in come:
            seat.is_here.set()

    @property
    def dealt_bytes(self) -> int:
        """What is reserved or dealt; never more than ``total_bytes``."""
        with self._lock:
            return self._budget.dealt_bytes

    def close(self) -> None:
        """Note that a server or client uses it no more."""
        global _memory
        with _opening:
            self.users -= 1
            if not self.users and _memory is self:
                _memory = None


class Seat:
    """What is reserved for the streams of one session."""

    def __init__(self, memory: ProcessMemory, is_here: threading.Event) -> None:
        self._memory = memory
        self._is_vacated = False
        self.is_here = is_here
        """Set once it is reserved."""

    def take(self, stream: SharesMemory) -> None:
        """Give a stream of the session its share; one for which there is no place ends."""
        share = Share(self._memory)
        try:
            with self._memory.dealing() as budget:
                budget.join(self, share)
        except NoPlace:
            if not self._is_vacated:  # else the session has ended, and ends its streams
                stream.abort(AbortCode.REFUSED, _NO_PLACE)
        else:
            stream.share(share)

    def vacate(self) -> None:
        """Return it, once its last stream has left. Harmless when called twice."""
        self._is_vacated = True
        self._memory.vacate(self)


class Share:
    """What one stream has of the memory."""

    def __init__(self, memory: ProcessMemory) -> None:
        self._memory = memory

    def settle(self, need: Need) -> int:
        """Deal with the stream's need; returns what it may use from now on (bytes)."""
        with self._memory.dealing() as budget:
            return budget.settle(self, need)

    def leave(self) -> None:
        """Return all of it. Harmless when called twice."""
        with self._memory.dealing() as budget:
            budget.leave(self)


_opening = threading.Lock()
_memory: ProcessMemory | None = None


def open_memory(config: LinkConfig) -> ProcessMemory | None:
    """Return the memory that streams of this process share, to be closed; None: they share none.

    Raises:
        ValueError: a server or client of this process is open with another ``memory_bytes``.
    """
    global _memory
    wanted = config.stream.memory_bytes
    if not wanted:
        return None
    with _opening:
        memory = _memory = _memory or ProcessMemory(wanted)
        if memory.total_bytes != wanted:
            raise ValueError(
                f"stream.memory_bytes is {wanted}, and {memory.total_bytes} at another server or "
                "client of this process: one number bounds a process; give all of them the same"
            )
        memory.users += 1
        return memory


def _begin_again() -> None:
    """In a forked child: no stream of its parent moves here."""
    global _opening, _memory
    _opening, _memory = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
