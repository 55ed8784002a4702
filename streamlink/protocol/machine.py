"""What all machines share: the outbox, the events, the clocks, the table of moves, and the end.

Five verbs, and time always comes in by keyword: ``receive``, ``handle_timer``, ``frames_to_send``,
``next_event``, ``next_deadline``. Legal moves are a table ``(state, frame type) → state``; whatever
is absent is the peer's error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
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
from streamlink.protocol.events import Event, Failed
from streamlink.protocol.frames import Abort, Accept, Frame, Hello, Open, SpecPage, Welcome
from streamlink.protocol.limits import Allowance
from streamlink.protocol.observer import Observer
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


class Machine:
    """Base of every machine. One lock around it is the owner's business."""

    MOVES: ClassVar[Moves] = {}
    FINAL: ClassVar[frozenset[Enum]]
    ENDED: ClassVar[Enum]
    """The state of a machine that has failed."""
    observer: ClassVar[Observer | None] = None
    """Hears how all machines of this process move, for tests (see ``observer``)."""

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
        if self.state in self.FINAL:
            return  # what was on its way when we ended; nobody is left to be told
        try:
            self._move(frame)
            self._count(frame, now)
            self._dispatch(frame, now)
        except ProtocolError as error:
            self._fail(error, error.code)
        if self.observer is not None:
            self.observer.taken(self, frame)

    def handle_timer(self, *, now: float) -> None:
        """Act on every clock that has expired; most end the machine with an error that names it."""
        for name in self._timers.expired(now=now):
            if self.is_closed:
                return
            self._expire(name, now)

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now, in order, and forget it here."""
        if self.observer is not None:
            self.observer.sends(self)
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
            raise self._misuse(what)

    def _misuse(self, what: str) -> LocalProtocolError:
        return LocalProtocolError(
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
