"""Sends and receives the messages between this process and the others of its MPI job.

Nothing here blocks, and nothing waits: a ``step`` does what can be done now. ``ranks`` calls it
again and again, in the one thread that may call MPI, and sleeps in between for as long as
``Pauses`` says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LONGEST_PAUSE_SECONDS", "Arrival", "Messages", "Pauses"]

FIRST_PAUSE_SECONDS = 50e-6
LONGEST_PAUSE_SECONDS = 10e-3
"""How long a message may lie unseen in a process that waits (seconds). A hundred looks a second
cost about 1 % of a core."""

_MOST_AT_ONCE = 64  # messages that are taken in before it is looked at what has to leave


class Pauses:
    """How long to sleep before the next look: longer each time that nothing was found."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_SECONDS

    def next(self) -> float:
        """Return how long to sleep now (seconds)."""
        pause, self._next = self._next, min(2 * self._next, LONGEST_PAUSE_SECONDS)
        return pause

    def reset(self) -> None:
        """Note that something was found."""
        self._next = FIRST_PAUSE_SECONDS


class Arrival(NamedTuple):
    """A message that has arrived and is not received yet: only then it is known where to put it."""

    source: int
    tag: int
    nbytes: int
    message: Any
    """MPI's handle. Each has to be received, or dropped: its sender waits for that."""


class Messages:
    """What is sent and received over one communicator; used by one thread only.

    Args:
        mpi: the library.
        job: the communicator.
    """

    def __init__(self, mpi: Any, job: Any) -> None:
        self._mpi, self._job = mpi, job
        self._status = mpi.Status()
        # What MPI has begun and not finished; it keeps the memory that is sent from or read into.
        self._pending: list[tuple[Any, Callable[[], None]]] = []

    @property
    def has_pending(self) -> bool:
        """Whether something was begun and is not finished."""
        return bool(self._pending)

    def send(
        self, to: int, tag: int, payload: bytes | memoryview, then: Callable[[], None]
    ) -> None:
        """Begin to send; ``then`` is called once the other process has taken it."""
        # Synchronous: so its sender knows when one is taken, and can bound how many are not. In
        # standard mode MPI would buffer small ones, without a bound.
        self._begin(self._job.Issend([payload, self._mpi.BYTE], to, tag), then)

    def notify(self, to: int, tag: int) -> None:
        """Begin to send a message without content, which nobody waits for."""
        self._begin(self._job.Isend([b"", self._mpi.BYTE], to, tag), _nothing)

    def receive(self, arrival: Arrival, into: memoryview, then: Callable[[], None]) -> None:
        """Begin to receive; ``then`` is called once it is there."""
        self._begin(arrival.message.Irecv([into, self._mpi.BYTE]), then)

    def drop(self, arrival: Arrival) -> None:
        """Begin to receive with no memory: MPI reports that it was truncated, and needs no room."""
        self.receive(arrival, memoryview(bytearray()), _nothing)

    def meet(self) -> None:
        """Begin to wait until every process has called this."""
        self._begin(self._job.Ibarrier(), _nothing)

    def step(
        self, orders: deque[Callable[[], None]], take: Callable[[Arrival], None] | None
    ) -> bool:
        """Carry out orders, take in what arrived, finish what is done.

        Args:
            orders: calls of the methods above.
            take: is given what arrives; None: it stays in MPI.

        Returns:
            Whether anything was done.
        """
        is_busy = bool(orders)
        for _ in range(len(orders)):
            orders.popleft()()
        # Not ``or``: each of them has to have its turn.
        return is_busy | (take is not None and self._take_arrivals(take)) | self._finish_pending()

    def _begin(self, request: Any, then: Callable[[], None]) -> None:
        self._pending.append((request, then))

    def _take_arrivals(self, take: Callable[[Arrival], None]) -> bool:
        mpi, status = self._mpi, self._status
        for count in range(_MOST_AT_ONCE):
            # A matched probe: what it has found is ours, and stays where it is until received.
            message = self._job.Improbe(mpi.ANY_SOURCE, mpi.ANY_TAG, status)
            if message is None:
                return count > 0
            take(Arrival(status.source, status.tag, status.Get_count(mpi.BYTE), message))
        return True

    def _finish_pending(self) -> bool:
        pending, self._pending = self._pending, []
        for each in pending:
            if self._is_done(each[0]):
                each[1]()
            else:
                self._pending.append(each)
        return len(self._pending) < len(pending)

    def _is_done(self, request: Any) -> bool:
        try:
            return bool(request.Test())
        except self._mpi.Exception as error:
            if error.Get_error_class() != self._mpi.ERR_TRUNCATE:
                raise
            return True  # it was dropped


def _nothing() -> None:
    """Nobody waits for it."""
