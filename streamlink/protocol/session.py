"""``SessionMachine``: one peer's standing connection, either end of it.

    client:  GREETING ── welcome ──▶ READY ── call lost ──▶ AWAY ── attach() ──▶ GREETING
    server:  WAITING ── hello ──▶ GREETED ── welcome() ──▶ READY ── call lost ──▶ AWAY
                └──── the same hello, to go on ────▶ READY         attach() ──▶ WAITING

It agrees on version, chunk size and limits, keeps a heartbeat, and carries requests and replies.
The models a request sends or returns travel on streams of their own; their two stages, sending and
receiving, are those streams' clocks. The stage between them, *processing*, is watched here: it
starts when the request is complete at the peer, restarts when a counter of this very request moved,
and ends with the first byte of the reply.

Like a stream, a session outlives the call that carries it. While it is away no clock runs but
``reconnect_timeout``, which ends it: the work on a request is not blamed for a lost call, and its
clock runs on where it stood when the session is back. Both sides then say again what still matters
(``requests``). A goodbye or an abort ends a session at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    CommunicationTimeout,
    OpenTimeout,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
)
from streamlink.protocol.events import (
    Answered,
    Asked,
    Away,
    Back,
    CalledOff,
    Event,
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
from streamlink.protocol.greeting import agree_chunk, agree_version, fault_in
from streamlink.protocol.machine import Machine, Moves
from streamlink.protocol.patience import TRIES, longer_than_reconnect
from streamlink.protocol.requests import OpenRequests, ServedRequests
from streamlink.protocol.session_state import SessionState as SessionState

SHORTEST_BEAT_SECONDS = 0.1
MOST_EVENTS = 1024
"""Requests that may wait for the owner before the peer is taken for a flood (count)."""

_OPEN, _ALIVE, _BEAT, _AWAY = "open", "alive", "heartbeat", "away"


class SessionLost(StreamTimeout):
    """The call was lost and no other took over within ``reconnect_timeout``."""

    code = AbortCode.SESSION_LOST
    verb = "did not come back"


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
        self._welcome: Welcome | None = None
        self._connect_until: float = 0.0  # set by the first call
        self._lost_at = 0.0
        self._patience = 0.0
        self._greeted_at = 0.0
        self._missed = 0.0  # seconds without a call since the peer last said anything new
        self._has_heard = True  # news on this call, or it is the first
        self._is_news = False  # whether the frame that is taken now says anything new
        self._beat_seconds = config.timeouts.heartbeat_interval
        self._beats = 0
        self._asked = OpenRequests()
        self._served = ServedRequests()

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the peer."""
        self._is_news = False
        super().receive(frame, now=now)
        if self.state is SessionState.READY and self._is_news:
            self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)
            self._missed, self._has_heard = 0.0, True

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now, in order; anything at all stands for a heartbeat."""
        frames = super().frames_to_send(now=now)
        if self.state is SessionState.READY:
            frames.extend(self._served.take_news())
        if frames and self._timers.is_running(_BEAT):
            self._timers.start(_BEAT, self._beat_seconds, now=now)
        return frames

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        return super().has_frames or (self.state is SessionState.READY and self._served.has_news)

    # --- calls come and go -----------------------------------------------------------

    @property
    def is_away(self) -> bool:
        """Whether the session stands, but its call is lost and no other has greeted yet."""
        return self._is_standing and self.state is not SessionState.READY

    def is_of(self, hello: Hello) -> bool:
        """Server: whether ``hello`` is of the process that greeted here."""
        return self._hello is not None and (
            (hello.name, hello.instance) == (self._hello.name, self._hello.instance)
        )

    def goes_on_with(self, hello: Hello) -> bool:
        """Server: whether ``hello`` is of the very client that was welcomed here."""
        return (
            self._hello is not None
            and self._welcome is not None
            and hello.resume == self._welcome.session_id
            and self.is_of(hello)
        )

    def attach(self, *, now: float) -> None:
        """Begin, or go on, over a new call. A session that has failed only says why."""
        self.is_attached = True
        self._outbox.clear()
        if self.is_closed:
            if self._last_words is not None:
                self._outbox.append(self._last_words)
            return
        timeouts = self.config.timeouts
        self._connect_until = self._connect_until or now + timeouts.connect_timeout
        patience = timeouts.open_timeout
        if self._welcome is not None:
            patience = min(patience, timeouts.reconnect_timeout / TRIES)
        self._timers.start(_OPEN, patience, now=now)
        self.state = SessionState.GREETING if self.is_client else SessionState.WAITING
        if self.is_client and self._hello is not None:
            resume = self._welcome.session_id if self._welcome else ""
            self._outbox.append(replace(self._hello, resume=resume))

    def detach(self, *, now: float) -> None:
        """The call is lost; at a server, before it welcomed anybody, and with it the session."""
        self._lose_call("the connection ended", now, unnoticed=self._unnoticed_seconds())

    def _unnoticed_seconds(self) -> float:
        """How much longer to wait for a client, which has to come back and may notice late."""
        if self.is_client or self._hello is None:
            return 0.0
        return longer_than_reconnect(self.config.timeouts, self._hello.session_timeout)

    def _lose_call(self, why: str, now: float, *, unnoticed: float = 0.0) -> None:
        """Go away. A peer that did nothing but greet was away since its greeting.

        Args:
            why: what happened to the call.
            now: monotonic seconds.
            unnoticed: how much longer to wait, since the peer may notice it later (seconds).
        """
        self.is_attached = False
        self._outbox.clear()
        if self.is_closed or self.state is SessionState.AWAY:
            return
        if self._welcome is None:
            self._lose_greeting(why, now)
            return
        was_ready = self.state is SessionState.READY
        self.state = SessionState.AWAY
        self._timers.stop(_OPEN)
        if was_ready:  # else: another call that brought no greeting; the clock runs on
            self._pause_work(now)
            self._lost_at = now if self._has_heard else self._greeted_at
            self._patience = self.config.timeouts.reconnect_timeout + unnoticed
            seconds = self._patience - self._missed + self._lost_at - now
            self._timers.start(_AWAY, seconds, now=now)
            self._events.append(Away(why, max(0.0, seconds)))
            self.handle_timer(now=now)  # it may have been away for too long already

    def streams_moved(self, *, now: float) -> None:
        """Note that streams of this session have moved lately: that is news of the peer, too."""
        self._missed, self._has_heard = 0.0, True
        if self._timers.is_running(_AWAY):
            self._timers.start(_AWAY, self._patience + self._lost_at - now, now=now)

    def _lose_greeting(self, why: str, now: float) -> None:
        """Try again for ``connect_timeout``, or end: a server waits for nobody it has not met."""
        if self.is_client and now < self._connect_until:
            self.state = SessionState.AWAY
            self._timers.stop(_OPEN)
        else:
            self._end(StreamAborted(AbortCode.SESSION_LOST, why, by_peer=True, who=self.peer))

    def _pause_work(self, now: float) -> None:
        """Stop every clock; those on requests from when the peer was last heard."""
        heard_at = now - self._timers.idle_seconds(_ALIVE, now=now)
        for name in (_ALIVE, _BEAT):
            self._timers.stop(name)
        for number in self._asked.processing:
            self._timers.pause(_processing(number), now=heard_at)

    def _go_on(self, beat_seconds: float, now: float) -> None:
        """Be ready again, and say again what may have been lost."""
        self._timers.stop(_AWAY)
        self._missed += now - self._lost_at
        self._has_heard = False
        self._greeted_at = now
        self._become_ready(beat_seconds, now)
        for number in self._asked.processing:
            if not self._timers.resume(_processing(number), now=now):
                self._start_processing(number, now)
        self._outbox.extend(self._asked.to_repeat())
        self._served.repeat()
        self._tell(Back(now - self._lost_at))

    # --- life ----------------------------------------------------------------------

    def welcome(self, session_id: str, epoch: str, *, now: float) -> Welcome:
        """Server: answer ``Greeted``; returns what was agreed.

        Raises:
            RemoteProtocolError: versions or sizes do not meet; abort the session with its code.
        """
        self._require(self.state is SessionState.GREETED, "welcome")
        assert self._hello is not None
        answer = Welcome(
            version=agree_version(self._hello),
            session_id=session_id,
            epoch=epoch,
            chunk_bytes=agree_chunk(self.config, self._hello, self.peer),
            heartbeat_interval=self.config.timeouts.heartbeat_interval,
        )
        self.state = SessionState.READY
        self._welcome = answer
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
        begins: tuple[int, int] = (0, 0),
        now: float,
    ) -> int:
        """Ask the peer; returns the request's number. ``Answered`` or ``RequestFailed`` follows."""
        self._require(self._is_standing, "request")
        number = self._asked.next_number()
        request = Request(number, topic, attempt, sends, returns, metadata, part, *begins)
        self._asked.add(request)
        self._say(request)
        if not sends:
            self.request_complete(number, now=now)
        return number

    def request_complete(self, number: int, *, now: float) -> None:
        """The whole request is at the peer: the processing clock starts.

        Unless the reply has begun already: a peer may answer while it is still being asked.
        """
        if self._asked.complete(number) and self.state is SessionState.READY:
            self._start_processing(number, now)

    def reply_began(self, number: int) -> None:
        """The first byte of the reply is here: processing is over."""
        self._asked.begin_reply(number)
        self._timers.stop(_processing(number))

    def cancel(self, number: int, reason: str) -> None:
        """Give up a request whose answer nobody wants any more, and tell the peer so."""
        cancel = self._asked.cancel(number, reason)
        if cancel is not None:
            self._say(cancel)
        self._timers.stop(_processing(number))

    def report_progress(self, number: int, counter: int) -> None:
        """Serving side: say that the work on request ``number`` has moved."""
        self._require(self._is_standing, "progress")
        self._served.report(number, counter)

    def reply(
        self,
        number: int,
        *,
        error: str = "",
        traceback: str = "",
        metadata: Mapping[str, str] = NO_ENTRIES,
    ) -> None:
        """Serving side: answer request ``number``."""
        self._require(self._is_standing, "reply")
        reply = Reply(number, error, traceback, metadata)
        self._served.reply(reply)
        self._say(reply)

    @property
    def _is_standing(self) -> bool:
        """Whether it was welcomed and has not ended: it may be away."""
        return self._welcome is not None and not self.is_closed

    def _say(self, frame: Frame) -> None:
        # While it is away nothing piles up here: what still matters is repeated once it is back.
        if self.state is SessionState.READY:
            self._outbox.append(frame)

    def _tell(self, event: Event) -> None:
        """Queue an event the peer has caused.

        Raises:
            RemoteProtocolError: it causes more than the owner can take.
        """
        if len(self._events) >= MOST_EVENTS:
            what = type(event).__name__.lower()
            raise self._violation(f"sent {MOST_EVENTS} times before this side could listen: {what}")
        self._events.append(event)

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
            case Heartbeat():
                self._is_news = True
            case Goodbye():  # pragma: no branch (the table lets nothing else through)
                self._timers.stop_all()
                self._outbox.clear()
                self._events.append(Left(frame.reason))

    def _on_hello(self, frame: Hello, now: float) -> None:
        if self._welcome is not None:
            if not self.goes_on_with(frame):
                raise self._violation("came back as another client")
            self.state = SessionState.READY
            self._outbox.append(self._welcome)
            self._go_on(frame.session_timeout / 3, now)
            return
        self._hello = frame
        self.peer = frame.name or self.peer
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._events.append(Greeted(frame))

    def _on_welcome(self, frame: Welcome, now: float) -> None:
        if fault := fault_in(frame, self.config):
            raise self._violation(fault)
        if self._welcome is not None:
            if frame != self._welcome:
                raise self._violation("welcomed us to another session than the one that was lost")
            self._go_on(frame.heartbeat_interval, now)
            return
        self._welcome = frame
        self._become_ready(frame.heartbeat_interval, now)
        self._events.append(Ready(frame))

    def _on_request(self, frame: Request) -> None:
        if self._served.is_new(frame):
            if len(self._served) > (most := self.config.limits.max_open_requests):
                raise self._violation(f"asks for more than {most} things at once")
            self._is_news = True
            self._tell(Asked(frame))
        elif (answer := self._served.answer_to(frame.request_id)) is not None:
            if len(self._outbox) >= MOST_EVENTS:
                raise self._violation("asks again what was answered and does not listen")
            self._outbox.append(answer)

    def _on_cancel(self, frame: Cancel) -> None:
        self._tell(CalledOff(frame.request_id, frame.reason))

    def _on_progress(self, frame: TaskProgress, now: float) -> None:
        if self._asked.has_moved(frame):
            self._is_news = True
            if frame.request_id in self._asked.processing:
                self._start_processing(frame.request_id, now)

    def _on_reply(self, frame: Reply) -> None:
        self._timers.stop(_processing(frame.request_id))
        if self._asked.answer(frame.request_id):  # else: given up, or answered twice
            self._is_news = True
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
        if not self._timers.is_running(name):
            return  # another that expired with it has taken the session away
        if name == _BEAT:
            self._beats += 1
            self._outbox.append(Heartbeat(self._beats))
            self._timers.start(_BEAT, self._beat_seconds, now=now)
        elif name == _ALIVE:
            silent = self._timers.idle_seconds(name, now=now)
            self._lose_call(f"nothing was heard for {silent:.1f} s (session_timeout)", now)
        elif name == _AWAY:
            facts = self._idle_facts(name, now, 0)
            facts["seconds"] = self._missed + now - self._lost_at
            self._time_out(SessionLost(**facts, setting="reconnect_timeout"))
        elif name == _OPEN and self._welcome is not None:
            self._lose_call("a new call brought no greeting", now)
        elif name == _OPEN:
            self._time_out(OpenTimeout(**self._idle_facts(name, now, 0), setting="open_timeout"))
        else:
            self._request_expired(int(name.partition(" ")[2]), now)

    def _request_expired(self, number: int, now: float) -> None:
        facts = self._idle_facts(_processing(number), now, 0)
        facts["stream"] = f"request {number}"
        self._asked.forget(number)
        self._timers.stop(_processing(number))
        error = CommunicationTimeout(**facts, stage="processing")
        self._events.append(RequestFailed(number, error))

    def _start_processing(self, number: int, now: float) -> None:
        seconds = self.config.timeouts.communication_timeout
        self._timers.start(_processing(number), seconds, now=now)

    def _end(self, error: StreamlinkError) -> None:
        super()._end(error)
        self._asked.clear()
        self._served.clear()


def _processing(number: int) -> str:
    return f"processing {number}"
