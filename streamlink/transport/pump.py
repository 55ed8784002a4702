"""``Pump``: drives one machine over the calls that carry it. Owns its lock and its time.

Three threads meet here, and none of them is started here. A call's *writer* sends what ``outgoing``
yields, its *reader* feeds ``incoming``, and the machine's *owner* (``send_pump``, ``receive_pump``,
``session``) waits for events and room. A call may be lost and another take over, and a stream may
have several calls at once; frames of a call that was given up are ignored. A call for which no
thread waits has itself woken instead, and sends what is ``due``.

The ``Ticker``, one thread for many pumps, makes the machine look at its clocks, because each of the
three threads may be blocked exactly when a deadline matters. Every deadline is the machine's: the
pump only asks whether one has passed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from streamlink.clock import Clock
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError, code_of
from streamlink.protocol.events import Event
from streamlink.protocol.frames import Frame
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.log import noted
from streamlink.transport.machines import Machine

logger = logging.getLogger("streamlink.transport")

RECHECK_SECONDS = 60.0
"""A waiting thread looks again this often, though it will have been notified (seconds)."""

M = TypeVar("M", bound=Machine)
R = TypeVar("R")


class Pump(Generic[M]):
    """One machine, its lock, and the calls that carry it: one, or several lanes."""

    on_event: Callable[[], None] | None = None
    """Called when there may be an event, or the end, with the lock held: for an owner without a
    thread of its own. It must not wait."""

    on_waiting: Callable[[], None] | None = None
    """Called by the ticker once per break, when no other call has taken over for a moment."""

    def __init__(self, machine: M, *, clock: Clock) -> None:
        self._has_reported_waiting = False
        self._machine = machine
        self._clock = clock
        self._lock = threading.Lock()
        # Two conditions over the machine's one lock: a frame wakes only the thread that it gives
        # work to.
        self._to_send = clock.condition(self._lock)
        self._to_own = clock.condition(self._lock)
        self._calls: dict[int, Callable[[], None]] = {}  # by number; what cuts each
        # Of calls without a thread that writes: what wakes them, and what sends at once.
        self._wakes: dict[int, Callable[[], None]] = {}
        self._pushes: dict[int, Callable[[], None]] = {}
        self._pushing = 0  # the thread that pushes next what it queues now; 0: no thread does
        self._last_call = 0
        self._has_moved = False

    @property
    def clock(self) -> Clock:
        """The clock of its deadlines, and of the threads that wait here."""
        return self._clock

    @contextmanager
    def locked(self) -> Iterator[tuple[M, float]]:
        """Give the machine and the time; at its end wakes the threads that have work."""
        with self._lock:
            # The time is read with the lock held, so that the machine never sees it run backwards.
            yield self._machine, self._clock()
            self._wake()

    # --- the carrier ----------------------------------------------------------------

    def attach(self, cut: Callable[[], None], *, is_lane: bool = False, carrier: str = "") -> int:
        """Let a new call carry the machine; returns the number that call goes by.

        Args:
            cut: ends the call at once; used when the machine failed and its last words are stuck.
            is_lane: it carries beside those there are; else it takes their place.
            carrier: what the call goes over, for reports.
        """
        with self.locked() as (machine, now):
            calls = () if is_lane else tuple(self._calls)
            # The old calls first: beside them the new one would be one more lane, and not a resume.
            old = [self._lose_call(each, now) for each in calls]
            self._last_call += 1
            call = self._last_call
            self._calls[call] = cut
            if len(self._calls) == 1:
                self._has_moved = False
            machine.carrier = carrier
            machine.attach(now=now, channel=call)
            self._wake_writers()
        # Without the lock, here and wherever calls are cut: a cut may call ``detach`` before it
        # returns.
        for each in old:
            each()  # this end may be the last to know that it is dead: it must not keep its threads
        return call

    def detach(self, call: int) -> bool:
        """Note that call number ``call`` has ended; False: this end had given it up before."""
        with self.locked() as (_, now):
            is_here = call in self._calls
            if is_here:
                self._lose_call(call, now)
        return is_here

    def _lose_call(self, call: int, now: float) -> Callable[[], None]:
        """Let go of a call; returns what cuts it."""
        cut = self._calls.pop(call)
        # Not if the machine has closed the call by itself, for silence or for a damaged frame.
        if self._machine.carries(call):
            self._machine.detach(now=now, channel=call)
        # All writers wait on one condition: its own cannot be notified alone.
        self._wake_writers()
        self._wakes.pop(call, None)
        self._pushes.pop(call, None)
        return cut

    def outgoing(self, call: int) -> Iterator[Frame]:
        """Yield what has to be sent on call number ``call``, until it or the machine has ended."""
        while True:
            with self._lock:
                while (
                    not self._writer_has_work(call)
                    and self._carries(call)
                    and not self._is_through(call)
                ):
                    self._note_idle()
                    self._to_send.wait(RECHECK_SECONDS)
                # Only a call that is lost or was retired ends here: a machine that is closed may
                # still have an abort to send.
                if call not in self._calls or self._is_through(call):
                    return
                machine = self._machine
                frames: list[Frame] = []
                if machine.has_frames(call):
                    frames = machine.frames_to_send(now=self._clock(), channel=call)
                is_closed = machine.is_closed
            if frames:
                # Without the lock: a carrier in flow control may ask for the next frame minutes
                # later.
                yield from frames
            elif is_closed:
                return
            else:
                # Last, without the lock: it may read from a disk, and no frame that is due waits
                # for that.
                self._refill(call)

    def wake_writer(
        self, call: int, wake: Callable[[], None], push: Callable[[], None] | None = None
    ) -> None:
        """Have ``wake`` called whenever ``due`` may have something for a call, also its end.

        Args:
            call: the call's number.
            wake: is called with the lock held, so it must not wait; at once for what is due.
            push: sends what is due, and may wait for the peer. The owner of a stream that has a
                supply calls it, for who calls ``due`` does not pull. None: there is no supply.
        """
        with self._lock:
            if call in self._calls:
                self._wakes[call] = wake
                if push is not None:
                    self._pushes[call] = push
                    self._to_own.notify_all()  # it may pull from now on
            wake()

    def due(self, call: int) -> list[Frame] | None:
        """Return what has to be sent on call number ``call`` now; None: nothing more ever will.

        It is ``outgoing`` for a writer that is woken instead of waiting.
        """
        with self._lock:
            if call not in self._calls:
                return None
            if self._machine.has_frames(call):
                return self._machine.frames_to_send(now=self._clock(), channel=call)
            if self._machine.is_closed:
                return None
            self._note_idle()
            return []

    def incoming(self, frames: Iterable[Frame], call: int) -> None:
        """Feed the machine with ``frames`` until they or the call end."""
        for frame in frames:
            with self._lock:
                # The call was given up: what it still brings is sent again over another.
                if call not in self._calls:
                    return
                self._machine.receive(frame, now=self._clock(), channel=call)
                self._note(frame, call)
                self._wake()
            # Without the lock: this may hash and copy a whole chunk, and the writer has acks to
            # send.
            self._take_chunks()

    def read(self, raws: Iterable[R], call: int, decode: Callable[[R], Frame]) -> bool:
        """Feed the machine with what ``decode`` makes of ``raws``, until they or the call end.

        A damaged frame costs the call, since it cannot be known what it was; the machine resumes on
        another. Bytes that arrived intact and are no frame end the machine: the peer broke the
        protocol. The machine's abort leaves by this very call, which is therefore read until it
        ends.

        Returns:
            Whether the call was given up for damage.
        """
        frames = map(decode, raws)  # unlike a generator, a map can be read on after an error
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
        """Count a damaged frame; returns whether that ended its call. Otherwise: read on."""
        with self.locked() as (machine, now):
            if call not in self._calls or machine.is_closed:
                return call not in self._calls
            machine.report_damage(now=now, channel=call)
            # A machine that fails for too much damage keeps this call: its abort leaves over it.
            is_over = not machine.is_closed
            if is_over:
                self._lose_call(call, now)
            who, name, count = machine.peer_name, machine.name, machine.damaged
        text, extra = "%s with %s: damaged on the way, %s; %d so far", noted("damaged", peer=who)
        logger.warning(text, name, who, damage, count, extra=extra)
        return is_over

    def _reject(self, call: int, error: StreamlinkError) -> None:
        """End the machine because of what ``call`` brought, unless that call was given up."""
        with self.locked() as (machine, _):
            if call in self._calls:
                machine.abort(code_of(error), str(error))

    def _note(self, frame: Frame, call: int) -> None:
        """Log what is worth it, and note whether the call has brought anything that counts."""
        self._has_reported_waiting = False
        if self._is_progress(frame):
            self._has_moved = True

    def _is_progress(self, frame: Frame) -> bool:
        return True

    @property
    def has_moved(self) -> bool:
        """Whether the last call, or the lanes there are, have brought anything that counts."""
        with self._lock:
            return self._has_moved

    @property
    def calls(self) -> int:
        """How many calls carry it (count)."""
        with self._lock:
            return len(self._calls)

    def _is_through(self, call: int) -> bool:
        """Whether the call was retired, and has brought to its end what it carried."""
        return False

    def _carries(self, call: int) -> bool:
        return call in self._calls and not self._machine.is_closed

    # --- time -------------------------------------------------------------------------

    def tick(self) -> None:
        """Let the machine look at its clocks, and cut the calls that it has given up."""
        with self._lock:
            # The usual case: a server has hundreds of pumps, each looked at five times a second.
            if self._is_quiet(self._clock()):
                return
        with self.locked() as (machine, now):
            deadline = machine.next_deadline()
            if deadline is not None and deadline <= now:
                machine.handle_timer(now=now)
            is_overdue = machine.is_overdue(now=now)
            # Overdue: the last frames are stuck. Not carried: the machine has closed the call for
            # silence.
            given_up = [call for call in self._calls if is_overdue or not machine.carries(call)]
            cuts = [self._lose_call(call, now) for call in given_up]
            is_over, is_carried = machine.is_closed, bool(self._calls)
            was_told, self._has_reported_waiting = (
                self._has_reported_waiting,
                machine.is_waiting(now=now),
            )
            is_news = self._has_reported_waiting and not was_told
        # Without the lock from here on: the owner's code is called, and cuts may call back.
        if is_news:
            self._report_waiting()
        if cuts and not is_over:
            (self._report_lag if is_carried else self._report_silence)()
        for cut in cuts:
            cut()

    def _is_quiet(self, now: float) -> bool:
        """Whether no deadline has passed, and there is nothing to report, cut or ask again."""
        machine = self._machine
        deadline = machine.next_deadline()
        return not (
            (deadline is not None and deadline <= now)
            or machine.is_closed
            or machine.is_waiting(now=now)
            or self._has_reported_waiting
            # Who could start no thread for an event is told of it again.
            or (self.on_event is not None and self._owner_has_work())
            or not all(map(machine.carries, self._calls))
        )

    def _report_silence(self) -> None:
        """Called when the machine holds its calls for lost: they brought nothing for too long."""

    def _report_lag(self) -> None:
        """Called when the machine has closed one call of several, for what it owed."""

    def _report_waiting(self) -> None:
        """Called when it has been without a call for so long that it is news."""

    @property
    def is_waiting(self) -> bool:
        """Whether its connection was lost, and has not come back for a moment."""
        with self._lock:
            return self._machine.is_waiting(now=self._clock())

    @property
    def is_lost(self) -> bool:
        """Whether it has been without a call for too long."""
        with self._lock:
            return self._machine.is_lost(now=self._clock())

    @property
    def is_over(self) -> bool:
        """Whether the machine is in a final state and no call carries it."""
        with self._lock:
            return self._machine.is_closed and not self._calls

    @property
    def is_closed(self) -> bool:
        """Whether the machine is in a final state."""
        with self._lock:
            return self._machine.is_closed

    @property
    def is_settled(self) -> bool:
        """Whether it has ended, and the peer knows how."""
        with self._lock:
            machine = self._machine
            by_peer = isinstance(machine.error, StreamAborted) and machine.error.by_peer
            return machine.is_closed and (by_peer or self._peer_knows_end())

    def _peer_knows_end(self) -> bool:
        """Whether the peer knows of an end that was not its own abort."""
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
                lambda: self._machine.is_closed and not self._calls, seconds
            )

    def poll(self, seconds: float = RECHECK_SECONDS) -> Event | None:
        """Return the next event, waiting up to ``seconds``; None: there was no event."""
        with self._lock:
            # One wait and no loop: every caller looks at other things, too, and then polls again.
            if not self._machine.has_events and not self._machine.is_closed:
                self._to_own.wait(seconds)
            return self._machine.next_event()

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the machine for a reason of ours."""
        with self.locked() as (machine, _):
            machine.abort(code, reason)

    def cut(self) -> None:
        """End the calls that carry the machine, now."""
        with self.locked() as (_, now):
            cuts = [self._lose_call(call, now) for call in list(self._calls)]
        for cut in cuts:
            cut()

    def _refill(self, call: int) -> None:
        """Called by a writer, without the lock, when it may ask for more to send."""

    def _take_chunks(self) -> None:
        """Called by the reader, without the lock, after each frame."""

    def _note_idle(self) -> None:
        """Called by the writer, with the lock, when it has sent all, and waits or pulls next."""

    def _wake(self) -> None:
        if self._machine.is_closed:
            self._wake_writers()
            self._wake_owner()
            return
        if len(self._calls) > 1:  # any of their writers may be the one that waits
            self._to_send.notify_all()
            for call, wake in self._wakes.items():
                if self._writer_has_work(call):
                    wake()
        # One is enough: the writers of lost calls were notified in ``_lose_call`` and wait no more.
        elif any(map(self._writer_has_work, self._calls)):
            self._to_send.notify()
            if self._pushing != threading.get_ident():
                for wake in self._wakes.values():
                    wake()
        # All: threads wait here for different things, for an event, the end, or a reader that
        # stops, and ``notify`` could wake the wrong one.
        if self._owner_has_work():
            self._wake_owner()

    def _wake_writers(self) -> None:
        self._to_send.notify_all()
        for wake in self._wakes.values():
            wake()

    def _wake_owner(self) -> None:
        self._to_own.notify_all()
        if (on_event := self.on_event) is not None:
            on_event()

    def _writer_has_work(self, call: int) -> bool:
        return self._machine.has_frames(call)

    def _owner_has_work(self) -> bool:
        return self._machine.has_events
