"""Drives one machine over one carrier after another; the sole owner of its lock and of the time.

Three threads meet here, none of them started here. A carrier's *writer* drains ``outgoing``, its
*reader* feeds ``incoming``, and the machine's *owner* (``SendPump``, ``ReceivePump``, a session)
waits for events and room. A carrier may die and another take over: frames of the old one are
ignored.

Clocks are the ``Ticker``'s business, one thread for many pumps, since each of the three may be
blocked (in flow control, in a sink, in the network) exactly when a deadline matters.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from streamlink.errors import AbortCode, StreamlinkError, TransportClosed
from streamlink.protocol.events import Accepted, Committed, Event, Failed, PeerHeld
from streamlink.protocol.frames import NO_METRICS, Frame, Payload
from streamlink.protocol.machine import State
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream

logger = logging.getLogger("streamlink.transport")

Clock = Callable[[], float]
Supply = Callable[[int, int], Payload]
"""``supply(offset, nbytes)`` gives the bytes of that range, as a source's ``read`` does."""

_RECHECK_SECONDS = 60.0  # a waiting thread looks again this often, though it will have been told
_LAST_WORDS_SECONDS = 1.0  # what a failed stream's abort may take to leave, before it is cut


class Machine(Protocol):
    """What a pump needs of a machine (``protocol``)."""

    error: StreamlinkError | None

    @property
    def is_closed(self) -> bool:
        """Whether it is in a final state."""

    @property
    def has_frames(self) -> bool:
        """Whether it has something to send."""

    @property
    def has_events(self) -> bool:
        """Whether its owner has something to learn."""

    def attach(self, *, now: float) -> None:
        """A call carries it from now on."""

    def detach(self, *, now: float) -> None:
        """The call is lost."""

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take a frame."""

    def handle_timer(self, *, now: float) -> None:
        """Look at the clocks."""

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Give what has to go out."""

    def next_event(self) -> Event | None:
        """Give the next event."""

    def next_deadline(self) -> float | None:
        """Say when to look at the clocks."""

    def excuse(self, seconds: float) -> None:
        """Forgive a standstill of ours."""

    def abort(self, code: AbortCode, reason: str) -> None:
        """End it for a reason of ours."""


M = TypeVar("M", bound=Machine)


class Pump(Generic[M]):
    """One machine, its lock, and the carrier of the moment."""

    def __init__(self, machine: M, *, clock: Clock = time.monotonic) -> None:
        self._machine = machine
        self._clock = clock
        self._lock = threading.Lock()
        self._to_send = threading.Condition(self._lock)
        self._to_own = threading.Condition(self._lock)
        self._call = 0
        self._cut: Callable[[], None] | None = None
        self._closed_at: float | None = None

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
            if self._cut is not None:
                machine.detach(now=now)
            self._call += 1
            self._cut = cut
            machine.attach(now=now)
            self._to_send.notify_all()
            return self._call

    def detach(self, call: int) -> None:
        """Note that call number ``call`` is over."""
        with self.locked() as (machine, now):
            if call == self._call and self._cut is not None:
                self._cut = None
                machine.detach(now=now)
                self._to_send.notify_all()

    def outgoing(self, call: int) -> Iterator[Frame]:
        """Yield what has to be sent on call number ``call``, until it or the machine has ended."""
        while True:
            with self._lock:
                while not self._writer_has_work() and self._carries(call):
                    self._to_send.wait(_RECHECK_SECONDS)
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
                self._machine.receive(frame, now=self._clock())
                self._wake()

    def _carries(self, call: int) -> bool:
        return call == self._call and self._cut is not None and not self._machine.is_closed

    # --- time -------------------------------------------------------------------------

    def tick(self, *, excused: float = 0.0) -> None:
        """Let the machine look at its clocks. ``excused`` seconds were our own standstill."""
        cut = None
        with self.locked() as (machine, now):
            if excused:
                machine.excuse(excused)
            deadline = machine.next_deadline()
            if deadline is not None and deadline <= now:
                machine.handle_timer(now=now)
            if machine.is_closed and machine.error is not None:
                self._closed_at = self._closed_at or now
                if now - self._closed_at > _LAST_WORDS_SECONDS:
                    cut, self._cut = self._cut, None
        if cut is not None:
            cut()

    @property
    def is_over(self) -> bool:
        """Whether the machine is in a final state and no call carries it."""
        with self._lock:
            return self._machine.is_closed and self._cut is None

    # --- the owner --------------------------------------------------------------------

    def poll(self, seconds: float = _RECHECK_SECONDS) -> Event | None:
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
        with self._lock:
            cut, self._cut = self._cut, None
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


class SendPump(Pump[SendStream]):
    """The owner's view of a sending stream: wait for room, write, finish, wait for the commit.

    Two ways to feed it. An owner whose bytes come from elsewhere *writes* them. An owner with a
    source hands over ``supply`` and the carrier's writer draws from it, which saves a thread's
    hand-over for each chunk.
    """

    on_held: Callable[[PeerHeld], None] | None = None
    """Called in the owner's thread when the receiver says that it waits for somebody else."""

    _supply: Supply | None = None
    _supply_error: BaseException | None = None
    _drawn: tuple[int, Payload] | None = None
    _is_drawing = False

    def wait_room(self) -> tuple[int, int] | None:
        """Return (offset, bytes) of the next piece to write, or None once everything is written.

        Raises:
            StreamlinkError: the stream has failed.
        """
        while True:
            with self._lock:
                machine = self._machine
                while not machine.has_events:
                    if (room := machine.writable_bytes) > 0:
                        return machine.position, room
                    if machine.state is State.STREAMING and _is_written(machine):
                        return None
                    self._wait_alive()
                event = machine.next_event()
            self._react(event)

    def draw(self, supply: Supply) -> None:
        """Let the writer draw from ``supply(offset, nbytes)`` and wait until all is written.

        Raises:
            StreamlinkError: the stream has failed.
            Exception: whatever ``supply`` raised; the peer has been told.
        """
        with self.locked():
            self._supply = supply
        while True:
            with self._lock:
                machine = self._machine
                while not self._owner_has_work():
                    self._wait_alive()
                event = machine.next_event()
                if event is None:
                    return
            if self._supply_error is not None:
                raise self._supply_error
            self._react(event)

    def write(self, offset: int, payload: Payload) -> bool:
        """Queue ``payload``; its views must not change until received.

        Returns:
            False where it was not taken: the call was lost, or a resume went back behind it;
            ``wait_room`` then says where to go on.
        """
        with self.locked() as (machine, now):
            nbytes = sum(view.nbytes for view in payload)
            if machine.position != offset or not 0 < nbytes <= machine.writable_limit:
                return False
            machine.write(payload, now=now)
            return True

    def finish(self, digest: str, metrics: Mapping[str, float] = NO_METRICS) -> None:
        """Say that all is written; ``wait_committed`` tells what became of it."""
        with self.locked() as (machine, now):
            if machine.state is State.STREAMING and _is_written(machine):
                machine.finish(digest, metrics, now=now)

    def wait_committed(self) -> bool:
        """Wait for the receiver's word. False: it came back asking for bytes again; go on writing.

        Raises:
            StreamlinkError: the stream has failed.
        """
        while True:
            with self._lock:
                machine = self._machine
                while not machine.has_events:
                    self._wait_alive()
                event = machine.next_event()
                is_rewound = isinstance(event, Accepted) and machine.state is State.STREAMING
            if isinstance(event, Committed):
                return True
            if is_rewound:
                return False
            self._react(event)

    def wait_undrawn(self) -> None:
        """Draw no more, and wait until nobody reads the supply: its source may be closed then."""
        with self._lock:
            self._supply = None
            while self._is_drawing:
                self._to_own.wait(_RECHECK_SECONDS)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Say that this sender waits for somebody else."""
        with self.locked() as (machine, now):
            machine.hold(reason, waiting_for, now=now)

    @property
    def stream(self) -> SendStream:
        """The machine, for its facts and its snapshot ``stats``."""
        return self._machine

    def _react(self, event: Event | None) -> None:
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, PeerHeld) and self.on_held is not None:
            self.on_held(event)

    def _wait_alive(self) -> None:
        """Wait for news; raise why there will be none."""
        if self._machine.is_closed and self._machine.error is not None:
            raise self._machine.error
        self._to_own.wait(_RECHECK_SECONDS)

    def _refill(self) -> None:
        with self._lock:
            offset, nbytes = self._machine.position, self._machine.writable_bytes
            if self._supply is None or nbytes == 0:
                return
            self._is_drawing = True
        try:
            self._refill_from(self._supply, offset, nbytes)
        finally:
            with self._lock:
                self._is_drawing = False
                self._to_own.notify_all()

    def _refill_from(self, supply: Supply, offset: int, nbytes: int) -> None:
        try:
            # What was drawn and not taken comes first: a supply cannot be asked for it again.
            drawn_at, payload = self._drawn or (offset, ())
            if not payload or drawn_at != offset:
                payload = supply(offset, nbytes)
        except BaseException as error:
            self._supply_error = error
            code = AbortCode.STORE_FAILED if isinstance(error, OSError) else AbortCode.TASK_FAILED
            self.abort(code, f"{type(error).__name__}: {error}")
        else:
            self._drawn = None if self.write(offset, payload) else (offset, payload)

    def _writer_has_work(self) -> bool:
        machine = self._machine
        return machine.has_frames or (self._supply is not None and machine.writable_bytes > 0)

    def _owner_has_work(self) -> bool:
        machine = self._machine
        if machine.has_events:
            return True
        if self._supply is not None:
            return machine.state is State.STREAMING and _is_written(machine)
        return machine.writable_bytes > 0


class ReceivePump(Pump[ReceiveStream]):
    """The owner's view of a receiving stream: events in order, and credit back."""

    def next(self, seconds: float = _RECHECK_SECONDS) -> Event | None:
        """Return the next event but failures, waiting up to ``seconds``; None when there was none.

        Raises:
            StreamlinkError: the stream has failed.
        """
        event = self.poll(seconds)
        if isinstance(event, Failed):
            raise event.error
        if event is None and self._machine.is_closed and self._machine.error is not None:
            raise self._machine.error
        return event

    def accept(self, *, wants_spec: bool) -> None:
        """Let the sender begin."""
        self._do(lambda machine, now: machine.accept(wants_spec=wants_spec, now=now))

    def release(self, nbytes: int) -> None:
        """Give back credit for bytes the sink has."""
        self._do(lambda machine, now: machine.release(nbytes, now=now))

    def committing(self) -> None:
        """Say that the commit moved."""
        self._do(lambda machine, now: machine.committing(now=now))

    def commit(self, digest: str) -> None:
        """Say that the model is whole: success."""
        self._do(lambda machine, _: machine.commit(digest))

    def hold(self, reason: str, waiting_for: str) -> None:
        """Say that this receiver waits for somebody else; nothing to say once it is done."""
        with self.locked() as (machine, now):
            machine.hold(reason, waiting_for, now=now)

    @property
    def stream(self) -> ReceiveStream:
        """The machine, for its facts and its snapshot ``stats``."""
        return self._machine

    def _do(self, act: Callable[[ReceiveStream, float], None]) -> None:
        with self.locked() as (machine, now):
            if not machine.is_closed:
                act(machine, now)
                return
        # The owner learns why from the error the machine keeps.
        raise machine.error or TransportClosed(f"{machine.name} is already done")


class Ticker:
    """One thread that looks at the clocks of many pumps.

    It also notices when this process itself stood still (stopped, starved, suspended): then every
    clock is pushed back by the pause, so that the frames that are waiting are read before anyone is
    blamed for being silent.
    """

    INTERVAL_SECONDS = 0.2
    PAUSE_SECONDS = 1.0

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._pumps: set[Pump[Any]] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamlink-ticker", daemon=True)
        self._thread.start()

    def add(self, pump: Pump[Any]) -> None:
        """Watch ``pump`` until it is over."""
        with self._lock:
            self._pumps.add(pump)

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        last = self._clock()
        while not self._stop.wait(self.INTERVAL_SECONDS):
            now = self._clock()
            pause = now - last - self.INTERVAL_SECONDS
            self._tick_all(pause if pause > self.PAUSE_SECONDS else 0.0)
            last = now

    def _tick_all(self, excused: float) -> None:
        with self._lock:
            pumps = list(self._pumps)
        for pump in pumps:
            try:
                pump.tick(excused=excused)
            except Exception:
                logger.exception("a clock failed")  # the other streams still need theirs
            if pump.is_over:
                with self._lock:
                    self._pumps.discard(pump)


def _is_written(machine: SendStream) -> bool:
    return machine.position == machine.total_bytes
