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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError, code_of
from streamlink.protocol.events import Event
from streamlink.protocol.frames import Frame
from streamlink.protocol.machine import GREETINGS
from streamlink.transport.damage import DamagedFrame
from streamlink.transport.machines import Machine
from streamlink.transport.notes import noted
from streamlink.transport.ticker import Clock

logger = logging.getLogger("streamlink.transport")

RECHECK_SECONDS = 60.0
"""A waiting thread looks again this often, though it will have been told (seconds)."""

_GOODBYE_SECONDS = 30.0  # and what a good end may: a peer that reads nothing keeps no threads
_LAST_WORDS_SECONDS = 1.0  # what a failed stream's abort may take to leave, before it is cut
_NEWS_SECONDS = 1.0  # a shorter break is no news
_NOT_BACK = (
    "its connection was lost and was not back within {:g} s; if that is normal on this link, raise "
    "reconnect_timeout"
)


M = TypeVar("M", bound=Machine)


class Pump(Generic[M]):
    """One machine, its lock, and the carrier of the moment."""

    unnoticed_seconds = 0.0
    """How much longer than this end the other may take a broken call for alive (seconds)."""

    on_waiting: Callable[[], None] | None = None
    """Called by the ticker, once for each break, when no other call has taken over for a moment."""

    def __init__(self, machine: M, *, clock: Clock = running_time) -> None:
        self._has_told_waiting = False
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
        self._damaged_in_a_row = 0  # calls given up for a damaged frame since one brought anything

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
                    self._drained()
                    self._to_send.wait(RECHECK_SECONDS)
                if not self._is_current(call):
                    return
                machine = self._machine
                frames = machine.frames_to_send(now=self._clock()) if machine.has_frames else []
                is_closed = machine.is_closed
            if frames:
                yield from frames
            elif is_closed:
                return
            else:
                self._refill(call)

    def incoming(self, frames: Iterable[Frame], call: int) -> None:
        """Feed the machine with ``frames`` until they or the call end."""
        for frame in frames:
            with self._lock:
                if not self._is_current(call):
                    return
                now = self._clock()
                self._machine.receive(frame, now=now)
                self._note(frame, now)
                self._wake()
            self._take_pieces()

    def read(self, raws: Iterable[bytes], call: int, decode: Callable[[bytes], Frame]) -> bool:
        """Feed the machine with what ``decode`` makes of ``raws``, until they or the call end.

        A damaged frame costs the call, since nobody knows what it was; another one goes on. What
        arrived well and is no frame ends the machine; its last words leave by this very call, which
        is therefore read until it ends.

        Returns:
            Whether the call was given up for damage.
        """
        frames = map(decode, raws)  # unlike a generator, it goes on after an error
        while True:
            try:
                self.incoming(frames, call)
                return False
            except DamagedFrame as damage:
                if self._give_up(call, damage):
                    return True
            except StreamlinkError as error:
                self._reject(call, error)

    def _give_up(self, call: int, damage: DamagedFrame) -> bool:
        """Count a damaged frame; returns whether its call is over. Else: read on."""
        with self.locked() as (machine, now):
            if not self._is_current(call) or machine.is_closed:
                return not self._is_current(call)
            self._damaged_in_a_row += 1
            is_last = self._damaged_in_a_row > machine.config.stream.max_repairs
            machine.take_damage(is_last=is_last)
            if not is_last:
                self._lose_call(now)
            who, name, count = machine.peer, machine.name, machine.damaged
        text, extra = "%s with %s: damaged on the way, %s; %d so far", noted("damaged", peer=who)
        logger.warning(text, name, who, damage, count, extra=extra)
        return not is_last

    def _reject(self, call: int, error: StreamlinkError) -> None:
        """End the machine for what came over ``call``, unless that is an old one."""
        with self.locked() as (machine, _):
            if self._is_current(call):
                machine.abort(code_of(error), str(error))

    def _note(self, frame: Frame, now: float) -> None:
        """Count the time without a call until ``frame``, and forget it where that moves."""
        if self._lost_at is not None:
            self._missed += now - self._lost_at
            self._lost_at = None
            self._has_told_waiting = False
        if not isinstance(frame, GREETINGS):
            self._damaged_in_a_row = 0
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
        return self._is_current(call) and not self._machine.is_closed

    def _is_current(self, call: int) -> bool:
        return call == self._call and self._cut is not None

    # --- time -------------------------------------------------------------------------

    def tick(self) -> None:
        """Let the machine look at its clocks."""
        cut = None
        with self.locked() as (machine, now):
            deadline = machine.next_deadline()
            if deadline is not None and deadline <= now:
                machine.handle_timer(now=now)
            if not machine.is_closed and self._is_lost(now):
                machine.abort(AbortCode.SESSION_LOST, _NOT_BACK.format(self.patience))
            if self._has_to_be_cut(now):
                cut = self._lose_call(now)
            is_over = machine.is_closed
            was_told, self._has_told_waiting = self._has_told_waiting, self._is_waiting(now)
            is_news = self._has_told_waiting and not was_told
        if is_news:
            self._told_waiting()
        if cut is not None:
            if not is_over:
                self._told_silent()
            cut()

    def _told_silent(self) -> None:
        """Called when the machine holds its call for lost: it has brought nothing for too long."""

    def _told_waiting(self) -> None:
        """Called when it has been without a call for so long that it is news."""

    @property
    def is_waiting(self) -> bool:
        """Whether its connection was lost, and has not come back for a moment."""
        with self._lock:
            return self._is_waiting(self._clock())

    def _is_waiting(self, now: float) -> bool:
        is_lost = self._lost_at is not None and not self._machine.is_closed
        return is_lost and now - (self._lost_at or now) > _NEWS_SECONDS

    def _has_to_be_cut(self, now: float) -> bool:
        machine = self._machine
        if not machine.is_closed:
            return not machine.is_attached
        self._closed_at = self._closed_at or now
        seconds = _GOODBYE_SECONDS if machine.error is None else _LAST_WORDS_SECONDS
        return now - self._closed_at > seconds  # it holds the call for lost

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

    def wait_over(self, seconds: float) -> bool:
        """Wait up to ``seconds`` until it and its call have ended: the peer knows why, then."""
        with self._lock:
            return self._to_own.wait_for(
                lambda: self._machine.is_closed and self._cut is None, seconds
            )

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

    def _refill(self, call: int) -> None:
        """Called by a writer, without the lock, when there was nothing to send but work to do."""

    def _take_pieces(self) -> None:
        """Called by the reader, without the lock, after each frame."""

    def _drained(self) -> None:
        """Called by the writer, with the lock, when it has sent all and is about to wait."""

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
