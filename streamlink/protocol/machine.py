"""What all machines share: the outbox, the events, the clocks, the table of moves, and the end.

Five verbs, and time always comes in by keyword: ``receive``, ``handle_timer``, ``frames_to_send``,
``next_event``, ``next_deadline``. Legal moves are a table ``(state, frame type) → state``; whatever
is absent is the peer's error. ``Machine`` is any of them, ``StreamMachine`` one half of a transfer,
which outlives the call that carries it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar, TypedDict

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
)
from streamlink.protocol.events import Event, Failed, PeerHeld
from streamlink.protocol.frames import Abort, Accept, Frame, Held, Hello, Open, SpecPage, Welcome
from streamlink.protocol.latency import AckTimes
from streamlink.protocol.limits import ATTACH_BURST, ATTACHES_PER_SECOND, Allowance
from streamlink.protocol.silence import Silence
from streamlink.protocol.stalls import HELD, NETWORK, NOTHING, READER, Stalls
from streamlink.protocol.timers import Timers

Moves = Mapping[tuple[Enum, type], Enum]

GREETINGS = (Open, Accept, SpecPage, Hello, Welcome)
"""What a new call begins with: it moves nothing."""


class IdleFacts(TypedDict):
    """What every ``StreamTimeout`` tells."""

    who: str
    stream: str
    seconds: float
    bytes_done: int


class SharedStats(TypedDict):
    """What a ``StreamStats`` tells of either half in the same way."""

    chunks: int
    repairs: int
    resumes: int
    damaged: int
    stall_seconds: Mapping[str, float]
    stalled_by: str
    stalled_at: float
    held_for: str


class Machine:
    """Base of every machine. One lock around it is the owner's business."""

    MOVES: ClassVar[Moves] = {}
    FINAL: ClassVar[frozenset[Enum]]
    ENDED: ClassVar[Enum]
    """The state of a machine that has failed."""

    def __init__(self, config: LinkConfig, *, peer: str, name: str, stream_id: int = 0) -> None:
        self.config = config
        self.peer = peer
        self.name = name
        self.stream_id = stream_id
        self.error: StreamlinkError | None = None
        self.is_attached = False
        self.damaged = 0
        """Frames that arrived damaged and cost their call."""
        self._timers = Timers()
        self._outbox: deque[Frame] = deque()
        self._events: deque[Event] = deque()
        self._last_words: Abort | None = None
        self._allowance = Allowance(config.limits.frames_per_second)

    state: Enum

    # --- the five verbs ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the machine."""
        if self.is_closed:
            return  # what was on its way when we ended; nobody is left to be told
        try:
            self._move(frame)
            self._count(frame, now)
            self._dispatch(frame, now)
        except ProtocolError as error:
            self._fail(error, error.code)

    def handle_timer(self, *, now: float) -> None:
        """Act on every clock that has expired; most end the machine with an error that names it."""
        for name in self._timers.expired(now=now):
            if self.is_closed:
                return
            self._expire(name, now)

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now, in order, and forget it here."""
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """Return the next thing the owner should know, or None."""
        return self._events.popleft() if self._events else None

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` wants to be called (monotonic seconds), or None."""
        return self._timers.next_deadline()

    # --- ends ----------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the machine is in a final state."""
        return self.state in self.FINAL

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        return bool(self._outbox)

    @property
    def has_events(self) -> bool:
        """Whether ``next_event`` would return something."""
        return bool(self._events)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End for a reason of our own and tell the peer."""
        if not self.is_closed:
            self._fail(StreamAborted(code, reason, by_peer=False), code)

    def take_damage(self, *, is_last: bool) -> None:
        """Count a frame that arrived damaged: nobody can know what it was.

        Args:
            is_last: too many came in a row, and nothing else; another call would not help.
        """
        self.damaged += 1
        if is_last and not self.is_closed:
            error = ChecksumError(
                f"frames of {self.name} from {self.peer} arrive damaged, {self.damaged} so far, "
                "whatever call brings them; look at the network cards or proxies on the way",
                stream_id=self.stream_id,
            )
            self._fail(error, error.code)

    # --- for the machines ----------------------------------------------------

    def _move(self, frame: Frame) -> None:
        kind = type(frame)
        state = self.MOVES.get((self.state, kind))
        if state is None:
            raise self._violation(
                f"sent {kind.__name__.lower()} while {self.name} is {self.state.name.lower()}"
            )
        self.state = state

    def _count(self, frame: Frame, now: float) -> None:
        if self._is_small(frame) and not self._allowance.spend(now=now):
            raise self._violation(
                f"floods this side: more than {self.config.limits.frames_per_second:g} frames a "
                f"second (frames_per_second), the last a {type(frame).__name__.lower()}"
            )

    def _is_small(self, frame: Frame) -> bool:
        """Whether a frame counts against the allowance; credit bounds the others."""
        return True

    def _dispatch(self, frame: Frame, now: float) -> None:
        raise NotImplementedError

    def _expire(self, name: str, now: float) -> None:
        raise NotImplementedError

    def _on_abort(self, frame: Abort) -> None:
        self._end(StreamAborted(frame.code, frame.reason, by_peer=True, who=self.peer))

    def _require(self, is_allowed: bool, what: str) -> None:
        if not is_allowed:
            raise LocalProtocolError(
                f"{what} while {self.name} is {self.state.name.lower()}", stream_id=self.stream_id
            )

    def _violation(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.peer} {what}", stream_id=self.stream_id)

    def _idle_facts(self, clock: str, now: float, bytes_done: int) -> IdleFacts:
        idle = self._timers.idle_seconds(clock, now=now)
        return {"who": self.peer, "stream": self.name, "seconds": idle, "bytes_done": bytes_done}

    def _time_out(self, error: StreamTimeout) -> None:
        self._fail(error, error.code)

    def _fail(self, error: StreamlinkError, code: AbortCode) -> None:
        self._end(error)
        if self.error is error:
            words = error.reason if isinstance(error, StreamAborted) else str(error)
            self._last_words = Abort(code, words)
            if self.is_attached:
                self._outbox.append(self._last_words)

    def _end(self, error: StreamlinkError) -> None:
        self.state = self.ENDED
        self.error = error
        self._timers.stop_all()
        self._outbox.clear()
        self._drop_payloads()
        self._events.append(Failed(error))

    def _drop_payloads(self) -> None:
        """Let go of every byte of a model; a failed machine may be kept for its facts."""


# --- streams ------------------------------------------------------------------


class State(Enum):
    """Where a stream stands. WAITING and COMMITTING are a receiver's."""

    __hash__ = object.__hash__  # each is one object; an Enum's own costs a call, for every frame

    WAITING = auto()
    """Receiver: nothing heard yet on this call."""
    OPENING = auto()
    """Sender: open sent. Receiver: open heard, the owner decides."""
    STREAMING = auto()
    FINISHING = auto()
    """Every chunk was sent; some may still be missing or under repair."""
    COMMITTING = auto()
    """Receiver: every byte delivered, the owner makes the model whole."""
    DONE = auto()
    ABORTED = auto()


@dataclass(frozen=True, slots=True)
class StreamStats:
    """A snapshot of one stream for logs, progress bars and benchmarks. Bytes unless named else."""

    total_bytes: int
    sent_bytes: int
    received_bytes: int
    taken_bytes: int
    chunks: int
    repairs: int
    resent_bytes: int
    resumes: int
    window_bytes: int
    chunk_bytes: int
    rate: float
    """Delivery rate seen by the sender (bytes per second)."""
    in_flight_bytes: int = 0
    """Sender: sent and not known to be received. Receiver: received and not taken."""
    ack_times: AckTimes = field(default_factory=AckTimes)
    """Sender: how long chunks took to be acknowledged."""
    stall_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by what limited the stream (``stalls``), up to ``stalled_at``."""
    stalled_by: str = ""
    """What limits it now; empty: nothing, it has not begun or is over."""
    stalled_at: float = 0.0
    """Since when (monotonic seconds)."""
    held_for: str = ""
    """Whom it waits for, where one end says that it waits for somebody else."""
    damaged: int = 0
    """Frames that arrived damaged and cost their call; damaged chunks are ``repairs``."""

    def stalls(self, *, now: float) -> dict[str, float]:
        """Return the seconds by cause, with the stretch that runs up to ``now``."""
        seconds = dict(self.stall_seconds)
        if self.stalled_by:
            running = max(0.0, now - self.stalled_at)
            seconds[self.stalled_by] = seconds.get(self.stalled_by, 0.0) + running
        return seconds


class StreamMachine(Machine):
    """Base of ``SendStream`` and ``ReceiveStream``: calls come and go, and either end may hold."""

    FINAL = frozenset({State.DONE, State.ABORTED})
    ENDED = State.ABORTED

    def __init__(self, config: LinkConfig, *, stream_id: int, peer: str, name: str) -> None:
        super().__init__(config, peer=peer, name=name or f"stream {stream_id}", stream_id=stream_id)
        self.resumes = 0
        self._chunks = self._repairs = 0
        self._attaches = Allowance(ATTACHES_PER_SECOND, burst=ATTACH_BURST)
        self._has_moved = True  # bytes, on the call of the moment or the one before
        self.waits_for = ""
        """Whom this end waits for before it goes on; another thread may set it at any time."""
        self._held_counter = 0
        self._peer_held_counter = 0
        self._peer_waits_for = ""
        self._stalls = Stalls()
        self._has_begun = False
        timeouts = config.timeouts
        self._silence = Silence(timeouts.call_timeout, open_timeout=timeouts.open_timeout)
        self._silent_since: float | None = None  # None: nothing is owed over a call
        self._was_silent = False  # whether that is why the last call was lost

    state: State

    # --- what limits it ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the machine."""
        silent_since = self._silent_since
        super().receive(frame, now=now)
        pause = 0.0 if silent_since is None else now - silent_since
        if isinstance(frame, GREETINGS):
            self._silence.greeted(pause)
        else:
            self._silence.moved(pause)
        if self._silent_since is not None:
            self._silent_since = now
        self._account(now)

    def handle_timer(self, *, now: float) -> None:
        """Act on every clock that has expired; most end the machine with an error that names it."""
        silent_at = self._silent_at()
        is_silent = silent_at is not None and silent_at <= now
        super().handle_timer(now=now)
        if is_silent and not self.is_closed:
            self._give_call_up(now)
        self._account(now)

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` wants to be called (monotonic seconds), or None."""
        deadline, silent_at = super().next_deadline(), self._silent_at()
        if deadline is None or silent_at is None:
            return silent_at if deadline is None else deadline
        return min(deadline, silent_at)

    def _account(self, now: float) -> None:
        """Put the time from ``now`` on down to whatever limits the stream as it stands."""
        if not self._has_begun:
            return
        cause = NOTHING if self.is_closed else self._cause()
        if cause != self._stalls.cause:
            self._stalls.turn(cause, now=now)

    def _cause(self) -> str:
        """Return what limits the stream now (see ``stalls``)."""
        raise NotImplementedError

    def _stalled_by(self) -> str:
        """Return the cause of the stretch that runs, with what was learnt since it began."""
        cause = self._stalls.cause
        return HELD if cause == READER and self.waits_for else cause

    def _go_on_ourselves(self) -> None:
        """We waited for somebody else, up to now."""
        self._stalls.blame(HELD, instead_of=READER)
        self.waits_for = ""

    def _shared_stats(self) -> SharedStats:
        cause = self._stalled_by()
        return {
            "chunks": self._chunks,
            "repairs": self._repairs,
            "resumes": self.resumes,
            "damaged": self.damaged,
            "stall_seconds": self._stalls.ended(),
            "stalled_by": cause,
            "stalled_at": self._stalls.since,
            "held_for": (self.waits_for or self._peer_waits_for) if cause == HELD else "",
        }

    # --- the carrier comes and goes ------------------------------------------

    def attach(self, *, now: float) -> None:
        """Begin, or go on, over a new call. A stream that has failed only says why."""
        self.is_attached = self._has_begun = True
        self._outbox.clear()
        if not self.is_closed and not self._may_attach(now):
            error = self._violation("opens call after call for this stream, and nothing moves")
            self._fail(error, error.code)
        elif self.state is not State.ABORTED:
            self._attach(now)
            self._account(now)
        elif self._last_words is not None:
            self._outbox.append(self._last_words)

    def _may_attach(self, now: float) -> bool:
        has_moved, self._has_moved = self._has_moved, False
        return has_moved or self._attaches.spend(now=now)

    def detach(self, *, now: float) -> None:
        """The call is lost. Nothing is: ``attach`` goes on from what the receiver has."""
        self.is_attached = False
        self._outbox.clear()
        if not self.is_closed:
            self._detach(now)
        self._account(now)

    def _give_call_up(self, now: float) -> None:
        """Let go of a call that says nothing; the stream's own clocks run on."""
        self._silence.gave_up()
        self._was_silent = True
        self.detach(now=now)
        self._was_silent = False

    def _attach(self, now: float) -> None:
        raise NotImplementedError

    def _detach(self, now: float) -> None:
        raise NotImplementedError

    # --- held ----------------------------------------------------------------

    def hold(self, reason: str, waiting_for: str, *, now: float) -> None:
        """Say that this end is alive and waits for ``waiting_for``; say it again while it lasts.

        A clock of ours that watches the waiting part starts again, too.
        """
        if self.is_closed:
            return
        self._held_counter += 1
        self.waits_for = waiting_for
        if self.is_attached:
            self._outbox.append(Held(self._held_counter, reason, waiting_for))
        self._we_hold(now)

    def _on_held(self, frame: Held, now: float) -> None:
        # Progress is a counter that moved, not an event that happened.
        if frame.counter <= self._peer_held_counter:
            return
        self._peer_held_counter = frame.counter
        self._peer_waits_for = frame.waiting_for
        if frame.waiting_for:
            self._stalls.blame(HELD, instead_of=self._peer_is_to_blame())
        self._peer_holds(now)
        if not (self._events and isinstance(self._events[-1], PeerHeld)):
            self._events.append(PeerHeld(frame.reason, frame.waiting_for))

    def _we_hold(self, now: float) -> None:
        """Start the clocks on our own waiting part again, if there are any."""

    def _peer_holds(self, now: float) -> None:
        raise NotImplementedError

    def _peer_is_to_blame(self) -> str:
        """Return the cause that a peer's being held explains."""
        return NETWORK

    # --- clocks --------------------------------------------------------------

    def _watch(self, clock: str, seconds: float, *, is_owed: bool, now: float) -> None:
        """Let ``clock`` run just while something ``is_owed``; only progress starts it again."""
        if not is_owed:
            self._timers.stop(clock)
        elif not self._timers.is_running(clock):
            self._timers.start(clock, seconds, now=now)

    def _watch_call(self, *, is_owed: bool, now: float) -> None:
        """Let the call be silent only so long while something ``is_owed`` over it."""
        if not (is_owed and self.is_attached):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now

    def _silent_at(self) -> float | None:
        """Return when the call has been silent for too long. No timer: each frame moves it."""
        if self._silent_since is None or self.is_closed:
            return None
        return self._silent_since + self._silence.patience(is_greeting=self._is_greeting())

    def _is_greeting(self) -> bool:
        """Whether the peer has not said the first word of this call."""
        raise NotImplementedError
