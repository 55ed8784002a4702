"""``SessionMachine``: one peer's standing connection, either end of it.

    client:  GREETING ── welcome ──▶ READY ──▶ CLOSED
    server:  WAITING ── hello, welcome() ──▶ READY ──▶ CLOSED

It agrees on version, chunk size and limits, keeps a heartbeat, and carries requests and replies. The
models a request sends or returns travel on streams of their own; their two stages, sending and
receiving, are those streams' clocks. The stage between them, *processing*, is watched here: it starts
when the request is complete at the peer, restarts when a counter of this very request moved, and ends
with the first byte of the reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    CommunicationTimeout,
    LocalProtocolError,
    OpenTimeout,
    ProtocolError,
    RemoteProtocolError,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
)
from streamlink.protocol.events import (
    Answered,
    Asked,
    Event,
    Failed,
    Greeted,
    Left,
    Ready,
    RequestFailed,
)
from streamlink.protocol.frames import (
    NO_ENTRIES,
    Abort,
    Attempt,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Reply,
    Request,
    TaskProgress,
    Welcome,
)
from streamlink.protocol.timers import Timers

VERSION_MIN = VERSION_MAX = 1
FRAME_OVERHEAD_BYTES = 1024
"""Room a chunk's frame needs beside its payload, generously (bytes)."""

SMALLEST_CHUNK_BYTES = 1024

_OPEN, _ALIVE, _BEAT = "open", "alive", "heartbeat"


class SessionState(Enum):
    """Where a session stands."""

    GREETING = auto()
    WAITING = auto()
    READY = auto()
    CLOSED = auto()


class SessionDied(StreamTimeout):
    """Nothing at all was heard from the peer for ``session_timeout``."""

    code = AbortCode.SESSION_LOST
    verb = "was not heard from"


class SessionMachine:
    """One end of a session; ``hello`` given makes it the client's."""

    def __init__(self, config: LinkConfig, *, peer: str, hello: Hello | None = None) -> None:
        self.config = config
        self.peer = peer
        self.is_client = hello is not None
        self.state = SessionState.GREETING if self.is_client else SessionState.WAITING
        self.error: StreamlinkError | None = None
        self.is_attached = False
        self._hello = hello
        self._timers = Timers()
        self._outbox: deque[Frame] = deque()
        self._events: deque[Event] = deque()
        self._beat_seconds = config.timeouts.heartbeat_interval
        self._beats = 0
        self._heard_beats = 0
        self._next_request = 1
        self._progress: dict[int, int] = {}

    # --- the five verbs ----------------------------------------------------------

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer."""
        if self.is_closed:
            return
        try:
            self._dispatch(frame, now)
        except ProtocolError as error:
            self._fail(error, error.code)
        else:
            self._restart_alive(now)

    def handle_timer(self, *, now: float) -> None:
        """Send the heartbeat that is due; end the session or the request whose time is over."""
        for name in self._timers.expired(now=now):
            if self.is_closed:
                return
            if name == _BEAT:
                self._beats += 1
                self._outbox.append(Heartbeat(self._beats))
                self._timers.start(_BEAT, self._beat_seconds, now=now)
            elif name in (_ALIVE, _OPEN):
                error = self._silence(name, now)
                self._fail(error, error.code)
            else:
                self._request_expired(name, now)

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now, in order."""
        frames = list(self._outbox)
        self._outbox.clear()
        if frames and self._timers.is_running(_BEAT):
            self._timers.start(_BEAT, self._beat_seconds, now=now)
        return frames

    def next_event(self) -> Event | None:
        """Return the next thing the owner should know, or None."""
        return self._events.popleft() if self._events else None

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` wants to be called (monotonic seconds), or None."""
        return self._timers.next_deadline()

    # --- life ----------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the session is over."""
        return self.state is SessionState.CLOSED

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        return bool(self._outbox)

    @property
    def has_events(self) -> bool:
        """Whether ``next_event`` would return something."""
        return bool(self._events)

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
            RemoteProtocolError: versions or sizes do not meet; the session should be aborted with it.
        """
        if self.state is not SessionState.WAITING or self._hello is None:
            raise LocalProtocolError("welcome before hello")
        answer = Welcome(
            version=_agree_version(self._hello),
            session_id=session_id,
            epoch=epoch,
            chunk_bytes=self._agree_chunk(self._hello),
            heartbeat_interval=self.config.timeouts.heartbeat_interval,
        )
        self._outbox.append(answer)
        self._beat_at_least_every(self._hello.session_timeout / 3)
        self._become_ready(now)
        return answer

    def goodbye(self, reason: str) -> None:
        """End the session on purpose."""
        if not self.is_closed:
            self._outbox.append(Goodbye(reason))
            self._close()

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the session for a fault."""
        if not self.is_closed:
            self._fail(StreamAborted(code, reason, by_peer=False), code)

    def excuse(self, seconds: float) -> None:
        """Forgive ``seconds`` in which this process stood still."""
        self._timers.excuse(seconds)

    # --- requests and replies --------------------------------------------------------

    def request(
        self,
        topic: str,
        *,
        attempt: Attempt = Attempt(),
        sends: int = 0,
        returns: int = 0,
        metadata: Mapping[str, str] = NO_ENTRIES,
        now: float,
    ) -> int:
        """Ask the peer; returns the request's number. ``Answered`` or ``RequestFailed`` follows."""
        if self.state is not SessionState.READY:
            raise LocalProtocolError(f"request while the session is {self.state.name.lower()}")
        number, self._next_request = self._next_request, self._next_request + 1
        self._outbox.append(Request(number, topic, attempt, sends, returns, metadata))
        self._progress[number] = 0
        if not sends:
            self.request_complete(number, now=now)
        return number

    def request_complete(self, number: int, *, now: float) -> None:
        """The whole request is at the peer: the processing clock starts."""
        if number in self._progress:
            self._start_processing(number, now)

    def reply_began(self, number: int) -> None:
        """The first byte of the reply is here: processing is over."""
        self._timers.stop(_processing(number))

    def forget_request(self, number: int) -> None:
        """Stop watching a request whose answer nobody wants any more."""
        self._progress.pop(number, None)
        self._timers.stop(_processing(number))

    def report_progress(self, number: int, counter: int) -> None:
        """Serving side: say that the work on request ``number`` has moved."""
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
        self._outbox.append(Reply(number, error, traceback, metadata))

    # --- the peer speaks ---------------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Hello():
                self._on_hello(frame, now)
            case Welcome():
                self._on_welcome(frame, now)
            case Abort():
                self._end(StreamAborted(frame.code, frame.reason, by_peer=True, who=self.peer))
            case Goodbye():
                self._close()
                self._events.append(Left(frame.reason))
            case _ if self.state is not SessionState.READY:
                raise self._violation(f"sent {type(frame).__name__.lower()} before the greeting")
            case Heartbeat():
                self._heard_beats = max(self._heard_beats, frame.counter)
            case Request():
                self._events.append(Asked(frame))
            case TaskProgress():
                self._on_progress(frame, now)
            case Reply():
                self._on_reply(frame)
            case _:
                raise self._violation(f"sent {type(frame).__name__.lower()} on a session")

    def _on_hello(self, frame: Hello, now: float) -> None:
        if self.state is not SessionState.WAITING or self._hello is not None:
            raise self._violation("said hello twice")
        self._hello = frame
        self.peer = frame.name or self.peer
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._events.append(Greeted(frame))

    def _on_welcome(self, frame: Welcome, now: float) -> None:
        if self.state is not SessionState.GREETING:
            raise self._violation("welcomed us out of turn")
        if not VERSION_MIN <= frame.version <= VERSION_MAX:
            raise self._violation(f"chose version {frame.version}, which we did not offer")
        if not SMALLEST_CHUNK_BYTES <= frame.chunk_bytes <= self.config.stream.chunk_bytes:
            raise self._violation(f"chose a chunk size of {frame.chunk_bytes} bytes")
        self._beat_at_least_every(frame.heartbeat_interval)
        self._become_ready(now)
        self._events.append(Ready(frame))

    def _on_progress(self, frame: TaskProgress, now: float) -> None:
        if frame.counter > self._progress.get(frame.request_id, frame.counter):
            self._progress[frame.request_id] = frame.counter
            if self._timers.is_running(_processing(frame.request_id)):
                self._start_processing(frame.request_id, now)

    def _on_reply(self, frame: Reply) -> None:
        if frame.request_id in self._progress:  # else: given up, or answered twice
            self.forget_request(frame.request_id)
            self._events.append(Answered(frame))

    # --- clocks and ends -----------------------------------------------------------------

    def _become_ready(self, now: float) -> None:
        self.state = SessionState.READY
        self._timers.stop(_OPEN)
        self._timers.start(_BEAT, self._beat_seconds, now=now)
        self._restart_alive(now)

    def _beat_at_least_every(self, seconds: float) -> None:
        # The other side's silence limit may be shorter than ours; a tenth of a second is a floor
        # against a peer that asks for a flood.
        self._beat_seconds = max(0.1, min(self._beat_seconds, seconds))

    def _restart_alive(self, now: float) -> None:
        if self.state is SessionState.READY:
            self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)

    def _start_processing(self, number: int, now: float) -> None:
        seconds = self.config.timeouts.communication_timeout
        self._timers.start(_processing(number), seconds, now=now)

    def _request_expired(self, name: str, now: float) -> None:
        number = int(name.partition(" ")[2])
        error = CommunicationTimeout(
            stage="processing",
            who=self.peer,
            stream=f"request {number}",
            seconds=self._timers.idle_seconds(name, now=now),
            bytes_done=0,
        )
        self.forget_request(number)
        self._events.append(RequestFailed(number, error))

    def _silence(self, name: str, now: float) -> StreamTimeout:
        idle = self._timers.idle_seconds(name, now=now)
        kind, setting = (
            (SessionDied, "session_timeout") if name == _ALIVE else (OpenTimeout, "open_timeout")
        )
        return kind(who=self.peer, stream="session", seconds=idle, bytes_done=0, setting=setting)

    def _violation(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self.peer} {what}")

    def _fail(self, error: StreamlinkError, code: AbortCode) -> None:
        self._end(error)
        if self.is_attached:
            self._outbox.append(Abort(code, str(error)))

    def _end(self, error: StreamlinkError) -> None:
        self._outbox.clear()
        self._close()
        self.error = error
        self._events.append(Failed(error))

    def _close(self) -> None:
        self.state = SessionState.CLOSED
        self._timers.stop_all()

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
