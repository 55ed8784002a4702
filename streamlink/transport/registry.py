"""Which sessions a server has, who may begin one, and which have ended and why."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    ProtocolError,
    StreamAborted,
    StreamlinkError,
    code_of,
    to_raise,
)
from streamlink.protocol.frames import Abort, Hello
from streamlink.protocol.handshake import name_fault
from streamlink.transport.drain import Drain, leave, superseded
from streamlink.transport.remembered import Remembered
from streamlink.transport.session import Session

__all__ = ["Registry", "abort_for"]

_UNKNOWN = Abort(AbortCode.SESSION_LOST, "this server does not know this session")
_REMEMBERED = 256  # sessions that have ended, so that a client that returns hears the reason


class Registry:
    """The sessions of one server. Any thread may ask."""

    def __init__(self, config: LinkConfig, clock: Clock) -> None:
        self.barred: dict[str, str] = {}
        """Names of which no client is let in, and why; changed by ``bar`` and ``readmit`` only."""
        self._config, self._clock = config, clock
        # Lock order: this one, then a session's, then a pump's; no thread that holds those asks
        # here.
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._ended = Remembered[str, Abort](_REMEMBERED)
        self._drain = Drain(clock)
        self._closing: StreamAborted | None = None
        """Why new clients are refused; None: they are admitted."""

    @property
    def sessions(self) -> list[Session]:
        """The clients that are here, by name."""
        with self._lock:
            return sorted(self._sessions.values(), key=lambda session: session.peer_name)

    @property
    def is_closing(self) -> bool:
        """Whether no client is admitted any more."""
        return self._closing is not None

    def bar(self, name: str, reason: str) -> None:
        """End the session of the client called ``name``, and admit no client of that name."""
        with self._lock:
            # A new dict each time, since readers look at it without the lock. And in one step with
            # the look at the sessions: a client that is admitted in between would escape both.
            self.barred = {**self.barred, name: reason}
            known = [each for each in self._sessions.values() if each.peer_name == name]
        for session in known:
            session.abort(AbortCode.CANCELLED, reason)

    def readmit(self, name: str) -> None:
        """Admit clients of that name again; harmless where they were not barred."""
        with self._lock:
            self.barred = {each: why for each, why in self.barred.items() if each != name}

    # --- sessions that stand, or did --------------------------------------------------

    def find(self, session_id: str) -> Session:
        """Return a session.

        Raises:
            StreamAborted: there is no such session; with the reason, as far as it is remembered.
        """
        with self._lock:
            session = self._sessions.get(session_id)
            ended = self._ended.get(session_id, _UNKNOWN)
        if session is None:
            raise StreamAborted(AbortCode.SESSION_LOST, ended.reason, by_peer=False)
        return session

    def has_ended(self, session_id: str) -> bool:
        """Return whether there was such a session, as far as is remembered."""
        with self._lock:
            return session_id in self._ended

    def resumed(self, hello: Hello) -> Session:
        """Return the session that ``hello`` asks to resume.

        Raises:
            StreamAborted: it is not, or no longer, here.
        """
        with self._lock:
            session = self._sessions.get(hello.resume)
            ended = self._ended.get(hello.resume, _UNKNOWN)
        if session is not None and session.can_resume(hello):
            return session
        # This refusal is its answer: after it ``close`` need not wait for that client any more.
        self._drain.told(hello.resume)
        raise StreamAborted(ended.code, ended.reason, by_peer=False)

    def forget(self, session: Session) -> None:
        """Note that a session has ended; remember why."""
        with self._lock:
            self._sessions.pop(session.session_id, None)
            if session.error is not None:
                self._ended[session.session_id] = abort_for(session.error)

    # --- admission --------------------------------------------------------------------

    def admit(
        self,
        hello: Hello,
        begin: Callable[[str], Session],
        announce: Callable[[Session], object],
    ) -> Session:
        """Let a client in; a session that it takes the place of ends after that.

        Args:
            hello: its greeting.
            begin: makes its session, given the number of that.
            announce: called with it before the old one ends: between the two the client would seem
                to be gone, and a round that begins just then would begin without it.

        Raises:
            ProtocolError: it is not admitted, with the reason.
            StreamAborted: the server is closing and admits no client.
        """
        session_id = secrets.token_hex(16)
        with self._lock:
            old = self._check_admission(hello)
            # Still with the lock: ``begin`` sends the welcome, and the client may open a stream of
            # its session at once. ``find`` then waits for the lock, and with that for the entry
            # below.
            session = begin(session_id)
            # Old out and new in under one lock: nobody sees the name missing.
            for each in old:
                del self._sessions[each.session_id]
            self._sessions[session_id] = session
            try:
                session.start()  # before anybody who finds it may close it
            except BaseException:
                # The system has no thread left. Without one nobody would ever end this session, and
                # its name and its place would be taken for good.
                del self._sessions[session_id]
                self._sessions |= {each.session_id: each for each in old}
                raise
        try:
            announce(session)
        finally:
            for each in old:
                each.abort(*superseded(each, hello))
        return session

    def _check_admission(self, hello: Hello) -> list[Session]:
        """Decide on a client that wants a new session; return those that it takes the place of.

        A session of the same name that is away is superseded: its process was started again, or has
        given the session up. One that is connected is not: of two clients with one name the later
        is refused, and may try again.
        """
        if fault := name_fault(hello.name):
            raise _refusal(fault)
        if self._closing is not None:
            if not hello.is_probe:
                self._wait_no_more(hello.name)
            raise to_raise(self._closing)
        if (why := self.barred.get(hello.name)) is not None:
            raise ProtocolError(why, code=AbortCode.CANCELLED)  # no refusal: it need not try again
        # Apart from the clients: a site is probed under its own name while it takes part, and a
        # probe takes no client's place.
        alike = [each for each in self._sessions.values() if each.is_probe is hello.is_probe]
        if hello.is_probe:
            return _probes_to_replace(alike, hello)
        named = [each for each in alike if each.peer_name == hello.name]
        old = [each for each in named if not each.closed.is_set()]
        for each in old:
            _require_gone(each, hello)
        most = self._config.grpc.max_clients
        if len(alike) - len(old) >= most:
            memory = self._config.stream.memory_bytes
            follows = bool(memory) and not self._config.is_max_clients_set
            raise _refusal(
                f"the server is full: {len(alike)} of max_clients={most} sessions are "
                "taken"
                + f", which follows stream.memory_bytes={memory} and the descriptor limit"
                * follows
            )
        return old

    def _wait_no_more(self, name: str) -> None:
        """End the sessions that ``name`` has lost: its new greeting is answered with the end."""
        for session in self._sessions.values():
            if session.peer_name == name and session.is_disconnected:
                session.abort(AbortCode.GOODBYE, "its client has begun another session")

    # --- the end ------------------------------------------------------------------------

    def close(self, reason: str, *, has_failed: bool, most: float) -> None:
        """Admit no client any more; send every client a goodbye, or an abort after a failure.

        Whoever cannot be reached is waited for as a lost client is, ``most`` seconds in all.
        """
        with self._lock:
            # Under the lock: a client is admitted before this and gets the goodbye, or is refused.
            code = AbortCode.REFUSED if has_failed else AbortCode.GOODBYE
            self._closing = StreamAborted(code, reason, by_peer=False)
        longest = self._config.timeouts.reconnect_timeout
        if has_failed:
            self._drain.abort(self.sessions, reason, min(most, longest))
        else:
            leave(self.sessions, reason, min(most, 2 * longest), self._clock)

    def abort_all(self, reason: str) -> None:
        """End what is left."""
        for session in self.sessions:
            session.abort(AbortCode.CANCELLED, reason)


def abort_for(error: StreamlinkError) -> Abort:
    """Return the abort that answers a refused call; for an ended session, with its reason."""
    reason = error.reason if isinstance(error, StreamAborted) else str(error)
    return Abort(code_of(error), reason)


def _require_gone(session: Session, hello: Hello) -> None:
    # The same process may say hello again: it missed its welcome, or heard nothing for too long.
    is_same_process = session.instance == hello.instance
    if not (session.is_disconnected or session.is_leaving or is_same_process):
        what = f"a client named {hello.name!r} is already connected; names must be unique"
        raise ProtocolError(what, code=AbortCode.NAME_TAKEN)


def _probes_to_replace(probes: list[Session], hello: Hello) -> list[Session]:
    """Return the probes that a new one takes the place of: those whose connection is lost."""
    old = [each for each in probes if not each.closed.is_set()]
    for each in old:
        if not (each.is_disconnected or each.is_leaving or each.instance == hello.instance):
            raise _refusal(
                f"another probe, of {each.peer_name!r}, is under way, and a server takes one at a "
                "time; try again in a minute"
            )
    return old


def _refusal(what: str) -> ProtocolError:
    return ProtocolError(what, code=AbortCode.REFUSED)
