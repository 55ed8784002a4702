"""How a server greets: who may begin a session, and what one that is let in begins with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ProtocolError, StreamAborted
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, HelloReceived, PeerLeft
from streamlink.protocol.handshake import agreed
from streamlink.protocol.session import SessionMachine
from streamlink.transport.call_places import LanePlaces
from streamlink.transport.carriers import Caller
from streamlink.transport.identity import Guard
from streamlink.transport.log import RateLimitedLog
from streamlink.transport.process_memory import ProcessMemory, Seat
from streamlink.transport.pump import Pump
from streamlink.transport.registry import Registry, abort_for
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = ["Greeter", "Greets", "SessionCallbacks"]


@dataclass(frozen=True)
class SessionCallbacks:
    """Whom a server's sessions tell; see ``Hub``."""

    on_session: Callable[[Session], None] | None = None
    on_closed: Callable[[Session], None] | None = None
    on_request: Callable[[Session, f.Request], None] | None = None
    on_called_off: Callable[[Session, int, str], None] | None = None


class Greets(Protocol):
    """What a greeting needs of its server: the hub is it."""

    config: LinkConfig
    clock: Clock
    log: RateLimitedLog
    epoch: str
    registry: Registry
    traffic: TrafficCounter
    memory: ProcessMemory | None
    data_ports: tuple[f.DataPort, ...]
    lanes: LanePlaces

    def key_of(self, session_id: str) -> bytes:
        """Return a session's secret key; a connection to a data port proves that it knows it."""

    def wait_open(self) -> None:
        """Wait until all data ports are open, which a welcome has to name."""


class Greeter:
    """Greets the clients of one server."""

    def __init__(self, hub: Greets, callbacks: SessionCallbacks) -> None:
        self._hub, self._callbacks = hub, callbacks
        self._guard = Guard(hub.config.security)

    def check_name(self, name: str, call: Caller) -> None:
        """Check that the certificate of a call permits ``name``; see ``Guard``."""
        self._guard.check_name(name, call.x509_names())

    def pump_for(self, first: f.Frame, call: Caller) -> tuple[Pump[SessionMachine], bool]:
        """Return what a session call carries, and whether that session is resumed.

        Raises:
            StreamAborted: the client may not greet, or the session that it asks to resume is not
                known here, or has ended.
        """
        self._check_greeting(first, call)
        if not isinstance(first, f.Hello) or not first.resume:
            machine = SessionMachine(self._hub.config, peer_name="a client")
            return Pump(machine, clock=self._hub.clock), False
        try:
            return self._hub.registry.resumed(first).pump, True
        except StreamAborted as error:
            text = "%.130r cannot resume its session: %.500s"
            self._hub.log.warning(text, first.name, error.reason)
            raise

    def greet(
        self,
        pump: Pump[SessionMachine],
        call: Caller,
        workers: Executor | None = None,
        let_in: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait for the greeting, and let the client in or refuse it.

        Args:
            pump: what its call carries.
            call: who has opened it.
            workers: look after the session; None: a thread of its own does.
            let_in: called when the client is let in, before it hears that.
        """
        # The first client may come before all data ports are open, which its welcome has to name.
        self._hub.wait_open()
        event = None
        # Bounded by the machine: a client that sends no hello fails it after ``open_timeout``.
        while not isinstance(event, HelloReceived | Failed | PeerLeft):
            event = pump.poll()
        if not isinstance(event, HelloReceived):
            self._hub.log.warning("a client did not greet: %.500s", event)
            return
        try:
            self._admit(pump, event.hello, workers, let_in)
            call.vouch()
        except (ProtocolError, StreamAborted) as error:
            abort = abort_for(error)
            self._hub.log.warning("refused %.130r: %.500s", event.hello.name, abort.reason)
            pump.abort(abort.code, abort.reason)
        except Exception as error:  # such as no thread for its session: it may try again later
            self._hub.log.warning("cannot serve %.130r: %r", event.hello.name, error)
            pump.abort(AbortCode.REFUSED, "the server has no room for another session now")

    def _check_greeting(self, first: f.Frame, call: Caller) -> None:
        try:
            self._guard.check_greeting(first, call.x509_names())
        except StreamAborted as error:
            name = first.name if isinstance(first, f.Hello) else "a client"
            self._hub.log.warning("refused %.130r at %s: %.500s", name, call.remote, error.reason)
            raise

    def _admit(
        self,
        pump: Pump[SessionMachine],
        hello: f.Hello,
        workers: Executor | None,
        let_in: Callable[[], None],
    ) -> None:
        hub, callbacks = self._hub, self._callbacks
        seat = self._seat()
        begun: list[Session] = []

        def begin(session_id: str) -> Session:
            key = hub.key_of(session_id) if hub.data_ports else b""
            let_in()
            with pump.locked() as (machine, now):
                welcome = machine.welcome(
                    session_id, hub.epoch, data_ports=hub.data_ports, data_key=key, now=now
                )
            session = Session(
                pump,
                session_id=session_id,
                peer_name=hello.name,
                config=agreed(hub.config, welcome),
                on_request=callbacks.on_request,
                on_closed=self._forget,
                on_called_off=callbacks.on_called_off,
                traffic=hub.traffic,
                seat=seat,
                is_probe=hello.is_probe,
                workers=workers,
                lanes=hub.lanes,
            )
            begun.append(session)
            return session

        try:
            hub.registry.admit(hello, begin, callbacks.on_session or _ignore)
        finally:
            # A session that runs returns its seat by itself, also where its announcement failed.
            if seat is not None and not set(begun) & set(hub.registry.sessions):
                seat.vacate()

    def _seat(self) -> Seat | None:
        """Reserve memory for a session's streams; None: they share none.

        Raises:
            ProtocolError: there is no room for it.
        """
        config = self._hub.config
        if (memory := self._hub.memory) is None:
            return None
        if (seat := memory.seat(config, self._hub.clock)) is None:
            raise ProtocolError(
                "the server has no memory for another client now: "
                f"{memory.dealt_bytes} of stream.memory_bytes={memory.total_bytes} are in use, and "
                f"each client needs {config.client_bytes}; try again later, or raise it",
                code=AbortCode.REFUSED,
            )
        return seat

    def _forget(self, session: Session) -> None:
        self._hub.registry.forget(session)
        if self._callbacks.on_closed is not None:
            self._callbacks.on_closed(session)


def _ignore(session: Session) -> None:
    """Take no notice."""
