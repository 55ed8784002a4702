"""The server's end of the TCP carrier: accepts connections, and carries those that are proven."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from streamlink.errors import AddressInUse, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.transport.addresses import host_of
from streamlink.transport.carriers import largest_message
from streamlink.transport.hub import Attached, Hub
from streamlink.transport.registry import abort_for
from streamlink.transport.server_calls import HandshakeLimit, cut_after
from streamlink.transport.session import Session
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.congestion import Congestion
from streamlink.transport.tcp.opening import NotProven, receive_opening
from streamlink.transport.tcp.poller import Poller
from streamlink.transport.tcp.proof import Opening, Replays
from streamlink.transport.tcp.served import ServedCall
from streamlink.transport.tcp.sockets import Socket, keep_little_unsent
from streamlink.transport.tcp.stream import StreamCall
from streamlink.transport.tcp.tls import connected_by, server_context
from streamlink.transport.wire import TransferWire

__all__ = ["MOST_STRANGERS", "PROOF_SECONDS", "TcpListener"]

MOST_STRANGERS = 64
"""Connections that have not proven themselves yet, or were refused their stream and have not heard
that; a newer one takes the oldest's place (count)."""

PROOF_SECONDS = 5.0
"""What a connection may take until it is proven, the handshake of TLS included (seconds)."""

logger = logging.getLogger("streamlink.server")

_GRACE_SECONDS = 1.0  # as the gRPC carrier gives its calls
_PAUSE_SECONDS = 0.2  # after a connection that could not be accepted
_BACKLOG = 128


class TcpListener:
    """Listens at ``address`` (``HOST:PORT``) for ``hub``.

    Raises:
        AddressInUse: the port is taken, or the address is not this machine's.
        SecurityError: a file of certificates cannot be used.
    """

    def __init__(self, address: str, hub: Hub) -> None:
        self._hub = hub
        self._most = largest_message(hub.config.stream)
        self._tls = server_context(hub.config.security)
        self._strangers = HandshakeLimit(MOST_STRANGERS)
        self._lock = threading.Lock()
        # By session, and gone with it: what of its connections must not come again.
        self._replays: WeakKeyDictionary[Session, Replays] = WeakKeyDictionary()
        self._changed = hub.clock.condition()
        self._calls: set[_Call] = set()
        self._is_stopped = hub.clock.event()
        self._congestion = Congestion(hub.config.stream.congestion_control, logger)
        self._poller = Poller("tcp-work")
        self._socket = _listening(address)
        if hub.config.stream.max_lanes > 1:
            keep_little_unsent(self._socket)  # and with it what is accepted
        try:
            _start(self._accept, "tcp-accept")
        except RuntimeError:
            self._socket.close()
            raise

    @property
    def port(self) -> int:
        """See ``Listener``."""
        return int(self._socket.getsockname()[1])

    def stop(self) -> None:
        """See ``Listener``."""
        self._is_stopped.set()
        with suppress(OSError):  # it wakes ``accept`` on Linux, and raises elsewhere
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, _GRACE_SECONDS)
            calls = list(self._calls)
        for call in calls:
            call.cut()
        # A poller thread ends a call whose owner was in the middle of a send.
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, _GRACE_SECONDS)
        self._poller.close()

    def _accept(self) -> None:
        while not self._is_stopped.is_set():
            try:
                connected, where = self._socket.accept()
            except (OSError, MemoryError) as error:
                if not self._is_stopped.is_set():  # such as too few descriptors: later there may be
                    self._hub.log.warning("the data port cannot accept a connection: %s", error)
                    self._hub.clock.wait(self._is_stopped, _PAUSE_SECONDS)
                continue
            remote = f"{where[0]}:{where[1]}"
            try:
                self._congestion.ask(connected)
                self._begin(_Call(connected_by(connected, self._tls), remote))
            # Reset meanwhile; or there is no thread or no memory for it. The client comes again.
            except (OSError, ValueError, RuntimeError, MemoryError) as error:
                connected.close()
                self._hub.log.warning("cannot serve a connection of %s: %s", remote, error)

    def _begin(self, call: _Call) -> None:
        def run() -> None:
            is_carried = False
            try:
                is_carried = self._serve(call)
            except Exception as error:
                self._log_end(call, error)
            finally:
                if not is_carried:
                    self._let_go(call)

        with self._changed:
            is_stopped = self._is_stopped.is_set()
            if not is_stopped:
                self._calls.add(call)
        if is_stopped:  # ``stop`` would not see it
            call.connection.close()
            return
        try:
            _start(run, "tcp-serve")
        except BaseException:
            self._let_go(call)
            raise

    def _log_end(self, call: _Call, error: Exception) -> None:
        if isinstance(error, _TooLate):
            logger.debug("%s comes too late: %s", call.remote, error)
        # No news: a client that was closed meanwhile leaves so, as does one that we have cut, and
        # scanners knock at any port.
        elif isinstance(error, EOFError | ConnectionError):
            logger.debug("%s left before it had proven anything", call.remote)
        # For example no certificate or a bad one, no thread, no timer, no memory for a payload.
        elif isinstance(error, OSError | NotProven | RuntimeError | MemoryError):
            if not self._is_stopped.is_set():
                text = "%s: no stream comes of this: %s"
                self._hub.log.warning(text, call.remote, error)
        else:
            logger.error("%s: serving its connection failed", call.remote, exc_info=error)

    def _let_go(self, call: _Call) -> None:
        call.connection.close()
        with self._changed:
            self._calls.discard(call)
            self._changed.notify_all()

    def _serve(self, call: _Call) -> bool:
        """Prove a connection, and carry what it is for; returns whether that goes on elsewhere."""
        connection = call.connection
        with self._strangers.waiting(call.cut), cut_after(self._hub.clock, PROOF_SECONDS, call.cut):
            connection.handshake()
            opening, raw = receive_opening(connection)
            connection.send((self._answer(opening, raw),))
            if not opening.stream_id:
                return False  # the client wanted to know whether its connections would be taken
            wire = TransferWire(opening.stream_id)
            stream = StreamCall(connection, wire, self._hub.wire, self._most)
            # Still in its place among the strangers: a session may prove any number of connections
            # for streams that it has not, and each would wait here for its end.
            attached = self._attached(opening, call, stream)
        if attached is None:
            return False
        if opening.is_lane and attached.pump.is_sending:
            # It pulls for itself, beside the owner of the stream: that needs a thread.
            _carry(stream, attached, connection)
            return False
        return self._carry_here(call, stream, attached)

    def _carry_here(self, call: _Call, stream: StreamCall, attached: Attached) -> bool:
        def over(failure: Exception | None) -> None:
            call.served = None  # else the two would keep each other
            if failure is not None:
                self._log_end(call, failure)
            self._let_go(call)

        served = ServedCall(stream, attached, call.connection, self._poller, over)
        call.served = served
        try:
            served.begin()
        except BaseException:
            attached.detach()
            attached.pump.detach(attached.number)
            raise
        return True

    def _attached(self, opening: Opening, call: _Call, stream: StreamCall) -> Attached | None:
        """Let ``call`` carry its stream; None: it was refused, and has heard why."""
        attach = f.Attach(opening.session_id, opening.stream_id)
        try:
            return self._hub.attach(attach, call, is_lane=opening.is_lane)
        except StreamlinkError as error:
            if opening.is_lane:
                # It hears nothing: an abort would end the stream, which its others carry.
                logger.debug("%s: no further connection is taken: %s", call.remote, error)
                return None
            stream.send((abort_for(error),))
            stream.end()
            call.connection.drain()
            return None

    def _answer(self, opening: Opening, raw: bytes) -> bytes:
        """Return our proof, for one whose own is good, and comes for the first time.

        Raises:
            NotProven: it is not.
        """
        try:
            session = self._hub.registry.find(opening.session_id)
            key = self._hub.data_key(opening.session_id)
        except StreamlinkError as error:
            is_late = self._hub.registry.has_ended(opening.session_id)
            raise (_TooLate if is_late else NotProven)(str(error)) from None
        if not Opening.is_proven(raw, key) or opening.epoch != self._hub.epoch:
            raise NotProven(f"it does not know the key of the session of {session.peer_name!r}")
        with self._lock:
            is_new = self._replays.setdefault(session, Replays()).is_new(opening.number)
        # After the proof: nobody else can use up a session's numbers.
        if not is_new:
            raise NotProven(f"an opening of {session.peer_name!r} came again")
        self._hub.reach.reached(session)
        return proof.answer(raw, key)


class _TooLate(NotProven):
    """It belongs to a session that has ended, as happens where both end at the same time."""


class _Call:
    """One connection, as the hub sees it; see ``Caller``."""

    carrier = "tcp"

    def __init__(self, connection: Socket, remote: str) -> None:
        self.connection, self.remote = connection, remote
        self.x509_names = connection.x509_names
        self.served: ServedCall | None = None  # once it carries a stream without a thread

    def cut(self) -> None:
        """See ``Caller``."""
        self.connection.cut()
        served = self.served  # looked at once: another thread may end it now
        if served is not None:
            served.cut()

    def vouch(self) -> None:
        """It has proven itself before the hub heard of it."""


def _carry(stream: StreamCall, attached: Attached, connection: Socket) -> None:
    """Carry a stream over its connection until the call ends.

    Raises:
        RuntimeError: there is no thread to write; the call has ended.
        MemoryError: there is no memory for a payload; the call has ended.
    """
    pump, number = attached.pump, attached.number
    try:
        writer = _start_writer(stream, attached, connection)
        if stream.read(pump, number):
            connection.cut()
        # A client that has ended a lane in order still reads what the lane carries. And where the
        # stream has ended, the writer ends by itself, once it has sent the last words.
        if stream.has_ended and pump.retire(number):
            connection.wait_cut()  # by the writer, once it is through, or by the client
        if not pump.is_closed:
            pump.detach(number)
        writer.join()
    except BaseException:
        connection.cut()  # a writer may wait there, and nobody reads any more
        raise
    finally:
        # Whatever comes of it: else they are taken for ever. The place first: whoever sees that
        # nothing carries the stream may open a call.
        attached.detach()
        pump.detach(number)


def _start_writer(stream: StreamCall, attached: Attached, connection: Socket) -> threading.Thread:
    pump = attached.pump

    def write() -> None:
        try:
            stream.send(pump.outgoing(attached.number))
            # Otherwise the client opens another: what it carries has not ended.
            if pump.is_closed:
                stream.end()
            else:
                connection.cut()
        finally:
            connection.close()

    connection.share()
    try:
        return _start(write, "tcp-write")
    except BaseException:
        connection.close()
        raise


def _listening(address: str) -> socket.socket:
    host, port = host_of(address) or "", int(address.rpartition(":")[2])
    try:
        (family, _, _, _, where), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # All of this machine's addresses are those of both kinds, as they are for gRPC.
        both = family == socket.AF_INET6 and where[0] == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(where[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise AddressInUse(
            f"cannot listen at tcp://{address}: {error.strerror or error}; is the port taken, or "
            "the address not this machine's?"
        ) from error


def _start(run: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
