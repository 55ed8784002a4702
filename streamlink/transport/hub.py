"""``Hub``: the server's side of any carrier. It admits clients, and joins calls to their streams.

A carrier accepts calls and hands each to ``session_call`` or ``transfer_call``; what those yield it
sends. A carrier that reads messages in its own way, say into memory that the sink lends, asks
``attach`` for the pump instead.
"""

from __future__ import annotations

import hmac
import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import NamedTuple, Self, TypeVar

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ProtocolError, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol.limits import DATA_KEY_BYTES
from streamlink.transport import departure
from streamlink.transport.bandwidth import BandwidthUse, open_bandwidth
from streamlink.transport.budget import lanes_for, with_room
from streamlink.transport.call_places import LanePlaces
from streamlink.transport.carriers import Caller, Listener, ServerCall
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.greeting import Greeter, SessionCallbacks
from streamlink.transport.log import RateLimitedLog
from streamlink.transport.posted_calls import PostedCall, carry_posted
from streamlink.transport.process_memory import ProcessMemory, open_memory
from streamlink.transport.reach import DataReach
from streamlink.transport.registry import Registry, abort_for
from streamlink.transport.server_calls import (
    ANSWER_SECONDS,
    CallReader,
    HandshakeLimit,
    cut_after,
    end_call,
    first_message,
    only_answer,
)
from streamlink.transport.session import Session, StreamPump
from streamlink.transport.ticker import Ticker
from streamlink.transport.traffic import TrafficCounter, WireCount
from streamlink.transport.wire import SessionWire, TransferWire

__all__ = ["Attached", "DataOffer", "Hub"]

logger = logging.getLogger("streamlink.server")

T = TypeVar("T")


class Attached(NamedTuple):
    """A stream that a call carries from now on."""

    session: Session
    pump: StreamPump
    number: int
    """The call's, at the pump."""

    def detach(self) -> None:
        """Note that the call has ended."""
        self.session.carried(self.pump.stream.stream_id, self.number)


class DataOffer(NamedTuple):
    """A carrier for streams alone, beside those of sessions.

    Attributes:
        carrier: its name, in the welcome.
        listen: makes the server's end, once sessions are listened for; None: there is none today.
        above: see ``frames.DataPort``.
    """

    carrier: str
    listen: Callable[[Hub], Listener | None]
    above: int = 0


class Hub:
    """Greets and carries. ``on_session`` is called once for each client that is let in.

    Nothing listens, and no thread runs, before ``listen``.

    Args:
        config: settings of this end.
        listeners: make the server's ends of carriers of sessions; these hand their calls to it.
        data: the carriers for streams alone, the best first.
        on_session: called with each new session.
        on_closed: called with each that has ended.
        on_request: called with each request of a client.
        on_called_off: called with the number of a client's request that it has cancelled.
        traffic: counts what moves.
    """

    ticker: Ticker
    """Watches the deadlines of all pumps; ``listen`` starts it."""

    def __init__(
        self,
        config: LinkConfig,
        listeners: Sequence[Callable[[Hub], Listener]],
        *,
        clock: Clock,
        data: Sequence[DataOffer] = (),
        on_session: Callable[[Session], None] | None = None,
        on_closed: Callable[[Session], None] | None = None,
        on_request: Callable[[Session, f.Request], None] | None = None,
        on_called_off: Callable[[Session, int, str], None] | None = None,
        traffic: TrafficCounter | None = None,
    ) -> None:
        self.config = config = with_room(config)
        self.clock = clock
        self.log = RateLimitedLog(logger, clock=clock)
        """For what strangers can cause as often as they like."""
        self.epoch = secrets.token_hex(8)
        self._secret = secrets.token_bytes(DATA_KEY_BYTES)
        self.wire = WireCount()
        self.traffic = traffic or TrafficCounter(config.grpc.max_clients, clock=clock)
        self.registry = Registry(config, clock)
        self._ids = itertools.count(1)
        self._handshakes = HandshakeLimit(config.limits.max_silent_calls)
        self._makers = tuple(listeners)
        self._offers = tuple(data)
        self._listeners: list[Listener] = []
        self._port = 0
        self.data_ports: tuple[f.DataPort, ...] = ()
        """Carriers for streams alone that a welcome names; known once it listens."""
        self.lanes = LanePlaces(0)
        """The lanes of all its sessions; it may have none before it listens."""
        self._is_open = clock.event()
        self.reach = DataReach(clock)
        self.memory: ProcessMemory | None = None
        """What its streams share, while it listens; None: they share none."""
        self._bandwidth: BandwidthUse | None = None
        self._is_closed = False
        callbacks = SessionCallbacks(on_session, on_closed, on_request, on_called_off)
        self._greeter = Greeter(self, callbacks)

    def listen(self) -> Self:
        """Let clients come from now on. Harmless while it listens already.

        Raises:
            RuntimeError: it was closed.
            TransportError: a carrier cannot listen; then none does.
            ValueError: another end of this process has another ``memory_bytes`` or ``bwlimit``.
        """
        if self._is_closed:
            raise RuntimeError("this server was closed; make another one")
        if not self._listeners:
            self.ticker = Ticker(clock=self.clock)
            try:
                self.memory = open_memory(self.config)
                self._bandwidth = open_bandwidth(self.config, self.clock)
                if self.memory is not None:
                    self.memory.expect(self.config)
                self.lanes = LanePlaces(lanes_for(self.config))
                self._open_listeners()
            except BaseException:
                self._stop_listening()
                self.data_ports = ()
                self.ticker.close()
                self._close_shared()
                raise
            finally:
                self._is_open.set()
            departure.note(self)
        return self

    def _open_listeners(self) -> None:
        for make in self._makers:
            listener = make(self)
            self._listeners.append(listener)
            self._port = self._port or listener.port
        for offer in self._offers:
            if (found := offer.listen(self)) is not None:
                self._listeners.append(found)
                self.data_ports += (self._data_port(offer, found),)

    def _data_port(self, offer: DataOffer, listener: Listener) -> f.DataPort:
        # Nothing of it travels where it is one: clients that know no lanes are welcomed as before.
        most = min(self.config.stream.max_lanes, 1 + self.lanes.most)
        return f.DataPort(offer.carrier, listener.port, offer.above, lanes=most if most > 1 else 0)

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.stop()
        self._listeners = []

    @property
    def is_listening(self) -> bool:
        """Whether clients can come."""
        return bool(self._listeners) and not self._is_closed

    @property
    def port(self) -> int:
        """The port where sessions are opened, at the first carrier that has one; 0: none does."""
        return self._port

    @property
    def sessions(self) -> list[Session]:
        """The clients that are here, by name."""
        return self.registry.sessions

    def new_stream_id(self) -> int:
        """Return a number no stream of this server has had."""
        return next(self._ids)

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and its parent opened it."""
        return departure.is_inherited(self)

    def close(
        self, reason: str = "the server is closing", *, has_failed: bool = False, most: float = inf
    ) -> None:
        """Send every client a goodbye, or an abort after a failure, and stop listening.

        Whoever cannot be reached is waited for as a lost client is, ``most`` seconds in all.
        """
        if self.is_inherited:
            return
        self._is_closed = True
        departure.forget(self)
        if not self._listeners:
            return
        try:
            # While it still listens: a client that has lost its connection hears the end over a new
            # one.
            self.registry.close(reason, has_failed=has_failed, most=most)
        finally:
            self._stop_listening()
            # Nothing may wait for a client once the clocks have stopped.
            self.registry.abort_all(reason)
            self.ticker.close()
            self.reach.close()
            self._close_shared()

    def _close_shared(self) -> None:
        shared = self.memory, self._bandwidth
        self.memory = self._bandwidth = None
        for each in shared:
            if each is not None:
                each.close()

    def depart(self, has_failed: bool, seconds: float) -> None:
        """End the sessions as the process ends, for whoever has not closed this; see ``Departing``.

        A client that waits for its request, or has one, must not take this for the end of its job.
        """
        sessions, until = self.sessions, self.clock() + seconds
        is_busy = any(each.is_asking for each in sessions)
        reason = "the server's process has ended"
        self.registry.close(reason, has_failed=has_failed or is_busy, most=seconds)
        for session in sessions:  # an abort is not answered: wait until it has left
            session.pump.wait_over(max(0.0, until - self.clock()))

    # --- for carriers -----------------------------------------------------------------

    @contextmanager
    def handshake(self, cut: Callable[[], None]) -> Iterator[None]:
        """Bound calls that have not identified themselves, in number and in time.

        Args:
            cut: ends the call, where it takes too long or a newer one needs its place.
        """
        seconds = self.config.timeouts.open_timeout
        # Each bound alone is not enough: a few mute calls could stay for ever, and a flood of calls
        # could take every worker before the first of them is late.
        with self._handshakes.waiting(cut), cut_after(self.clock, seconds, cut):
            yield

    def first(self, call: ServerCall, decode: Callable[[bytes], T]) -> T:
        """Return the first message of a call: within a time, and one of a bounded number of calls.

        Raises:
            DamagedFrame: it is not what was sent.
            StreamlinkError: the call ended without, or it is no frame.
        """
        with self.handshake(call.cut):
            return first_message(call, decode)

    def session_call(self, call: ServerCall) -> Iterator[bytes]:
        """Serve a call that carries a session; yields what is to be sent, until its end."""
        wire = SessionWire()
        try:
            first = self.first(call, wire.decode)
            pump, is_known = self._greeter.pump_for(first, call)
        except DamagedFrame as damage:
            self._give_up(call, damage)
            return
        except StreamlinkError as error:
            yield from only_answer(wire.encode(abort_for(error)), call, self.clock)
            return
        number = pump.attach(call.cut)
        # Before the reader starts: from the first moment on ``open_timeout`` ends a mute client.
        self.ticker.add(pump)
        CallReader(pump, number, call, wire.decode, first=(first,)).start()
        if is_known:
            call.vouch()
        else:
            # In a thread of its own: this one is the call's writer, which has the welcome to send.
            greet = threading.Thread(target=self._greeter.greet, args=(pump, call), name="greet")
            greet.daemon = True
            greet.start()
        for frame in pump.outgoing(number):
            yield wire.encode(frame)
        end_call(call, pump)

    def open_session(self, call: PostedCall) -> None:
        """Serve a call that carries a session, and needs no thread while nothing moves.

        Returns once the client was let in or refused; the rest is done when there is something to
        do, by workers of the carrier.
        """
        wire = SessionWire()
        try:
            first = self.first(call, wire.decode)
            pump, is_known = self._greeter.pump_for(first, call)
            call.open()
        except DamagedFrame as damage:
            self._give_up(call, damage)
            call.end()
            return
        except StreamlinkError as error:
            with cut_after(self.clock, ANSWER_SECONDS, call.cut):
                call.send(wire.encode(abort_for(error)))
            call.end()
            return
        let_in = carry_posted(call, pump, wire, first)
        self.ticker.add(pump)
        if is_known:
            call.vouch()
            let_in()
        else:
            self._greeter.greet(pump, call, call.workers, let_in)

    def transfer_call(self, call: ServerCall) -> Iterator[bytes]:
        """Serve a call that carries a stream; yields what is to be sent, until its end."""
        wire = TransferWire(0)
        try:
            first = self.first(call, wire.decode)
            # The attach was frame 0 of this call; only it names the stream, so its check is seeded
            # with 0.
            wire = TransferWire(first.stream_id if isinstance(first, f.Attach) else 0, received=1)
            attached = self.attach(first, call)
        except DamagedFrame as damage:
            self._give_up(call, damage)
            return
        except StreamlinkError as error:
            yield from only_answer(wire.encode(abort_for(error)), call, self.clock)
            return

        def decode(raw: bytes) -> f.Frame:
            self.wire.add(received=len(raw))
            return wire.decode(raw)

        pump, number = attached.pump, attached.number
        CallReader(pump, number, call, decode, then=attached.detach).start()
        self._look_at(attached.session)
        for frame in pump.outgoing(number):
            raw = wire.encode(frame)
            self.wire.add(sent=len(raw))
            yield raw
        end_call(call, pump)

    def data_key(self, session_id: str) -> bytes:
        """Return what a connection to a data port has to prove that it knows.

        Raises:
            StreamAborted: there is no such session here, with the reason.
        """
        return self.key_of(self.registry.find(session_id).session_id)

    def attach(self, attach: f.Frame, call: Caller, *, is_lane: bool = False) -> Attached:
        """Let ``call`` carry the stream that its first frame names.

        ``call`` comes from ``handshake``: its first frame has been read there.

        Args:
            attach: that frame.
            call: who has opened it.
            is_lane: it carries beside the calls that do already; else it takes their place.

        Raises:
            StreamlinkError: there is no such stream for this client, or its session has too many
                calls.
        """
        if not isinstance(attach, f.Attach):
            raise ProtocolError("a transfer begins with attach")
        session = self.registry.find(attach.session_id)
        # With every call: to know a session's id must not be enough to take over its streams.
        self._greeter.check_name(session.peer_name, call)
        pump = _stream_of(session, attach.stream_id)
        # Only now: one that names no stream of its session stays a stranger, and may be cut.
        call.vouch()
        carry = session.carry_lane if is_lane else session.carry
        number = carry(attach.stream_id, pump, call.cut, call.carrier)
        if any(call.carrier == each.carrier for each in self.data_ports):
            self.reach.reached(session)
        self.ticker.add(pump)  # again, where it had ended: it may have a commit to repeat
        return Attached(session, pump, number)

    def _look_at(self, session: Session) -> None:
        if self.data_ports:
            ports = ", ".join(f"port {each.port} ({each.carrier})" for each in self.data_ports)
            self.reach.went_without(session, ports)

    def _give_up(self, call: ServerCall, damage: DamagedFrame) -> None:
        """End a call whose first frame is damaged: the client will open another."""
        self.log.warning("%s began a call that was damaged on the way, %s", call.remote, damage)
        call.break_off("its first frame arrived damaged")

    # --- for greetings ------------------------------------------------------------------

    def key_of(self, session_id: str) -> bytes:
        """Return a session's secret key, whether the session is here or about to begin."""
        # Derived, so that nothing has to be kept for a session; it tells nothing of other keys.
        return hmac.digest(self._secret, session_id.encode(), "sha256")

    def wait_open(self) -> None:
        """Wait until all data ports are open."""
        self._is_open.wait()


def _stream_of(session: Session, stream_id: int) -> StreamPump:
    pump = session.stream(stream_id)
    if pump is None:
        was = session.withdrawn(stream_id)
        code = AbortCode.STALE_ATTEMPT if was else AbortCode.UNKNOWN_STREAM
        what = f"was the {was}" if was else "was never offered"
        raise ProtocolError(what, stream_id=stream_id, code=code)
    return pump
