"""What both stream machines share: the outbox, the events, the clocks, and how a stream ends.

Five verbs, and time always comes in by keyword: ``receive``, ``handle_timer``, ``frames_to_send``,
``next_event``, ``next_deadline``. Legal moves are a table ``(state, frame type) → state``; whatever
is absent is the peer's error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

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


class State(Enum):
    """Where a stream stands. Sender: OPENING, STREAMING, FINISHING. Receiver: all the others too."""

    WAITING = auto()
    """Receiver: nothing heard yet."""
    OPENING = auto()
    """Sender: open sent. Receiver: open heard, the owner decides."""
    STREAMING = auto()
    FINISHING = auto()
    """Every chunk was sent; some may still be missing or under repair."""
    COMMITTING = auto()
    """Receiver: every byte delivered, the owner makes the model whole."""
    DONE = auto()
    ABORTED = auto()


FINAL = frozenset({State.DONE, State.ABORTED})

Moves = Mapping[tuple[State, type], State]


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


class StreamMachine:
    """Base of ``SendStream`` and ``ReceiveStream``. One lock around it is the owner's business."""

    MOVES: ClassVar[Moves] = {}

    def __init__(self, config: LinkConfig, *, stream_id: int, peer: str, name: str) -> None:
        self.config = config
        self.stream_id = stream_id
        self.peer = peer
        self.name = name or f"stream {stream_id}"
        self.error: StreamlinkError | None = None
        self.is_attached = False
        self.resumes = 0
        self._timers = Timers()
        self._outbox: deque[Frame] = deque()
        self._events: deque[Event] = deque()
        self._held_counter = 0
        self._peer_held_counter = 0

    state: State

    # --- the five verbs ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the stream."""
        if self.state in FINAL:
            return  # what was on its way when we ended; nobody is left to be told
        try:
            self._move(frame)
            self._dispatch(frame, now)
        except ProtocolError as error:
            self._fail(error, error.code)

    def handle_timer(self, *, now: float) -> None:
        """Act on every clock that has expired: the stream ends with the error that names it."""
        for name in self._timers.expired(now=now):
            if self.state in FINAL:
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

    # --- ends, holds, pauses -------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the stream is in a final state."""
        return self.state in FINAL

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        return bool(self._outbox)

    @property
    def has_events(self) -> bool:
        """Whether ``next_event`` would return something."""
        return bool(self._events)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the stream for a reason of our own and tell the peer."""
        if self.state not in FINAL:
            self._fail(StreamAborted(code, reason, by_peer=False), code)

    def hold(self, reason: str, waiting_for: str, *, now: float) -> None:
        """Say that this end is alive and waits for ``waiting_for``; say it again while it lasts.

        Our own clocks that watch the waiting part start again, too.
        """
        if self.state in FINAL:
            return
        self._held_counter += 1
        if self.is_attached:
            self._outbox.append(Held(self._held_counter, reason, waiting_for))
        self._restart_clocks(now)

    def excuse(self, seconds: float) -> None:
        """Forgive ``seconds`` in which this process, not the peer, stood still."""
        self._timers.excuse(seconds)

    # --- for the two machines ------------------------------------------------

    def _move(self, frame: Frame) -> None:
        kind = type(frame)
        state = self.MOVES.get((self.state, kind))
        if state is None:
            raise RemoteProtocolError(
                f"{self.peer} sent {kind.__name__.lower()} while {self.name} is "
                f"{self.state.name.lower()}",
                stream_id=self.stream_id,
            )
        self.state = state

    def _dispatch(self, frame: Frame, now: float) -> None:
        raise NotImplementedError

    def _expire(self, name: str, now: float) -> None:
        raise NotImplementedError

    def _restart_clocks(self, now: float) -> None:
        raise NotImplementedError

    def _on_abort(self, frame: Abort) -> None:
        self._end(StreamAborted(frame.code, frame.reason, by_peer=True, who=self.peer))

    def _on_held(self, frame: Held, now: float) -> None:
        # Progress is a counter that moved, not an event that happened.
        if frame.counter <= self._peer_held_counter:
            return
        self._peer_held_counter = frame.counter
        self._restart_clocks(now)
        if not (self._events and isinstance(self._events[-1], PeerHeld)):
            self._events.append(PeerHeld(frame.reason, frame.waiting_for))

    def _require(self, is_allowed: bool, what: str) -> None:
        if not is_allowed:
            raise LocalProtocolError(
                f"{what} while {self.name} is {self.state.name.lower()}", stream_id=self.stream_id
            )

    def _violation(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.peer} {what}", stream_id=self.stream_id)

    def _time_out(self, error: StreamTimeout) -> None:
        self._fail(error, error.code)

    def _fail(self, error: StreamlinkError, code: AbortCode) -> None:
        self._end(error)
        if self.is_attached:
            self._outbox.append(Abort(code, str(error)))

    def _end(self, error: StreamlinkError) -> None:
        self.state = State.ABORTED
        self.error = error
        self._timers.stop_all()
        self._outbox.clear()
        self._drop_payloads()
        self._events.append(Failed(error))

    def _drop_payloads(self) -> None:
        raise NotImplementedError
