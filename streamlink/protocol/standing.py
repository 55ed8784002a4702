"""``StandingMachine``: a session as far as it stands: greeted, alive, away and back again.

    client:  GREETING ── welcome ──▶ READY ── call lost ──▶ AWAY ── attach() ──▶ GREETING
    server:  WAITING ── hello ──▶ GREETED ── welcome() ──▶ READY ── call lost ──▶ AWAY
                └──── the same hello, to go on ────▶ READY         attach() ──▶ WAITING

It agrees on version, chunk size and limits (``greeting``) and keeps a heartbeat. Like a stream, a
session outlives the call that carries it. While it is away (``absence``) no clock runs but
``reconnect_timeout``, which ends it. An abort ends it at once. What it is there for, requests and
replies, is ``session``'s.

A goodbye is answered with a goodbye, as TCP answers a FIN: whoever hears the first one has ended,
who has said it is *leaving* until it hears the other. What may have been lost with a call is said
again on the next one, so nobody waits for a peer that left on purpose.
"""

from __future__ import annotations

from dataclasses import replace

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, OpenTimeout, StreamAborted
from streamlink.protocol.events import Away, Back, Event, Greeted, Left, Ready
from streamlink.protocol.frames import Abort, DataPort, Frame, Goodbye, Heartbeat, Hello, Welcome
from streamlink.protocol.grace import (
    TRIES,
    Absence,
    GoodbyeUnanswered,
    SessionLost,
    longer_than_reconnect,
)
from streamlink.protocol.greeting import agree_chunk, agree_version, fault_in
from streamlink.protocol.machine import Machine
from streamlink.protocol.session_state import SessionState

SHORTEST_BEAT_SECONDS = 0.1
MOST_EVENTS = 1024
"""Requests that may wait for the owner before the peer is taken for a flood (count)."""

_OPEN, _ALIVE, _BEAT, _AWAY = "open", "alive", "heartbeat", "away"
_LEAVING = "leaving"


class StandingMachine(Machine):
    """Base of ``SessionMachine``; ``hello`` given makes it the client's."""

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
        self._absence = Absence()
        self._goodbye: Goodbye | None = None  # what was said, and may have to be said again
        self._is_news = False  # whether the frame that is taken now says anything new
        self._beat_seconds = config.timeouts.heartbeat_interval
        self._beats = 0

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Take one frame from the peer."""
        self._is_news = False
        super().receive(frame, now=now)
        if self.state is SessionState.READY and self._is_news:
            self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)
            self._absence.heard()

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to go out now, in order; anything at all stands for a heartbeat."""
        frames = super().frames_to_send(now=now)
        if frames and self._timers.is_running(_BEAT):
            self._timers.start(_BEAT, self._beat_seconds, now=now)
        return frames

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

    def attach(self, *, now: float, channel: int = 0) -> None:
        """Begin, or go on, over a new call. A session that has failed only says why."""
        self._is_attached = True
        self._closed_at = None
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

    def detach(self, *, now: float, channel: int = 0) -> None:
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
        self._is_attached = False
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
            self._pause(now)
            self._absence.begin(self.config.timeouts.reconnect_timeout + unnoticed, now=now)
            seconds = self._absence.left(now=now)
            self._timers.start(_AWAY, seconds, now=now)
            self._events.append(Away(why, max(0.0, seconds)))
            self.handle_timer(now=now)  # it may have been away for too long already

    def streams_moved(self, *, now: float) -> None:
        """Note that streams of this session have moved lately: that is news of the peer, too."""
        self._absence.heard()
        if self._timers.is_running(_AWAY):
            self._timers.start(_AWAY, self._absence.left(now=now), now=now)

    def _lose_greeting(self, why: str, now: float) -> None:
        """Try again for ``connect_timeout``, or end: a server waits for nobody it has not met."""
        if self.is_client and now < self._connect_until:
            self.state = SessionState.AWAY
            self._timers.stop(_OPEN)
        else:
            self._end(StreamAborted(AbortCode.SESSION_LOST, why, by_peer=True, who=self.peer))

    def _pause(self, now: float) -> None:
        """Stop every clock; those on requests from when the peer was last heard."""
        heard_at = now - self._timers.idle_seconds(_ALIVE, now=now)
        for name in (_ALIVE, _BEAT):
            self._timers.stop(name)
        self._pause_work(heard_at)

    def _go_on(self, beat_seconds: float, now: float) -> None:
        """Be ready again, and say again what may have been lost."""
        self._timers.stop(_AWAY)
        gone = self._absence.end(now=now)
        self._become_ready(beat_seconds, now)
        if self._goodbye is not None:
            self._outbox.append(self._goodbye)
        self._resume_work(now)
        self._tell(Back(gone))

    def _pause_work(self, heard_at: float) -> None:
        """The call is lost, and was last heard at ``heard_at``: blame no work from then on."""

    def _resume_work(self, now: float) -> None:
        """The session is back: go on with what it carries."""

    def _drop_work(self) -> None:
        """The session is about to end: nobody wants what it carries any more."""

    # --- life ----------------------------------------------------------------------

    def welcome(
        self,
        session_id: str,
        epoch: str,
        *,
        now: float,
        data_ports: tuple[DataPort, ...] = (),
    ) -> Welcome:
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
            data_ports=data_ports,
        )
        self.state = SessionState.READY
        self._welcome = answer
        self._outbox.append(answer)
        self._become_ready(self._hello.session_timeout / 3, now)
        return answer

    def goodbye(self, reason: str, *, now: float) -> None:
        """End the session on purpose, once the peer has acknowledged that.

        A client that has no call just now ends at once: it would call only to say that it leaves.
        """
        if self.is_closed or self.is_leaving:
            return
        is_ready = self.state is SessionState.READY
        if is_ready or (self._is_standing and not self.is_client):
            self._goodbye = Goodbye(reason)
            self._drop_work()
            patience = self.config.timeouts.reconnect_timeout + self._unnoticed_seconds()
            self._timers.start(_LEAVING, patience, now=now)
        else:
            self.state = SessionState.CLOSED
            self._timers.stop_all()
        if is_ready or self.is_closed:
            self._outbox.append(Goodbye(reason))

    @property
    def is_leaving(self) -> bool:
        """Whether this end has said goodbye and waits for the answer."""
        return self._goodbye is not None and not self.is_closed

    # --- the peer speaks ---------------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Hello():
                self._on_hello(frame, now)
            case Welcome():
                self._on_welcome(frame, now)
            case Abort():
                self._on_abort(frame)
            case Heartbeat():
                self._is_news = True
            case Goodbye():  # pragma: no branch (the table lets nothing else through)
                self._on_goodbye(frame)

    def _on_goodbye(self, frame: Goodbye) -> None:
        is_said = self._goodbye is not None and self._goodbye not in self._outbox
        self._timers.stop_all()
        self._outbox.clear()
        if not is_said:  # else this is the answer, or both have left at once
            self._outbox.append(self._goodbye or Goodbye(""))
        if self._goodbye is None:
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

    def _tell(self, event: Event) -> None:
        """Queue an event the peer has caused.

        Raises:
            RemoteProtocolError: it causes more than the owner can take.
        """
        if len(self._events) >= MOST_EVENTS:
            what = type(event).__name__.lower()
            raise self._violation(f"sent {MOST_EVENTS} times before this side could listen: {what}")
        self._events.append(event)

    @property
    def _is_standing(self) -> bool:
        """Whether it was welcomed and has not ended: it may be away."""
        return self._welcome is not None and not self.is_closed

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
            facts["seconds"] = self._absence.seconds(now=now)
            self._time_out(SessionLost(**facts, setting="reconnect_timeout"))
        elif name == _LEAVING:
            facts = self._idle_facts(name, now, 0)
            self._time_out(GoodbyeUnanswered(**facts, setting="reconnect_timeout"))
        elif self._welcome is not None:
            self._lose_call("a new call brought no greeting", now)
        else:
            self._time_out(OpenTimeout(**self._idle_facts(name, now, 0), setting="open_timeout"))
