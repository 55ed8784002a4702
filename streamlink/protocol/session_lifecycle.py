"""``SessionLifecycle``: a session without its requests: established, alive, lost, and back again.

    client   HELLO_SENT ── welcome ──▶ READY
    server   AWAITING_HELLO ── hello ──▶ HELLO_RECEIVED ── welcome() ──▶ READY
                  └────────── the same hello, to resume ────────────────────▲
    both     READY ── call lost ──▶ DISCONNECTED ── attach() ──▶ HELLO_SENT / AWAITING_HELLO

It agrees on version, chunk size and limits (``handshake``) and keeps a heartbeat. Like a stream, a
session outlives the call that carries it. While it is disconnected no timer runs but
``reconnect_timeout``, which ends it (``SessionOutage``). An abort ends it at once. What it is there
for, requests and replies, is in ``session``.

A goodbye is answered with a goodbye, as TCP answers a FIN: whoever receives the first one has
ended; whoever sent it is *leaving* until the other arrives. What may have been lost with a call is
repeated on the next one, so nobody waits for a peer that left on purpose.
"""

from __future__ import annotations

from dataclasses import replace

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, OpenTimeout, StreamAborted, StreamlinkError
from streamlink.protocol.events import (
    Disconnected,
    Event,
    HelloReceived,
    PeerLeft,
    Reconnected,
    Welcomed,
)
from streamlink.protocol.frames import Abort, DataPort, Frame, Goodbye, Heartbeat, Hello, Welcome
from streamlink.protocol.handshake import agree_chunk, agree_version, welcome_fault
from streamlink.protocol.liveness import (
    RECONNECT_TRIES,
    GoodbyeUnanswered,
    SessionLost,
    SessionOutage,
    extra_grace_seconds,
)
from streamlink.protocol.machine import Machine
from streamlink.protocol.states import SessionState

MIN_HEARTBEAT_SECONDS = 0.1
"""The shortest heartbeat interval that a peer may ask for; less would be a flood (seconds)."""
MAX_EVENTS = 1024
"""Events that may wait for the owner before the peer counts as a flood (count)."""

_OPEN, _ALIVE, _HEARTBEAT, _DISCONNECTED, _LEAVING = (
    "open", "alive", "heartbeat", "disconnected", "leaving",
)  # fmt: skip


class SessionLifecycle(Machine):
    """Base of ``SessionMachine``; the end that is given a ``hello`` is the client."""

    FINAL = frozenset({SessionState.CLOSED})
    ENDED = SessionState.CLOSED

    state: SessionState

    def __init__(self, config: LinkConfig, *, peer_name: str, hello: Hello | None = None) -> None:
        super().__init__(config, peer_name=peer_name, name="session")
        self.is_client = hello is not None
        self.state = SessionState.HELLO_SENT if self.is_client else SessionState.AWAITING_HELLO
        self._hello = hello
        self._welcome: Welcome | None = None
        self._connect_until: float = 0.0  # set by the first call
        self._outage = SessionOutage()
        self._goodbye: Goodbye | None = None  # sent, and may have to be repeated
        self._is_progress = False  # whether the frame that is processed now brings anything new
        self._heartbeat_seconds = config.timeouts.heartbeat_interval
        self._heartbeats = 0

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Process one frame from the peer."""
        self._is_progress = False
        super().receive(frame, now=now)
        if self.state is SessionState.READY and self._is_progress:
            self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)
            self._outage.record_progress()

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to leave now, in order; any frame takes the place of a heartbeat."""
        frames = super().frames_to_send(now=now)
        if frames and self._timers.is_running(_HEARTBEAT):
            self._timers.start(_HEARTBEAT, self._heartbeat_seconds, now=now)
        return frames

    # --- calls come and go -----------------------------------------------------------

    @property
    def is_disconnected(self) -> bool:
        """Whether it is established, but its call is lost and no other has completed its hello."""
        return self._is_established and self.state is not SessionState.READY

    @property
    def instance(self) -> str:
        """Server: names the client's process in all of its sessions; empty before its hello."""
        return "" if self._hello is None else self._hello.instance

    def is_same_process(self, hello: Hello) -> bool:
        """Server: whether ``hello`` is of the process whose hello was received here."""
        return self._hello is not None and (
            (hello.name, hello.instance) == (self._hello.name, self._hello.instance)
        )

    def can_resume(self, hello: Hello) -> bool:
        """Server: whether ``hello`` is of the very client that was welcomed here."""
        return (
            self._hello is not None
            and self._welcome is not None
            and hello.resume == self._welcome.session_id
            and self.is_same_process(hello)
        )

    def attach(self, *, now: float, channel: int = 0) -> None:
        """Begin, or resume, over a new call. A failed session only sends the reason."""
        self._is_attached = True
        self._closed_at = None
        self._outbox.clear()
        if self.is_closed:
            if self._closing_abort is not None:
                self._outbox.append(self._closing_abort)
            return
        timeouts = self.config.timeouts
        # From the first call on: later ones must not extend the time to reach the server at all.
        self._connect_until = self._connect_until or now + timeouts.connect_timeout
        seconds = timeouts.open_timeout
        if self._welcome is not None:
            # A call that brings nothing must leave time for others.
            seconds = min(seconds, timeouts.reconnect_timeout / RECONNECT_TRIES)
        self._timers.start(_OPEN, seconds, now=now)
        self.state = SessionState.HELLO_SENT if self.is_client else SessionState.AWAITING_HELLO
        if self.is_client and self._hello is not None:
            resume = self._welcome.session_id if self._welcome else ""
            self._outbox.append(replace(self._hello, resume=resume))

    def detach(self, *, now: float, channel: int = 0) -> None:
        """Note that the call is lost. A server that has not sent its welcome ends the session."""
        self._disconnect("the connection ended", now, extra_seconds=self._extra_grace_seconds())

    def _extra_grace_seconds(self) -> float:
        """How much longer to wait for a client, which has to reconnect and may notice it late."""
        if self.is_client or self._hello is None:
            return 0.0
        return extra_grace_seconds(self.config.timeouts, self._hello.session_timeout)

    def _disconnect(self, reason: str, now: float, *, extra_seconds: float = 0.0) -> None:
        """Give the call up, and wait for another for a bounded time.

        Args:
            reason: what happened to the call.
            now: monotonic seconds.
            extra_seconds: how much longer to wait, since the peer may notice it later.
        """
        self._is_attached = False
        # ``_reconnect`` repeats what still matters: what is kept here would be sent twice.
        self._outbox.clear()
        if self.is_closed or self.state is SessionState.DISCONNECTED:
            return
        if self._welcome is None:
            self._lose_handshake(reason, now)
            return
        was_ready = self.state is SessionState.READY
        self.state = SessionState.DISCONNECTED
        self._timers.stop(_OPEN)
        if was_ready:  # else another call brought no handshake; the timer keeps running
            self._pause(now)
            self._outage.begin(self.config.timeouts.reconnect_timeout + extra_seconds, now=now)
            seconds = self._outage.remaining(now=now)
            self._timers.start(_DISCONNECTED, seconds, now=now)
            self._events.append(Disconnected(reason, max(0.0, seconds)))
            self.handle_timer(now=now)  # earlier outages may have used up all of the time

    def note_stream_progress(self, *, now: float) -> None:
        """Note that streams of this session made progress: that proves the peer alive, too."""
        self._outage.record_progress()
        if self._timers.is_running(_DISCONNECTED):
            self._timers.start(_DISCONNECTED, self._outage.remaining(now=now), now=now)

    def _too_damaged(self, text: str) -> StreamlinkError:
        """Return the error of a lost session: the client may begin another one."""
        return StreamAborted(AbortCode.SESSION_LOST, text, by_peer=False, who=self.peer_name)

    def _lose_handshake(self, reason: str, now: float) -> None:
        """Try again for ``connect_timeout``, or end: a server waits only for known clients."""
        if self.is_client and now < self._connect_until:
            self.state = SessionState.DISCONNECTED
            self._timers.stop(_OPEN)
        else:
            self._end(
                StreamAborted(AbortCode.SESSION_LOST, reason, by_peer=True, who=self.peer_name)
            )

    def _pause(self, now: float) -> None:
        """Stop every timer; those of requests as of the last progress of the peer."""
        # The call was dead from some moment on, and the work on a request must not be blamed for
        # that time. The last progress is the only moment at which the call is known to have worked.
        last_frame_at = now - self._timers.idle_seconds(_ALIVE, now=now)
        for name in (_ALIVE, _HEARTBEAT):
            self._timers.stop(name)
        self._pause_work(last_frame_at)

    def _reconnect(self, heartbeat_seconds: float, now: float) -> None:
        """Be ready again, and repeat what may have been lost."""
        self._timers.stop(_DISCONNECTED)
        seconds = self._outage.end(now=now)
        self._become_ready(heartbeat_seconds, now)
        if self._goodbye is not None:
            self._outbox.append(self._goodbye)  # one that arrives twice does no harm
        self._resume_work(now)
        self._emit(Reconnected(seconds))

    def _pause_work(self, last_frame_at: float) -> None:
        """Pause what the session carries: the call is lost, and was silent from then on."""

    def _resume_work(self, now: float) -> None:
        """Resume what the session carries: it is ready again."""

    def _drop_work(self) -> None:
        """Drop what the session carries: it is about to end."""

    # --- life ----------------------------------------------------------------------

    def welcome(
        self,
        session_id: str,
        epoch: str,
        *,
        now: float,
        data_ports: tuple[DataPort, ...] = (),
        data_key: bytes = b"",
    ) -> Welcome:
        """Server: answer ``HelloReceived``; returns what was agreed.

        Raises:
            RemoteProtocolError: versions or sizes do not match; abort the session with its code.
        """
        self._require(self.state is SessionState.HELLO_RECEIVED, "welcome")
        assert self._hello is not None
        answer = Welcome(
            version=agree_version(self._hello),
            session_id=session_id,
            epoch=epoch,
            chunk_bytes=agree_chunk(self.config, self._hello, self.peer_name),
            heartbeat_interval=self.config.timeouts.heartbeat_interval,
            data_ports=data_ports,
            max_open_requests=self.config.limits.max_open_requests,
            data_key=data_key,
        )
        self.state = SessionState.READY
        self._welcome = answer
        self._outbox.append(answer)
        self._become_ready(self._hello.session_timeout / 3, now)
        return answer

    def goodbye(self, reason: str, *, now: float) -> None:
        """End the session on purpose, once the peer has acknowledged that.

        A client that has no call just now ends at once: it would call only to send its goodbye.
        """
        if self.is_closed or self.is_leaving:
            return
        is_ready = self.state is SessionState.READY
        if is_ready or (self._is_established and not self.is_client):
            self._goodbye = Goodbye(reason)
            self._drop_work()
            seconds = self.config.timeouts.reconnect_timeout + self._extra_grace_seconds()
            self._timers.start(_LEAVING, seconds, now=now)
        else:
            self.state = SessionState.CLOSED
            self._timers.stop_all()
        if is_ready or self.is_closed:
            self._outbox.append(Goodbye(reason))

    @property
    def is_leaving(self) -> bool:
        """Whether this end has sent a goodbye and waits for the answer."""
        return self._goodbye is not None and not self.is_closed

    # --- frames of the peer --------------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Hello():
                self._on_hello(frame, now)
            case Welcome():
                self._on_welcome(frame, now)
            case Abort():
                self._on_abort(frame)
            case Heartbeat():
                # Any heartbeat counts, whatever its counter: a new call may have lost some.
                self._is_progress = True
            case Goodbye():  # pragma: no branch (the table lets nothing else through)
                self._on_goodbye(frame)

    def _on_goodbye(self, frame: Goodbye) -> None:
        # A goodbye that still waits in the outbox has not reached the peer: then this one is the
        # first, and is answered.
        was_sent = self._goodbye is not None and self._goodbye not in self._outbox
        self._timers.stop_all()
        self._outbox.clear()
        if not was_sent:  # else this is the answer, or the two have crossed
            self._outbox.append(self._goodbye or Goodbye(""))
        if self._goodbye is None:
            self._events.append(PeerLeft(frame.reason))

    def _on_hello(self, frame: Hello, now: float) -> None:
        if self._welcome is not None:
            if not self.can_resume(frame):
                raise self._violation("reconnected as another client")
            self.state = SessionState.READY
            self._outbox.append(self._welcome)
            self._reconnect(frame.session_timeout / 3, now)
            return
        self._hello = frame
        self.peer_name = frame.name or self.peer_name
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._events.append(HelloReceived(frame))

    def _on_welcome(self, frame: Welcome, now: float) -> None:
        if fault := welcome_fault(frame, self.config):
            raise self._violation(fault)
        if self._welcome is not None:
            if frame != self._welcome:
                raise self._violation("welcomed us to another session than the one to resume")
            self._reconnect(frame.heartbeat_interval, now)
            return
        self._welcome = frame
        self._become_ready(frame.heartbeat_interval, now)
        self._events.append(Welcomed(frame))

    def _emit(self, event: Event) -> None:
        """Queue an event that the peer has caused.

        Raises:
            RemoteProtocolError: more events wait for the owner than a peer may cause.
        """
        if len(self._events) >= MAX_EVENTS:
            what = type(event).__name__
            raise self._violation(
                f"sent more than this side can process: {MAX_EVENTS} events wait, the last a {what}"
            )
        self._events.append(event)

    @property
    def _is_established(self) -> bool:
        """Whether it was welcomed and has not ended; it may be disconnected."""
        return self._welcome is not None and not self.is_closed

    # --- timers ------------------------------------------------------------------------

    def _become_ready(self, heartbeat_seconds: float, now: float) -> None:
        # The other side may take silence for a break sooner than we do; a floor keeps a peer from
        # asking for a flood.
        self._heartbeat_seconds = max(
            MIN_HEARTBEAT_SECONDS, min(self._heartbeat_seconds, heartbeat_seconds)
        )
        self._timers.stop(_OPEN)
        self._timers.start(_HEARTBEAT, self._heartbeat_seconds, now=now)
        self._timers.start(_ALIVE, self.config.timeouts.session_timeout, now=now)

    def _timer_expired(self, name: str, now: float) -> None:
        if not self._timers.is_running(name):
            return  # another one that expired at the same time has disconnected the session
        if name == _HEARTBEAT:
            self._heartbeats += 1
            self._outbox.append(Heartbeat(self._heartbeats))
            self._timers.start(_HEARTBEAT, self._heartbeat_seconds, now=now)
        elif name == _ALIVE:
            silent = self._timers.idle_seconds(name, now=now)
            self._disconnect(f"nothing arrived for {silent:.1f} s (session_timeout)", now)
        elif name == _DISCONNECTED:
            facts = self._idle_facts(name, now, 0)
            facts["seconds"] = self._outage.elapsed(now=now)
            self._time_out(SessionLost(**facts, setting="reconnect_timeout"))
        elif name == _LEAVING:
            facts = self._idle_facts(name, now, 0)
            self._time_out(GoodbyeUnanswered(**facts, setting="reconnect_timeout"))
        elif self._welcome is not None:
            self._disconnect("a new call brought no handshake", now)
        else:
            self._time_out(OpenTimeout(**self._idle_facts(name, now, 0), setting="open_timeout"))
