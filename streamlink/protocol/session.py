"""``SessionMachine``: one peer's standing connection, either end of it.

    client:  GREETING ── welcome ──▶ READY ──▶ CLOSED
    server:  WAITING ── hello ──▶ GREETED ── welcome() ──▶ READY ──▶ CLOSED

It agrees on version, chunk size and limits, keeps a heartbeat, and carries requests and replies.
The models a request sends or returns travel on streams of their own; their two stages, sending and
receiving, are those streams' clocks. The stage between them, *processing*, is watched here: it
starts when the request is complete at the peer, restarts when a counter of this very request moved,
and ends with the first byte of the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    CommunicationTimeout,
    OpenTimeout,
    RemoteProtocolError,
    StreamAborted,
    StreamTimeout,
)
from streamlink.protocol.events import (
    Answered,
    Asked,
    CalledOff,
    Greeted,
    Left,
    Ready,
    RequestFailed,
)
from streamlink.protocol.frames import (
    NO_ENTRIES,
    Abort,
    Attempt,
    Cancel,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Reply,
    Request,
    TaskProgress,
    Welcome,
)
from streamlink.protocol.machine import Machine, Moves

VERSION_MIN = VERSION_MAX = 1
FRAME_OVERHEAD_BYTES = 1024
"""Room a chunk's frame needs beside its payload, generously (bytes)."""

SMALLEST_CHUNK_BYTES = 1024
SHORTEST_BEAT_SECONDS = 0.1
MOST_EVENTS = 1024
"""Requests that may wait for the owner before the peer is taken for a flood (count)."""

_OPEN, _ALIVE, _BEAT = "open", "alive", "heartbeat"


class SessionState(Enum):
    """Where a session stands."""

    GREETING = auto()
    """Client: hello sent."""
    WAITING = auto()
    """Server: nothing heard yet."""
    GREETED = auto()
    """Server: hello heard, the owner decides."""
    READY = auto()
    CLOSED = auto()


class SessionDied(StreamTimeout):
    """Nothing at all was heard from the peer for ``session_timeout``."""

    code = AbortCode.SESSION_LOST
    verb = "was not heard from"


class SessionMachine(Machine):
    """One end of a session; ``hello`` given makes it the client's."""

    MOVES: ClassVar[Moves] = {
        (SessionState.GREETING, Welcome): SessionState.READY,
        (SessionState.WAITING, Hello): SessionState.GREETED,
        (SessionState.READY, Heartbeat): SessionState.READY,
        (SessionState.READY, Request): SessionState.READY,
        (SessionState.READY, TaskProgress): SessionState.READY,
        (SessionState.READY, Reply): SessionState.READY,
        (SessionState.READY, Cancel): SessionState.READY,
        (SessionState.GREETING, Goodbye): SessionState.CLOSED,
        (SessionState.WAITING, Goodbye): SessionState.CLOSED,
        (SessionState.GREETED, Goodbye): SessionState.CLOSED,
        (SessionState.READY, Goodbye): SessionState.CLOSED,
        (SessionState.GREETING, Abort): SessionState.CLOSED,
        (SessionState.WAITING, Abort): SessionState.CLOSED,
        (SessionState.GREETED, Abort): SessionState.CLOSED,
        (SessionState.READY, Abort): SessionState.CLOSED,
    }
    FINAL = frozenset({SessionState.CLOSED})
    ENDED = SessionState.CLOSED

    state: SessionState

    def __init__(self, config: LinkConfig, *, peer: str, hello: Hello | None = None) -> None:
        super().__init__(config, peer=peer, name="session")
        self.is_client = hello is not None
        self.state = SessionState.GREETING if self.is_client else SessionState.WAITING
        self._hello = hello
        self._beat_seconds = config.timeouts.heartbeat_interval
        self._beats = 0
        self._next_request = 1
        self._progress: dict[int, int] = {}
        self._begun: set[int] = set()

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer."""
        super().receive(frame, now=now)
        if self.state is SessionState.READY:
            self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now, in order; anything at all stands for a heartbeat."""
        frames = super().frames_to_send(now=now)
        if frames and self._timers.is_running(_BEAT):
            self._timers.start(_BEAT, self._beat_seconds, now=now)
        return frames

    # --- life ----------------------------------------------------------------------

    def attach(self, *, now: float) -> None:
        """Begin over a call."""
        self.is_attached = True
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        if self._hello is not None:
            self._outbox.append(self._hello)

    def detach(self, *, now: float) -> None:
        """The call is lost, and with it the session."""
        self.is_attached = False
        if not self.is_closed:
            error = StreamAborted(
                AbortCode.SESSION_LOST, "the connection ended", by_peer=True, who=self.peer
            )
            self._end(error)

    def welcome(self, session_id: str, epoch: str, *, now: float) -> Welcome:
        """Server: answer ``Greeted``; returns what was agreed.

        Raises:
            RemoteProtocolError: versions or sizes do not meet; abort the session with its code.
        """
        self._require(self.state is SessionState.GREETED, "welcome")
        assert self._hello is not None
        answer = Welcome(
            version=_agree_version(self._hello),
            session_id=session_id,
            epoch=epoch,
            chunk_bytes=self._agree_chunk(self._hello),
            heartbeat_interval=self.config.timeouts.heartbeat_interval,
        )
        self.state = SessionState.READY
        self._outbox.append(answer)
        self._become_ready(self._hello.session_timeout / 3, now)
        return answer

    def goodbye(self, reason: str) -> None:
        """End the session on purpose."""
        if not self.is_closed:
            self._outbox.append(Goodbye(reason))
            self.state = SessionState.CLOSED
            self._timers.stop_all()

    # --- requests and replies --------------------------------------------------------

    def request(
        self,
        topic: str,
        *,
        attempt: Attempt = Attempt(),
        sends: int = 0,
        returns: int = 0,
        metadata: Mapping[str, str] = NO_ENTRIES,
        part: tuple[str, ...] = (),
        now: float,
    ) -> int:
        """Ask the peer; returns the request's number. ``Answered`` or ``RequestFailed`` follows."""
        self._require(self.state is SessionState.READY, "request")
        number, self._next_request = self._next_request, self._next_request + 1
        self._outbox.append(Request(number, topic, attempt, sends, returns, metadata, part))
        self._progress[number] = 0
        if not sends:
            self.request_complete(number, now=now)
        return number

    def request_complete(self, number: int, *, now: float) -> None:
        """The whole request is at the peer: the processing clock starts.

        Unless the reply has begun already: a peer may answer while it is still being asked.
        """
        if number in self._progress and number not in self._begun:
            self._start_processing(number, now)

    def reply_began(self, number: int) -> None:
        """The first byte of the reply is here: processing is over."""
        if number in self._progress:
            self._begun.add(number)
        self._timers.stop(_processing(number))

    def cancel(self, number: int, reason: str) -> None:
        """Give up a request whose answer nobody wants any more, and tell the peer so."""
        if number in self._progress and self.state is SessionState.READY:
            self._outbox.append(Cancel(number, reason))
        self._forget_request(number)

    def _forget_request(self, number: int) -> None:
        self._progress.pop(number, None)
        self._begun.discard(number)
        self._timers.stop(_processing(number))

    def report_progress(self, number: int, counter: int) -> None:
        """Serving side: say that the work on request ``number`` has moved."""
        self._require(self.state is SessionState.READY, "progress")
        self._outbox.append(TaskProgress(number, counter))

    def reply(
        self,
        number: int,
        *,
        error: str = "",
        traceback: str = "",
        metadata: Mapping[str, str] = NO_ENTRIES,
    ) -> None:
        """Serving side: answer request ``number``."""
        self._require(self.state is SessionState.READY, "reply")
        self._outbox.append(Reply(number, error, traceback, metadata))

    # --- the peer speaks ---------------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Hello():
                self._on_hello(frame, now)
            case Welcome():
                self._on_welcome(frame, now)
            case Request():
                self._on_request(frame)
            case TaskProgress():
                self._on_progress(frame, now)
            case Reply():
                self._on_reply(frame)
            case Cancel():
                self._on_cancel(frame)
            case Abort():
                self._on_abort(frame)
            case Goodbye():
                self._timers.stop_all()
                self._outbox.clear()
                self._events.append(Left(frame.reason))

    def _on_hello(self, frame: Hello, now: float) -> None:
        self._hello = frame
        self.peer = frame.name or self.peer
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._events.append(Greeted(frame))

    def _on_welcome(self, frame: Welcome, now: float) -> None:
        if not VERSION_MIN <= frame.version <= VERSION_MAX:
            raise self._violation(f"chose version {frame.version}, which we did not offer")
        if not SMALLEST_CHUNK_BYTES <= frame.chunk_bytes <= self.config.stream.chunk_bytes:
            raise self._violation(f"chose a chunk size of {frame.chunk_bytes} bytes")
        self._become_ready(frame.heartbeat_interval, now)
        self._events.append(Ready(frame))

    def _on_request(self, frame: Request) -> None:
        if len(self._events) >= MOST_EVENTS:
            raise self._violation(f"asked {MOST_EVENTS} times before this side could listen")
        self._events.append(Asked(frame))

    def _on_cancel(self, frame: Cancel) -> None:
        if len(self._events) >= MOST_EVENTS:
            raise self._violation(f"cancelled {MOST_EVENTS} times before this side could listen")
        self._events.append(CalledOff(frame.request_id, frame.reason))

    def _on_progress(self, frame: TaskProgress, now: float) -> None:
        if frame.counter > self._progress.get(frame.request_id, frame.counter):
            self._progress[frame.request_id] = frame.counter
            if self._timers.is_running(_processing(frame.request_id)):
                self._start_processing(frame.request_id, now)

    def _on_reply(self, frame: Reply) -> None:
        if frame.request_id in self._progress:  # else: given up, or answered twice
            self._forget_request(frame.request_id)
            self._events.append(Answered(frame))

    # --- clocks ------------------------------------------------------------------------

    def _become_ready(self, beat_seconds: float, now: float) -> None:
        # The other side's silence limit may be shorter than ours; a tenth of a second is a floor
        # against a peer that asks for a flood.
        self._beat_seconds = max(SHORTEST_BEAT_SECONDS, min(self._beat_seconds, beat_seconds))
        self._timers.stop(_OPEN)
        self._timers.start(_BEAT, self._beat_seconds, now=now)
        self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)

    def _expire(self, name: str, now: float) -> None:
        if name == _BEAT:
            self._beats += 1
            self._outbox.append(Heartbeat(self._beats))
            self._timers.start(_BEAT, self._beat_seconds, now=now)
        elif name == _ALIVE:
            self._time_out(SessionDied(**self._idle_facts(name, now, 0), setting="session_timeout"))
        elif name == _OPEN:
            self._time_out(OpenTimeout(**self._idle_facts(name, now, 0), setting="open_timeout"))
        else:
            self._request_expired(int(name.partition(" ")[2]), now)

    def _request_expired(self, number: int, now: float) -> None:
        facts = self._idle_facts(_processing(number), now, 0)
        facts["stream"] = f"request {number}"
        self._forget_request(number)
        error = CommunicationTimeout(**facts, stage="processing")
        self._events.append(RequestFailed(number, error))

    def _start_processing(self, number: int, now: float) -> None:
        seconds = self.config.timeouts.communication_timeout
        self._timers.start(_processing(number), seconds, now=now)

    # --- what is agreed ------------------------------------------------------------------

    def _agree_chunk(self, hello: Hello) -> int:
        fits = min(hello.max_message_bytes, self.config.grpc.max_message_bytes)
        size = min(hello.chunk_bytes, self.config.stream.chunk_bytes, fits - FRAME_OVERHEAD_BYTES)
        if size < SMALLEST_CHUNK_BYTES:
            raise RemoteProtocolError(
                f"{self.peer} offers chunk_bytes={hello.chunk_bytes} and "
                f"max_message_bytes={hello.max_message_bytes}; the smallest chunk that can be "
                f"agreed on is {SMALLEST_CHUNK_BYTES} bytes"
            )
        return size


def _processing(number: int) -> str:
    return f"processing {number}"


def _agree_version(hello: Hello) -> int:
    version = min(hello.version_max, VERSION_MAX)
    if version < max(hello.version_min, VERSION_MIN):
        error = RemoteProtocolError(
            f"{hello.name} speaks versions {hello.version_min} to {hello.version_max}, this server "
            f"{VERSION_MIN} to {VERSION_MAX}; upgrade the older side"
        )
        error.code = AbortCode.VERSION
        raise error
    return version
