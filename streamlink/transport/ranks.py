"""MPI in this process: one thread makes every call to it, from the first to the last.

A blocking call of MPI polls at 100 % of a core for as long as it waits, and a message moves only
while its process is inside MPI. So a single thread (a progress thread) makes calls that do not
block, and sleeps in between: ``Pauses`` says how long. Other threads give it orders.

One thread, and not a lock around the calls of many: each call would have to be made again until it
is done, so every thread would poll. And the library need not lock either.

A process can begin and end MPI only once. ``ranks_of_this_process`` begins; ``Ranks.leave`` ends,
at the latest when the process exits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import Any

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.errors import MpiUnavailable
from streamlink.transport import departure
from streamlink.transport.last_words import STANDARD_ERROR, wait_read
from streamlink.transport.rank_messages import Arrival, Messages, Pauses

__all__ = ["Ranks", "ranks_of_this_process", "require_mpi"]

logger = logging.getLogger("streamlink.transport")

_LEAVE_SECONDS = 15.0  # how long a cancelled process waits for the others
_READ_SECONDS = 5.0  # how long one that aborts the job waits until its last words are read


class _State(Enum):
    JOINING = auto()
    HERE = auto()
    LEAVING = auto()
    GONE = auto()


class Ranks:
    """This process among those of its MPI job. Use ``ranks_of_this_process``.

    Attributes:
        rank: its number there, from 0 on.
        size: how many processes there are.
        most_tag: the largest tag that a message may have.
        on_arrival: called with each message that arrives, in the thread that moves all of them: it
            must not block. Until it is set, they stay in MPI.
    """

    def __init__(self, clock: Clock) -> None:
        self.rank = self.size = self.most_tag = 0
        self.on_arrival: Callable[[Arrival], None] | None = None
        self._clock = clock
        self._changed = clock.condition()
        self._state = _State.JOINING
        self._error: MpiUnavailable | None = None
        self._orders: deque[Callable[[], None]] = deque()
        self._mpi: Any = None
        self._job: Any = None  # the communicator, ours alone
        self._messages: Messages
        self._finalizes = False
        self._thread = threading.Thread(target=self._run, name="mpi", daemon=True)
        self._thread.start()

    # --- for any thread -------------------------------------------------------------

    def wait_joined(self, seconds: float = inf, cancel: CancelToken | None = None) -> bool:
        """Wait until every process of the job has begun MPI; returns whether they have.

        Raises:
            MpiUnavailable: MPI cannot be used here.
        """

        def is_over() -> bool:
            return self._state is not _State.JOINING or (cancel is not None and cancel.is_cancelled)

        with (cancel or CancelToken()).calling(lambda _: self._wake()), self._changed:
            self._changed.wait_for(is_over, None if seconds == inf else seconds)
            if self._error is not None:
                raise self._error
            return self._state is _State.HERE

    @property
    def is_here(self) -> bool:
        """Whether MPI has begun, and has not ended here."""
        return self._state in (_State.HERE, _State.LEAVING)

    def send(
        self, to: int, tag: int, payload: bytes | memoryview, then: Callable[[], None]
    ) -> None:
        """Send a message; ``then`` is called once the other process has taken it.

        Messages to one process arrive in the order of these calls. ``payload`` must not change
        until then.
        """
        self._order(lambda: self._messages.send(to, tag, payload, then))

    def notify(self, to: int, tag: int) -> None:
        """Send a message without content, which nobody waits for; ordered as in ``send``."""
        self._order(lambda: self._messages.notify(to, tag))

    def receive(self, arrival: Arrival, into: memoryview, then: Callable[[], None]) -> None:
        """Receive a message into memory of its size; ``then`` is called once it is there."""
        self._order(lambda: self._messages.receive(arrival, into, then))

    def drop(self, arrival: Arrival) -> None:
        """Let go of a message that nobody wants."""
        self._order(lambda: self._messages.drop(arrival))

    def leave(self, cancel: CancelToken | None = None) -> None:
        """Wait until every process of the job leaves, and end MPI. Harmless if called again.

        The others may have hours of work left. The wait costs no more than any other here;
        ``MPI_Finalize`` alone would poll at 100 % of a core.

        Args:
            cancel: bounds the wait; if the others do not leave then, the job is aborted.
        """
        with (cancel or CancelToken()).calling(lambda _: self._wake()), self._changed:
            if self._state is _State.JOINING:
                return  # MPI offers no way to give this up; the end of the process does
            if self._state is _State.HERE:
                self._state = _State.LEAVING
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_gone() or _is_cancelled(cancel))
            is_gone = self._changed.wait_for(self._is_gone, _LEAVE_SECONDS)
        if not is_gone:
            logger.error("the other processes of the MPI job did not end; it is aborted")
            self.abort(1)

    def abort(self, code: int) -> None:
        """End every process of the job at once, this one too.

        What this process wrote to standard error is read first, if somebody reads it.
        """
        if self._mpi is not None and not self._is_gone():
            wait_read(STANDARD_ERROR, _READ_SECONDS, self._clock)
            # In any thread: what the other is doing does not matter any more.
            self._mpi.COMM_WORLD.Abort(code)

    def _is_gone(self) -> bool:
        return self._state is _State.GONE

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _order(self, order: Callable[[], None]) -> None:
        with self._changed:
            self._orders.append(order)
            self._changed.notify_all()

    # --- the thread -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._join()
        except Exception as error:  # MPI has errors of its own
            self._error = MpiUnavailable(f"cannot take part in an MPI job: {error}")
            self._error.__cause__ = error
            self._set(_State.GONE)
            return
        self._set(_State.HERE)
        try:
            self._move()
            self._finish()
        except Exception:
            # As MPI itself does with any error: what was to move may be lost, and the others would
            # wait for it.
            logger.exception("MPI failed; the job is aborted")
            self.abort(1)

    def _join(self) -> None:
        self._mpi = mpi = _library()
        if mpi.Is_finalized():
            raise MpiUnavailable("MPI was ended in this process, and cannot be begun again")
        if not mpi.Is_initialized():
            self._finalizes = True
            # The most that there is: the user's code may call MPI too, in threads of its own.
            level = mpi.Init_thread(mpi.THREAD_MULTIPLE)
        else:
            level = mpi.Query_thread()
        needed = mpi.THREAD_FUNNELED if self._finalizes else mpi.THREAD_MULTIPLE
        if level < needed:
            raise MpiUnavailable(
                "MPI was begun in this process without MPI_THREAD_MULTIPLE, and streamlink calls "
                "it in a thread of its own: let streamlink begin it, or ask for that level"
            )
        # A communicator of ours, so that no receive of the user's code takes our messages.
        self._job, request = mpi.COMM_WORLD.Idup()
        pauses = Pauses()
        while not request.Test():
            self._sleep(pauses.next())
        self._job.Set_errhandler(mpi.ERRORS_RETURN)
        self._messages = Messages(mpi, self._job)
        self.rank, self.size = self._job.rank, self._job.size
        self.most_tag = self._job.Get_attr(mpi.TAG_UB)

    def _move(self) -> None:
        """Move messages until every process has left."""
        messages, pauses, has_met = self._messages, Pauses(), False
        while not has_met or messages.has_pending or self._orders:
            is_leaving = self._state is _State.LEAVING
            take = self.on_arrival or (self.drop if is_leaving else None)
            if messages.step(self._orders, take):
                pauses.reset()
            elif is_leaving and not has_met and not messages.has_pending:
                # All that we sent has arrived. So the others need us no more once they, too, have
                # come here; until then we still answer what they begin.
                messages.meet()
                has_met = True
            else:
                self._sleep(pauses.next())

    def _sleep(self, seconds: float) -> None:
        with self._changed:
            if not self._orders:
                self._changed.wait(seconds)

    def _finish(self) -> None:
        self._job.Free()
        if self._finalizes:
            self._mpi.Finalize()
        self._set(_State.GONE)

    def _set(self, state: _State) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()


def require_mpi() -> None:
    """Check that MPI can be used; nothing begins.

    Raises:
        MpiUnavailable: mpi4py, or a library of MPI, is not installed; says how to get both.
    """
    _library()


def ranks_of_this_process(clock: Clock) -> Ranks:
    """Return this process among those of its job; the first call begins MPI.

    Args:
        clock: what the waits of the one thread go by; only the first counts.
    """
    global _ranks
    with _lock:
        if _ranks is None:
            _ranks = Ranks(clock)
            departure.afterwards(_ranks.leave)
        return _ranks


_lock = threading.Lock()
_ranks: Ranks | None = None


def _library() -> Any:
    try:
        import mpi4py

        # Else the import begins MPI, in whatever thread it is, and waits for the other processes.
        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter: there is no library of MPI
        raise MpiUnavailable(
            f"MPI is not installed here ({error}): pip install 'streamlink-fl[mpi]'"
        ) from error
    return MPI


def _is_cancelled(cancel: CancelToken | None) -> bool:
    return cancel is not None and cancel.is_cancelled
