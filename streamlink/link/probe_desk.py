"""``ProbeDesk``: a server's answers to ``streamlink probe``, within limits of bytes and time.

It stands between a hub and whatever else answers requests: sessions that are probes stay here, all
others pass. The registry admits one probe at a time, under the identity rules of every session.
"""

from __future__ import annotations

import hmac
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamlinkError
from streamlink.link.client_request import ClientRequest
from streamlink.link.probe_wire import (
    BEGIN,
    BYTES,
    CHUNK,
    DOWN,
    ECHO,
    INITIAL_WINDOW,
    LANES,
    LONG_INITIAL,
    LONGEST_WINDOW,
    MAX_PROBE_BYTES,
    MAX_PROBE_SECONDS,
    MAX_RESENT_BYTES,
    MODELS,
    TOKEN,
    UP,
    WINDOW,
    Discard,
    beginning_with,
    largest_initial_window,
    parse_size,
    plain,
    probe_model,
)
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.protocol.frames import Request
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session

__all__ = ["ProbeDesk"]

logger = logging.getLogger("streamlink.probe")

OnRequest = Callable[[Session, Request], None]
OnSession = Callable[[Session], None]

_BEGIN_SECONDS = 10.0  # for a session to ask for a probe: meanwhile it is in the way of others
_RECHECK_SECONDS = 0.25  # how soon a probe ends after a round has begun
_LAST_SECONDS = 5.0  # for the session of a probe to end
_MOST_WRONG_TOKENS = 5


def _ignore(session: Session) -> None:
    pass


class ProbeDesk:
    """Answers the probes of one hub, and hands everything else on.

    Args:
        config: of the server; ``limits.probes`` says when probes are answered.
        clock: of its waits.
        on_request: gets the requests of all other sessions.
        on_session: gets all other sessions.
        token: what a probe has to know; empty: nothing.
        cancel: ends what a probe moves.
        most_resent: how much is sent again, by both ends, before a probe ends (bytes).
        begins_within: how long a session may take to ask for its probe (seconds).
    """

    hub: Hub
    """Whose sessions these are; set before it listens."""

    def __init__(
        self,
        config: LinkConfig,
        clock: Clock,
        *,
        on_request: OnRequest,
        on_session: OnSession = _ignore,
        token: str = "",
        cancel: CancelToken | None = None,
        most_resent: int = MAX_RESENT_BYTES,
        begins_within: float = _BEGIN_SECONDS,
    ) -> None:
        self._most_resent, self._begins_within = most_resent, begins_within
        self._rule, self._clock = config.limits.probes, clock
        self._pass_request, self._pass_session = on_request, on_session
        self._token, self._wrong = token, 0
        self.cancel = cancel or CancelToken()
        self._changed = clock.condition()
        self._probes: dict[str, _Probe] = {}
        self._over = weakref.WeakSet[Session]()  # a late request of these begins no probe again
        self._occupied: list[str] = []
        self._done = 0

    # --- for the hub ------------------------------------------------------------------------

    def on_session(self, session: Session) -> None:
        """Take a session that is a probe; pass on any other."""
        if not session.is_probe:
            self._pass_session(session)
            return
        probe = self._probe_of(session)
        assert probe is not None, "only its watch ends it"
        watch = threading.Thread(target=self._watch, args=(probe,), name="probe", daemon=True)
        try:
            watch.start()
        except RuntimeError as error:  # nobody would end it
            session.abort(AbortCode.REFUSED, f"this server has no thread for a probe: {error}")
            self._end(probe)

    def on_request(self, session: Session, request: Request) -> None:
        """Answer a probe's request; pass on any other. Called in the session's thread."""
        if not session.is_probe:
            self._pass_request(session, request)
        elif (probe := self._probe_of(session)) is not None:
            probe.take(request)

    # --- for the server ---------------------------------------------------------------------

    @contextmanager
    def occupied(self, by: str) -> Iterator[None]:
        """Within the block, the server is not idle: probes wait, unless they are always allowed."""
        with self._changed:
            self._occupied.append(by)
        try:
            yield
        finally:
            with self._changed:
                self._occupied.remove(by)

    def wait_done(self, seconds: float | None = None) -> bool:
        """Wait until one probe has ended, or too many came with wrong tokens.

        Returns:
            Whether that was so, or a probe was under way, within ``seconds``.

        Raises:
            Cancelled: the token was cancelled.
        """

        def is_done() -> bool:
            return self._done > 0 or self._is_locked or self.cancel.is_cancelled

        with self.cancel.calling(self._wake), self._changed:
            found = self._changed.wait_for(is_done, seconds)
            # For those that are under way; none that comes later makes this longer.
            until = self._clock() + MAX_PROBE_SECONDS + _LAST_SECONDS
            while not found and self._probes and self._clock() < until:
                found = self._changed.wait_for(is_done, _RECHECK_SECONDS)
        self.cancel.check()
        return found

    @property
    def has_probed(self) -> bool:
        """Whether a probe has run."""
        return self._done > 0

    @property
    def _is_locked(self) -> bool:
        return self._wrong >= _MOST_WRONG_TOKENS

    def _wake(self, reason: str) -> None:
        with self._changed:
            self._changed.notify_all()

    # --- for its probes ---------------------------------------------------------------------

    def refusal(self, token: str) -> str:
        """Return why no probe may begin, or go on, now; empty: it may."""
        if self._rule == "never":
            return "this server answers no probes (limits.probes=never)"
        return self.token_fault(token) or self.interruption()

    def interruption(self) -> str:
        """Return why a probe may not go on now; empty: it may."""
        if self._rule == "always" or not (busy := self._busy()):
            return ""
        return (
            f"the server is busy: {busy}; probe it when it is idle, or let its operator allow "
            "probes at any time (limits.probes=always)"
        )

    def token_fault(self, token: str) -> str:
        """Return what is wrong with a one-time token; empty: nothing."""
        if not self._token:
            return ""
        # Compared even after the last try: the answer takes as long.
        is_right = hmac.compare_digest(token.encode(), self._token.encode())
        if is_right and not self._is_locked:
            return ""
        if not token:
            return "it asks for its one-time token: give the one that it has printed (--one-time)"
        return "the one-time token is wrong; give the one that it has printed (--one-time)"

    def note_wrong_token(self) -> None:
        """Count it, after the answer: the last one ends this server, and with it the session."""
        with self._changed:
            self._wrong += 1
            self._changed.notify_all()

    def _busy(self) -> str:
        with self._changed:
            if self._occupied:
                return self._occupied[-1]
        others = [each for each in self.hub.sessions if not each.is_probe]
        if any(each.is_asking or each.has_streams for each in others):
            return "a model moves"
        return ""

    def _probe_of(self, session: Session) -> _Probe | None:
        """Return the probe of a session; None: it is over."""
        # A first request may be quicker than the notice that its session is here, and slower than
        # the end of that.
        with self._changed:
            if session in self._over:
                return None
            if (probe := self._probes.get(session.session_id)) is None:
                session.config = plain(session.config)
                probe = self._probes[session.session_id] = _Probe(self, session)
            return probe

    def _watch(self, probe: _Probe) -> None:
        """End a probe that does not begin, lasts too long, or is in the way of a round."""
        session, began = probe.session, self._clock()
        try:
            while not session.closed.wait(_RECHECK_SECONDS):
                seconds = self._clock() - began
                if reason := self._too_long(seconds) or self._fault(probe, seconds):
                    session.abort(AbortCode.REFUSED, reason)
        finally:
            self._end(probe)

    def _too_long(self, seconds: float) -> str:
        return f"a probe ends after {MAX_PROBE_SECONDS:g} s" if seconds >= MAX_PROBE_SECONDS else ""

    def _fault(self, probe: _Probe, seconds: float) -> str:
        """Return the reason to end a probe, ``seconds`` after its session began; empty: none."""
        if not probe.has_begun:
            # Who is disconnected may come back; another probe that comes meanwhile takes its place.
            is_late = seconds >= self._begins_within and not probe.session.is_disconnected
            if is_late and probe.expire():
                return f"a probe asks for {BEGIN} within {self._begins_within:g} s"
            return ""
        # A peer may ask for the same bytes as often as it likes, and send them so, too.
        if probe.resent_bytes > self._most_resent:
            return f"a probe moves at most {self._most_resent} bytes again"
        return self.interruption()

    def _end(self, probe: _Probe) -> None:
        with self._changed:
            self._over.add(probe.session)
            self._probes.pop(probe.session.session_id, None)
            self._done += probe.has_begun
            self._changed.notify_all()


class _Probe:
    """One session that probes."""

    def __init__(self, desk: ProbeDesk, session: Session) -> None:
        self.session = session
        self.has_begun = False
        self._desk = desk
        self._left = MAX_PROBE_BYTES
        self._known = KnownSpecs()
        self._lock = threading.Lock()  # of ``has_begun`` and what follows
        self._is_expired = False
        self._moving: list[SendTransfer | ReceiveTransfer] = []
        self._resent = 0  # by transfers that have ended (bytes)

    def take(self, request: Request) -> None:
        """Answer one request; a model moves in a thread of its own."""
        if request.topic == BEGIN:
            self._begin(request)
        elif not self.has_begun:
            error = f"a probe begins with {BEGIN}, not with {request.topic!r}"
            self.session.reply(request, error=error)
        elif request.topic == ECHO:
            self.session.reply(request)
        elif request.topic in (DOWN, UP):
            self._move(request)
        else:
            error = f"this session only probes; it may not ask for {request.topic!r}"
            self.session.reply(request, error=error)

    def _begin(self, request: Request) -> None:
        token = request.metadata.get(TOKEN, "")
        if refused := self._desk.refusal(token):
            logger.warning("refused a probe of %s: %s", self.session.peer_name, refused)
            self.session.reply(request, error=refused)
            if self._desk.token_fault(token):
                self._desk.note_wrong_token()
            return
        if not self._start():
            self.session.reply(request, error=f"a probe asks for {BEGIN} sooner")
            return
        logger.info("%s probes the line", self.session.peer_name)
        self.session.reply(request, metadata=_facts(self.session.config))

    def _start(self) -> bool:
        with self._lock:
            self.has_begun = not self._is_expired
            return self.has_begun

    def expire(self) -> bool:
        """Let it begin no more; False: it has begun."""
        with self._lock:
            self._is_expired = not self.has_begun
            return self._is_expired

    @property
    def resent_bytes(self) -> int:
        """What was sent again of all its models, either way (bytes)."""
        with self._lock:
            return self._resent + sum(map(_resent, self._moving))

    def _move(self, request: Request) -> None:
        try:
            nbytes = self._bytes_of(request)
        except ValueError as error:
            self.session.reply(request, error=str(error))
            return
        work = threading.Thread(
            target=self._answer, args=(request, nbytes), name="probe-model", daemon=True
        )
        try:
            work.start()
        except RuntimeError as error:
            self.session.reply(request, error=f"this server has no thread for it now: {error}")

    def _bytes_of(self, request: Request) -> int:
        """Return the size that was asked for, and take it off what is left.

        Raises:
            ValueError: it is no size, or more than is left.
        """
        text = request.metadata.get(BYTES, "")
        nbytes = parse_size(text)
        if not 1 <= nbytes <= self._left:
            raise ValueError(
                f"a probe of {text[:40]!r} bytes is refused: {self._left} of {MAX_PROBE_BYTES} "
                f"bytes are left to this probe; ask for 1 to that many, such as {1 << 16}"
            )
        self._left -= nbytes
        return nbytes

    def _answer(self, request: Request, nbytes: int) -> None:
        desk = self._desk
        config = self._config_of(request)
        asked = ClientRequest(
            desk.hub, self.session, request, self._known, cancel=desk.cancel, config=config
        )
        try:
            if request.topic == DOWN:
                model = probe_model(nbytes)
                outgoing = asked.send(model.spec)
                with self._counted(outgoing):
                    send_model(outgoing, model)
            else:
                incoming = asked.receive()
                with self._counted(incoming):
                    receive_model(incoming, lambda model: Discard(model.spec, nbytes))
        except StreamlinkError as error:
            logger.info("the probe of %s: %s", self.session.peer_name, error)
            asked.fail(error)
        finally:
            asked.close()

    def _config_of(self, request: Request) -> LinkConfig:
        """Return the settings for the model, with the initial window that the request asks for."""
        initial_window = parse_size(request.metadata.get(INITIAL_WINDOW, ""))
        config = self.session.config
        return beginning_with(config, initial_window) if initial_window else config

    @contextmanager
    def _counted(self, transfer: SendTransfer | ReceiveTransfer) -> Iterator[None]:
        with self._lock:
            self._moving.append(transfer)
        try:
            yield
        finally:
            with self._lock:
                self._moving.remove(transfer)
                self._resent += _resent(transfer)


def _resent(transfer: SendTransfer | ReceiveTransfer) -> int:
    """Return what was sent again, and damaged chunks that came (bytes)."""
    stats = transfer.stats
    return stats.resent_bytes + stats.wasted_bytes


def _facts(config: LinkConfig) -> Mapping[str, str]:
    stream = config.stream
    facts = {
        CHUNK: stream.chunk_bytes,
        WINDOW: stream.window_bytes,
        LANES: stream.max_lanes,
        INITIAL_WINDOW: stream.initial_window_bytes,
        LONG_INITIAL: stream.long_initial_bytes,
        LONGEST_WINDOW: largest_initial_window(stream),
        MODELS: config.limits.max_streams,
    }
    return {name: str(value) for name, value in facts.items()}
