"""What all machines share: the outbox, the events, the clocks, the table of moves, and the end.

Five verbs, and time always comes in by keyword: ``receive``, ``handle_timer``, ``frames_to_send``,
``next_event``, ``next_deadline``. Legal moves are a table ``(state, frame type) → state``; whatever
is absent is the peer's error. ``Machine`` is any of them, ``StreamMachine`` one half of a transfer,
which outlives the call that carries it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, TypedDict

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
)
from streamlink.protocol.events import Event, Failed, PeerHeld
from streamlink.protocol.frames import Abort, Frame, Held
from streamlink.protocol.timers import Timers

Moves = Mapping[tuple[Enum, type], Enum]


class IdleFacts(TypedDict):
    """What every ``StreamTimeout`` tells."""

    who: str
    stream: str
    seconds: float
    bytes_done: int


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
        self._timers = Timers()
        self._outbox: deque[Frame] = deque()
        self._events: deque[Event] = deque()
        self._last_words: Abort | None = None

    state: Enum

    # --- the five verbs ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the machine."""
        if self.is_closed:
            return  # what was on its way when we ended; nobody is left to be told
        try:
            self._move(frame)
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

    # --- ends and pauses -----------------------------------------------------

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

    def excuse(self, seconds: float) -> None:
        """Forgive ``seconds`` in which this process, not the peer, stood still."""
        self._timers.excuse(seconds)

    # --- for the machines ----------------------------------------------------

    def _move(self, frame: Frame) -> None:
        kind = type(frame)
        state = self.MOVES.get((self.state, kind))
        if state is None:
            raise self._violation(
                f"sent {kind.__name__.lower()} while {self.name} is {self.state.name.lower()}"
            )
        self.state = state

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


class StreamMachine(Machine):
    """Base of ``SendStream`` and ``ReceiveStream``: calls come and go, and either end may hold."""

    FINAL = frozenset({State.DONE, State.ABORTED})
    ENDED = State.ABORTED

    def __init__(self, config: LinkConfig, *, stream_id: int, peer: str, name: str) -> None:
        super().__init__(config, peer=peer, name=name or f"stream {stream_id}", stream_id=stream_id)
        self.resumes = 0
        self._held_counter = 0
        self._peer_held_counter = 0

    state: State

    # --- the carrier comes and goes ------------------------------------------

    def attach(self, *, now: float) -> None:
        """Begin, or go on, over a new call. A stream that has failed only says why."""
        self.is_attached = True
        self._outbox.clear()
        if self.state is not State.ABORTED:
            self._attach(now)
        elif self._last_words is not None:
            self._outbox.append(self._last_words)

    def detach(self, *, now: float) -> None:
        """The call is lost. Nothing is: ``attach`` goes on from what the receiver has."""
        self.is_attached = False
        self._outbox.clear()
        if not self.is_closed:
            self._detach(now)

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
        if self.is_attached:
            self._outbox.append(Held(self._held_counter, reason, waiting_for))
        self._we_hold(now)

    def _on_held(self, frame: Held, now: float) -> None:
        # Progress is a counter that moved, not an event that happened.
        if frame.counter <= self._peer_held_counter:
            return
        self._peer_held_counter = frame.counter
        self._peer_holds(now)
        if not (self._events and isinstance(self._events[-1], PeerHeld)):
            self._events.append(PeerHeld(frame.reason, frame.waiting_for))

    def _we_hold(self, now: float) -> None:
        """Start the clocks on our own waiting part again, if there are any."""

    def _peer_holds(self, now: float) -> None:
        raise NotImplementedError

    # --- clocks --------------------------------------------------------------

    def _watch(self, clock: str, seconds: float, *, is_owed: bool, now: float) -> None:
        """Let ``clock`` run just while something ``is_owed``; only progress starts it again."""
        if not is_owed:
            self._timers.stop(clock)
        elif not self._timers.is_running(clock):
            self._timers.start(clock, seconds, now=now)
