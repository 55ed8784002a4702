"""Drives one machine over one carrier after another; the sole owner of its lock and of the time.

Three threads meet here, none of them started here. A carrier's *writer* drains ``outgoing``, its
*reader* feeds ``incoming``, and the machine's *owner* (see ``pump``, and ``session``)
waits for events and room. A carrier may die and another take over: frames of the old one are
ignored.

Clocks are the ``Ticker``'s business, one thread for many pumps. One clock is the pump's own: how
long a stream has had no call that works. (A session counts that itself.)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from streamlink.errors import AbortCode, StreamAborted
from streamlink.protocol.events import Event
from streamlink.protocol.frames import Frame
from streamlink.transport.machines import Machine
from streamlink.transport.ticker import Clock

logger = logging.getLogger("streamlink.transport")

RECHECK_SECONDS = 60.0
"""A waiting thread looks again this often, though it will have been told (seconds)."""

_LAST_WORDS_SECONDS = 1.0  # what a failed stream's abort may take to leave, before it is cut
_NOT_BACK = (
    "its connection was lost and was not back within {:g} s; if that is normal on this link, raise "
    "reconnect_timeout"
)


M = TypeVar("M", bound=Machine)


class Pump(Generic[M]):
    """One machine, its lock, and the carrier of the moment."""

    unnoticed_seconds = 0.0
    """How much longer than this end the other may take a broken call for alive (seconds)."""

    def __init__(self, machine: M, *, clock: Clock = time.monotonic) -> None:
        self._machine = machine
        self._clock = clock
        self._lock = threading.Lock()
        self._to_send = threading.Condition(self._lock)
        self._to_own = threading.Condition(self._lock)
        self._call = 0
        self._cut: Callable[[], None] | None = None
        self._closed_at: float | None = None
        self._lost_at: float | None = None  # when the last call was, unless one works now
        self._missed = 0.0  # seconds without a call that works, since anything moved
        self._has_moved = False

    @contextmanager
    def locked(self) -> Iterator[tuple[M, float]]:
        """Give the machine and the time; wakes whoever has work after it."""
        with self._lock:
            yield self._machine, self._clock()
            self._wake()

    # --- the carrier ----------------------------------------------------------------

    def attach(self, cut: Callable[[], None]) -> int:
        """Let a new call carry the machine; returns the number that call goes by.

        Args:
            cut: ends the call at once; used when the machine failed and its last words are stuck.
        """
        with self.locked() as (machine, now):
            old = self._lose_call(now)
            self._call += 1
            self._cut = cut
            self._closed_at = None
            self._has_moved = False
            machine.attach(now=now)
            self._to_send.notify_all()
            call = self._call
        if old is not None:
            old()  # this end may be the last to know that it is dead: it must not keep its threads
        return call

    def detach(self, call: int) -> None:
        """Note that call number ``call`` is over."""
        with self.locked() as (_, now):
            if call == self._call:
                self._lose_call(now)

    def _lose_call(self, now: float) -> Callable[[], None] | None:
        """Let go of the call of the moment; returns what cuts it."""
        cut, self._cut = self._cut, None
        if cut is not None:
            self._lost_at = now if self._lost_at is None else self._lost_at
            if self._machine.is_attached:
                self._machine.detach(now=now)
            self._to_send.notify_all()
        return cut

    def outgoing(self, call: int) -> Iterator[Frame]:
        """Yield what has to be sent on call number ``call``, until it or the machine has ended."""
        while True:
            with self._lock:
                while not self._writer_has_work() and self._carries(call):
                    self._to_send.wait(RECHECK_SECONDS)
                if call != self._call or self._cut is None:
                    return
                frames = self._machine.frames_to_send(now=self._clock())
                is_closed = self._machine.is_closed
            if frames:
                yield from frames
            elif is_closed:
                return
            else:
                self._refill()

    def incoming(self, frames: Iterable[Frame], call: int) -> None:
        """Feed the machine with ``frames`` until they or the call end."""
        for frame in frames:
            with self._lock:
                if call != self._call or self._cut is None:
                    return
                now = self._clock()
                self._machine.receive(frame, now=now)
                self._note(frame, now)
                self._wake()

    def _note(self, frame: Frame, now: float) -> None:
        """Count the time without a call until ``frame``, and forget it where that moves."""
        if self._lost_at is not None:
            self._missed += now - self._lost_at
            self._lost_at = None
        if self._is_progress(frame):
            self._has_moved = True
            self._missed = 0.0

    def _is_progress(self, frame: Frame) -> bool:
        return True

    @property
    def has_moved(self) -> bool:
        """Whether the last call has brought anything that counts."""
        with self._lock:
            return self._has_moved

    def _carries(self, call: int) -> bool:
        return call == self._call and self._cut is not None and not self._machine.is_closed

    # --- time -------------------------------------------------------------------------

    def tick(self, *, excused: float = 0.0) -> None:
        """Let the machine look at its clocks. ``excused`` seconds were our own standstill."""
        cut = None
        with self.locked() as (machine, now):
            if excused:
                machine.excuse(excused)
                self._lost_at = None if self._lost_at is None else self._lost_at + excused
            deadline = machine.next_deadline()
            if deadline is not None and deadline <= now:
                machine.handle_timer(now=now)
            if not machine.is_closed and self._is_lost(now):
                machine.abort(AbortCode.SESSION_LOST, _NOT_BACK.format(self.patience))
            if self._has_to_be_cut(now):
                cut = self._lose_call(now)
        if cut is not None:
            cut()

    def _has_to_be_cut(self, now: float) -> bool:
        machine = self._machine
        if machine.is_closed and machine.error is not None:
            self._closed_at = self._closed_at or now
            return now - self._closed_at > _LAST_WORDS_SECONDS
        return not machine.is_attached  # it holds the call for lost

    @property
    def patience(self) -> float | None:
        """How long it may be without a call (seconds); None: its machine has a clock on that."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether it has been without a call for too long."""
        with self._lock:
            return self._is_lost(self._clock())

    def _is_lost(self, now: float) -> bool:
        if self.patience is None or self._lost_at is None:
            return False
        return self._missed + now - self._lost_at > self.patience

    @property
    def is_over(self) -> bool:
        """Whether the machine is in a final state and no call carries it."""
        with self._lock:
            return self._machine.is_closed and self._cut is None

    @property
    def is_closed(self) -> bool:
        """Whether the machine is in a final state."""
        with self._lock:
            return self._machine.is_closed

    @property
    def is_settled(self) -> bool:
        """Whether it ended, and the peer need not be told how."""
        with self._lock:
            machine = self._machine
            by_peer = isinstance(machine.error, StreamAborted) and machine.error.by_peer
            return machine.is_closed and (by_peer or self._is_told_all())

    def _is_told_all(self) -> bool:
        """Whether an end without the peer's abort was its own word."""
        return self._machine.error is None

    # --- the owner --------------------------------------------------------------------

    def wait_closed(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the machine's end; returns whether it has ended."""
        with self._lock:
            return self._to_own.wait_for(lambda: self._machine.is_closed, seconds)

    def poll(self, seconds: float = RECHECK_SECONDS) -> Event | None:
        """Return the next event, waiting up to ``seconds``; None when there was none."""
        with self._lock:
            if not self._machine.has_events and not self._machine.is_closed:
                self._to_own.wait(seconds)
            return self._machine.next_event()

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the machine for a reason of ours."""
        with self.locked() as (machine, _):
            machine.abort(code, reason)

    def cut(self) -> None:
        """End the call that carries the machine, now."""
        with self.locked() as (_, now):
            cut = self._lose_call(now)
        if cut is not None:
            cut()

    def _refill(self) -> None:
        """Called by the writer, without the lock, when there was nothing to send but work to do."""

    def _wake(self) -> None:
        if self._machine.is_closed:
            self._to_send.notify_all()
            self._to_own.notify_all()
            return
        if self._writer_has_work():
            self._to_send.notify()
        if self._owner_has_work():
            self._to_own.notify_all()

    def _writer_has_work(self) -> bool:
        return self._machine.has_frames

    def _owner_has_work(self) -> bool:
        return self._machine.has_events
