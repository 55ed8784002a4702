"""The client's end of the TCP carrier: a connection for each call, proven before it carries."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.protocol import frames as f
from streamlink.transport.carriers import CallEnd, ClientCall, DataSession, largest_message
from streamlink.transport.lane_rule import LaneRule
from streamlink.transport.server_calls import cut_after
from streamlink.transport.tcp.congestion import Congestion
from streamlink.transport.tcp.lanes import Bundle, carry_over
from streamlink.transport.tcp.listener import PROOF_SECONDS
from streamlink.transport.tcp.opening import NotProven, open_as
from streamlink.transport.tcp.sockets import PlainSocket, Socket, keep_little_unsent
from streamlink.transport.tcp.tls import client_context, connected_by

__all__ = ["TcpCarrier"]

logger = logging.getLogger("streamlink.client")

_LEAST_SECONDS = 0.05  # of a timeout: 0 would mean not to wait at all


class TcpCarrier:
    """Carries streams of one session; see ``ProvableCarrier``.

    Args:
        where: host and port. The host is the one that the session was opened with.
        session: that its connections belong to.
        config: settings of this end.
        clock: what its waits go by.

    Raises:
        SecurityError: a file of certificates cannot be used.
    """

    def __init__(
        self, where: tuple[str, int], session: DataSession, config: LinkConfig, clock: Clock
    ) -> None:
        self._where, self._session, self._clock = where, session, clock
        self._most = largest_message(config.stream)
        self._lanes = min(config.stream.max_lanes, session.lanes)
        self._fixed_lanes = config.stream.lanes
        if self._fixed_lanes > self._lanes:
            text = "the server takes %d connections for a stream (its stream.max_lanes), not %d"
            logger.info(text, self._lanes, self._fixed_lanes)
        self._congestion = Congestion(config.stream.congestion_control, logger)
        self._tls = client_context(config.security)
        self._server_name = config.security.server_name or where[0]
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._is_closed = False
        self._connections: set[Socket] = set()

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        stream_id = _stream_of(call)
        try:
            # Not sent as a frame: the opening says all that it would.
            with self._proven(stream_id, PROOF_SECONDS) as connection:
                # There is no line to fill on loopback, where a stream is bounded by the processor.
                if self._lanes == 1 or (connection.is_loopback and not self._fixed_lanes):
                    return carry_over(call, connection, self._most)
                return self._bundle(call, stream_id).carry(connection)
        except (OSError, EOFError, NotProven) as error:
            logger.debug("no connection to the data port %s: %s", self._at, error)
            return CallEnd.BROKEN

    def _bundle(self, call: ClientCall, stream_id: int) -> Bundle:
        return Bundle(
            call,
            stream_id,
            lambda: self._proven(stream_id, PROOF_SECONDS, is_lane=True),
            LaneRule(most=self._lanes, fixed=min(self._fixed_lanes, self._lanes)),
            most=self._most,
            clock=self._clock,
        )

    @property
    def where(self) -> str:
        """See ``ProvableCarrier``."""
        return f"the data port tcp://{self._at}"

    def prove(self, seconds: float) -> str:
        """See ``ProvableCarrier``."""
        until = self._clock() + seconds
        try:
            with self._proven(0, seconds):
                return ""
        # The last two: no thread to limit its time, or no memory.
        except (OSError, EOFError, NotProven, RuntimeError, MemoryError) as error:
            if self._clock() >= until or isinstance(error, TimeoutError):
                return f"nobody answers within {seconds:g} s"
            said = getattr(error, "strerror", None) or str(error)
            return said or "the connection was closed before either end had proven itself"

    def renew(self) -> None:
        """See ``DataCarrier``."""
        with self._lock:
            connections = list(self._connections)
        for each in connections:
            each.cut()

    def close(self) -> None:
        """See ``DataCarrier``."""
        with self._lock:
            self._is_closed = True
        # After the flag: a connection that was begun before it is among those that this ends.
        self.renew()

    @property
    def _at(self) -> str:
        return f"{self._where[0]}:{self._where[1]}"

    # --- connections --------------------------------------------------------------------

    @contextmanager
    def _proven(self, stream_id: int, seconds: float, *, is_lane: bool = False) -> Iterator[Socket]:
        """Give a connection that is proven in both directions; at its end let go of it.

        Raises:
            NotProven: who answers is not this session's server.
            OSError: it cannot be reached, or not within ``seconds``.
            EOFError: it closed the connection, as it does where it does not believe us.
        """
        until = self._clock() + seconds
        raw = self._dialed(until)
        with self._kept(connected_by(raw, self._tls, server_name=self._server_name)) as connection:
            with cut_after(self._clock, max(0.0, until - self._clock()), connection.cut):
                connection.handshake()
                number = next(self._numbers)
                open_as(connection, self._session, stream_id, number, is_lane=is_lane)
            yield connection

    def _dialed(self, until: float) -> socket.socket:
        """Return a socket that has connected by ``until``; raises ``OSError``."""
        failure: OSError = TimeoutError("its host has no address")
        found = socket.getaddrinfo(*self._where, type=socket.SOCK_STREAM)
        for tried, (family, kind, protocol, _, address) in enumerate(found):
            raw = socket.socket(family, kind, protocol)
            # An equal share of the time left: a firewall that drops IPv6 must not leave none for
            # IPv4, and its handshake.
            raw.settimeout(max(_LEAST_SECONDS, (until - self._clock()) / (len(found) - tried)))
            if self._lanes > 1:
                keep_little_unsent(raw)
            dialing = PlainSocket(raw)
            try:
                with self._listed(dialing):
                    raw.connect(address)
                self._congestion.ask(raw)
                return raw
            except OSError as error:
                dialing.close()
                failure = error
        raise failure

    @contextmanager
    def _kept(self, connection: Socket) -> Iterator[Socket]:
        try:
            with self._listed(connection):
                yield connection
        finally:
            connection.close()

    @contextmanager
    def _listed(self, connection: Socket) -> Iterator[None]:
        """Have ``renew`` and ``close`` end a connection while this lasts; raises ``OSError``."""
        with self._lock:
            if self._is_closed:
                raise OSError("the carrier was closed here")
            self._connections.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._connections.discard(connection)


def _stream_of(call: ClientCall) -> int:
    """Return the number of the stream that a call is for; its first frame names it."""
    return next((each.stream_id for each in call.first if isinstance(each, f.Attach)), 0)
