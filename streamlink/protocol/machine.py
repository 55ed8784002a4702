"""What all machines share: the outbox, the events, the timers, the transitions, and how they end.

Five verbs, and time always comes in by keyword: ``receive``, ``handle_timer``, ``frames_to_send``,
``next_event``, ``next_deadline``. What a peer may send in which state is a table (``states``).

A machine has no lock. Its pump holds one around each call, so no two verbs ever run at once.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, ClassVar, Protocol, TypedDict

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    Cancelled,
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
from streamlink.protocol.limits import TokenBucket
from streamlink.protocol.states import Transitions
from streamlink.protocol.timers import Timers

HANDSHAKE_FRAMES = (Open, Accept, SpecPage, Hello, Welcome)
"""What a new call begins with: none of it is progress."""

_COMMIT_SECONDS = 30.0  # how long the last frames of a success may take to leave
_ABORT_SECONDS = 1.0  # how long the abort of a failed machine may take to leave


class Observer(Protocol):
    """A test's hook: it is called for all machines of this process, with the pump's lock held.

    It may look at the machine's state and end the process, and must do no more. So a test can kill
    a process in a named state; ``tests/support/kill_points.py`` has the list.
    """

    def frame_received(self, machine: Any, frame: Frame) -> None:
        """A machine has received ``frame`` and made its transition."""

    def before_send(self, machine: Any) -> None:
        """Frames of a machine are about to leave; the peer does not know them yet."""

    def before_event(self, machine: Any) -> None:
        """A machine's owner is about to get an event; it has not acted on it yet."""


class IdleFacts(TypedDict):
    """What every ``StreamTimeout`` reports."""

    who: str
    stream: str
    seconds: float
    bytes_done: int


class Machine:
    """Base of every machine."""

    TRANSITIONS: ClassVar[Transitions] = {}
    FINAL: ClassVar[frozenset[Enum]]
    ENDED: ClassVar[Enum]
    """The state of a machine that has failed."""
    observer: ClassVar[Observer | None] = None
    """For tests; where it is None, it costs one comparison for each frame."""

    def __init__(
        self, config: LinkConfig, *, peer_name: str, name: str, stream_id: int = 0
    ) -> None:
        self.config = config
        self.peer_name = peer_name
        self.name = name
        self.stream_id = stream_id
        self.error: StreamlinkError | None = None
        self.damaged = 0
        """Frames that arrived damaged and cost their call."""
        self.carrier = ""
        """What carries it, or did last; for reports only."""
        self._damaged_in_a_row = 0  # calls closed for that since one brought progress
        self._closed_at: float | None = None
        self._is_attached = False
        self._timers = Timers()
        self._outbox: deque[Frame] = deque()
        self._events: deque[Event] = deque()
        self._closing_abort: Abort | None = None
        self._frame_budget = TokenBucket(config.limits.frames_per_second)

    state: Enum

    # --- the five verbs ------------------------------------------------------

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Process one frame from the peer. A frame the state does not allow ends the machine.

        Args:
            frame: what arrived.
            now: monotonic seconds.
            channel: which channel brought it; a session has one at a time.
        """
        if self._damaged_in_a_row and not isinstance(frame, HANDSHAKE_FRAMES):
            self._damaged_in_a_row = 0
        if self.state in self.FINAL:
            return  # it was in flight when we ended, and there is nobody left to answer
        try:
            self._transition(frame)
            self._count_frame(frame, now)
            self._dispatch(frame, now)
        except ProtocolError as error:
            self._fail(error, error.code)
        if self.observer is not None:
            self.observer.frame_received(self, frame)

    def handle_timer(self, *, now: float) -> None:
        """Act on every expired timer; most end the machine with an error that names the setting."""
        for name in self._timers.expired(now=now):
            # The first of several ends the machine, and names the deadline that passed first.
            if self.is_closed:
                return
            self._timer_expired(name, now)

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to leave now on ``channel``, in order, and forget it here."""
        if self.observer is not None:
            self.observer.before_send(self)
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """Return the next event for the owner, or None."""
        if not self._events:
            return None
        if self.observer is not None:
            self.observer.before_event(self)
        return self._events.popleft()

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` has to be called (monotonic seconds), or None."""
        return self._timers.next_deadline()

    # --- calls, and the end ----------------------------------------------------

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
        """Whether it has waited too long for another call; a session has a timer for that."""
        return False

    def is_waiting(self, *, now: float) -> bool:
        """Whether it has waited for another call for so long that its owner should report it."""
        return False

    def carries(self, channel: int) -> bool:
        """Whether that call still carries it: a machine closes a call that is silent too long."""
        return self.is_attached

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for that channel."""
        return bool(self._outbox)

    @property
    def has_events(self) -> bool:
        """Whether ``next_event`` would return something."""
        return bool(self._events)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End for a reason of our own, and send the reason to the peer."""
        if not self.is_closed:
            self._fail(StreamAborted(code, reason, by_peer=False), code)

    def end_cancelled(self, reason: str) -> None:
        """End because this side's token was cancelled; the peer gets the reason."""
        if not self.is_closed:
            self._fail(Cancelled(reason), AbortCode.CANCELLED)

    def report_damage(self, *, now: float, channel: int = 0) -> None:
        """Count a frame that arrived damaged, and close its call: its content cannot be known.

        After more than ``max_repairs`` such calls in a row that brought nothing else, another call
        would not help: the machine fails, and sends the reason over this one.
        """
        self.damaged += 1
        self._damaged_in_a_row += 1
        if self.is_closed:
            return
        if self._damaged_in_a_row <= self.config.stream.max_repairs:
            self.detach(now=now, channel=channel)
            return
        error = self._too_damaged(
            f"frames of {self.name} from {self.peer_name} arrive damaged, {self.damaged} so far, "
            "over every call that was tried; check the network cards and proxies on the way"
        )
        self._fail(error, error.code)

    def is_overdue(self, *, now: float) -> bool:
        """Whether the machine has ended, and its last frames have had their time to leave.

        A success gets more time than a failure, but even then a peer that reads nothing must not
        keep threads for ever.
        """
        if not self.is_closed:
            self._closed_at = None
            return False
        if self._closed_at is None:
            self._closed_at = now  # ``abort`` has no time to note; the ticker asks soon enough
        allowed = _COMMIT_SECONDS if self.error is None else _ABORT_SECONDS
        return now - self._closed_at > allowed

    # --- for the machines ----------------------------------------------------

    def _too_damaged(self, text: str) -> StreamlinkError:
        """Return the error of a machine whose frames arrive damaged over call after call."""
        return ChecksumError(text, stream_id=self.stream_id)

    def _transition(self, frame: Frame) -> None:
        self.state = self._next_state(frame, self.state)

    def _next_state(self, frame: Frame, state: Enum) -> Any:
        kind = type(frame)
        following = self.TRANSITIONS.get((state, kind))
        if following is None:
            raise self._violation(
                f"sent {kind.__name__.lower()} while {self.name} is in state {state.name}"
            )
        return following

    def _count_frame(self, frame: Frame, now: float) -> None:
        if self._is_small(frame) and not self._frame_budget.take_token(now=now):
            raise self._violation(
                f"floods this side: more than {self.config.limits.frames_per_second:g} frames a "
                f"second (frames_per_second), the last a {type(frame).__name__.lower()}"
            )

    def _is_small(self, frame: Frame) -> bool:
        """Whether a frame costs a token; the credit, or a size limit, bounds the others."""
        return True

    def _dispatch(self, frame: Frame, now: float) -> None:
        raise NotImplementedError

    def _timer_expired(self, name: str, now: float) -> None:
        raise NotImplementedError

    def _on_abort(self, frame: Abort) -> None:
        self._end(StreamAborted(frame.code, frame.reason, by_peer=True, who=self.peer_name))

    def _require(self, is_allowed: bool, what: str, advice: str = "") -> None:
        if not is_allowed:
            raise self._misuse(what, advice)

    def _misuse(self, what: str, advice: str = "") -> LocalProtocolError:
        return LocalProtocolError(
            f"{what} is not possible while {self.name} is in state {self.state.name}{advice}",
            stream_id=self.stream_id,
        )

    def _violation(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.peer_name} {what}", stream_id=self.stream_id)

    def _idle_facts(self, timer: str, now: float, bytes_done: int) -> IdleFacts:
        idle = self._timers.idle_seconds(timer, now=now)
        return {
            "who": self.peer_name, "stream": self.name, "seconds": idle, "bytes_done": bytes_done,
        }  # fmt: skip

    def _time_out(self, error: StreamTimeout) -> None:
        self._fail(error, error.code)

    def _fail(self, error: StreamlinkError, code: AbortCode) -> None:
        self._end(error)  # this empties the outbox: the abort is the next frame that leaves
        # A receiver that has committed is done instead: no later fault can undo its commit.
        if self.error is error:
            reason = error.reason if isinstance(error, StreamAborted) else str(error)
            self._closing_abort = Abort(code, reason)
            if self.is_attached:
                self._outbox.append(self._closing_abort)

    def _end(self, error: StreamlinkError) -> None:
        self.state = self.ENDED
        self.error = error
        self._timers.stop_all()
        self._outbox.clear()
        self._drop_payloads()
        self._events.append(Failed(error))

    def _drop_payloads(self) -> None:
        """Release every byte of a model; the owner may keep a failed machine for its facts."""
