"""What all machines share: the outbox, the events, the clocks, the table of moves, and the end.

Five verbs, and time always comes in by keyword: ``receive``, ``handle_timer``, ``frames_to_send``,
``next_event``, ``next_deadline``. Legal moves are a table ``(state, frame type) → state``; whatever
is absent is the peer's error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, TypedDict

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


_GOODBYE_SECONDS = 30.0  # what a good end may take to reach a peer
_LAST_WORDS_SECONDS = 1.0  # what the abort of a failed machine may take to leave


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
        self.damaged = 0
        """Frames that arrived damaged and cost their call."""
        self._damaged_in_a_row = 0  # calls given up for that since one brought anything
        self._closed_at: float | None = None
        self._is_attached = False
        self._timers = Timers()
        self._outbox: deque[Frame] = deque()
        self._events: deque[Event] = deque()
        self._last_words: Abort | None = None
        self._allowance = Allowance(config.limits.frames_per_second)

    state: Enum

    # --- the five verbs ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Take one frame from the peer. A frame the state does not allow ends the machine.

        Args:
            frame: what arrived.
            now: monotonic seconds.
            channel: which channel brought it; a session has one at a time.
        """
        if not isinstance(frame, GREETINGS):
            self._damaged_in_a_row = 0
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

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to go out now on ``channel``, in order, and forget it here."""
        if self.observer is not None:
            self.observer.sends(self)
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """Return the next thing the owner should know, or None."""
        if not self._events:
            return None
        if self.observer is not None:
            self.observer.tells(self)
        return self._events.popleft()

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` wants to be called (monotonic seconds), or None."""
        return self._timers.next_deadline()

    # --- ends ----------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the machine is in a final state."""
        return self.state in self.FINAL

    @property
    def is_attached(self) -> bool:
        """Whether a call carries it."""
        return self._is_attached

    def attach(self, *, now: float, channel: int = 0) -> None:
        """Begin, or resume, over a new call."""
        raise NotImplementedError

    def detach(self, *, now: float, channel: int = 0) -> None:
        """Note that a call is lost."""
        raise NotImplementedError

    def is_lost(self, *, now: float) -> bool:
        """Whether it has waited too long for another call; a session has a clock for that."""
        return False

    def is_waiting(self, *, now: float) -> bool:
        """Whether its owner should know that it waits for another call."""
        return False

    def carries(self, channel: int) -> bool:
        """Whether that call still carries it: a machine gives up one that brings nothing."""
        return self.is_attached

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for that channel."""
        return bool(self._outbox)

    @property
    def has_events(self) -> bool:
        """Whether ``next_event`` would return something."""
        return bool(self._events)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End for a reason of our own and tell the peer."""
        if not self.is_closed:
            self._fail(StreamAborted(code, reason, by_peer=False), code)

    def take_damage(self, *, now: float, channel: int = 0) -> None:
        """Count a frame that arrived damaged, and give up its call: nobody can know what it was.

        After more than ``max_repairs`` such calls in a row that brought nothing else, another call
        would not help: the machine fails, and says so over this one.
        """
        self.damaged += 1
        self._damaged_in_a_row += 1
        if self.is_closed:
            return
        if self._damaged_in_a_row <= self.config.stream.max_repairs:
            self.detach(now=now, channel=channel)
            return
        error = ChecksumError(
            f"frames of {self.name} from {self.peer} arrive damaged, {self.damaged} so far, "
            "whatever call brings them; look at the network cards or proxies on the way",
            stream_id=self.stream_id,
        )
        self._fail(error, error.code)

    def is_overdue(self, *, now: float) -> bool:
        """Whether the machine has ended, and its calls have had their time to say so.

        A good end may take its time, but a peer that reads nothing keeps no threads for ever.
        """
        if not self.is_closed:
            self._closed_at = None
            return False
        if self._closed_at is None:
            self._closed_at = now
        most = _GOODBYE_SECONDS if self.error is None else _LAST_WORDS_SECONDS
        return now - self._closed_at > most

    # --- for the machines ----------------------------------------------------

    def _move(self, frame: Frame) -> None:
        self.state = self._after(frame, self.state)

    def _after(self, frame: Frame, state: Enum) -> Any:
        """Return the state that ``frame`` leads to from ``state``."""
        kind = type(frame)
        after = self.MOVES.get((state, kind))
        if after is None:
            raise self._violation(
                f"sent {kind.__name__.lower()} while {self.name} is {state.name.lower()}"
            )
        return after

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
