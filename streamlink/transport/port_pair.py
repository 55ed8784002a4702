"""``PortPair``: sessions at one port, streams at the port above it, so that nobody has to choose.

A fixed distance can be written into a firewall's rules, and holds behind whoever forwards both
ports. The second port is a convenience: where it is taken, the server does without.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress

from streamlink.errors import AddressInUse, SecurityError
from streamlink.transport.addresses import LARGEST_PORT, host_of
from streamlink.transport.carrier_modules import ControlModule, DataModule
from streamlink.transport.carriers import Listener
from streamlink.transport.hub import Hub
from streamlink.transport.log import noted

__all__ = ["ABOVE", "PortPair"]

logger = logging.getLogger("streamlink.server")

ABOVE = 1
"""The data port is so many above that of sessions."""

_TRIES = 16


class PortPair:
    """Listens at both ports.

    Args:
        address: of sessions, ``HOST:PORT``; with port 0 it takes any pair that is free.
        control: the carrier of sessions.
        data: that of streams.
    """

    def __init__(self, address: str, control: ControlModule, data: DataModule) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._control, self._data = control, data
        self._above: Listener | None = None

    def listen(self, hub: Hub) -> Listener:
        """Return what takes sessions; raises as ``ControlModule.new_listener``."""
        tries = 1 if self._port else _TRIES
        for left in reversed(range(tries)):
            # Looked for first, since a listener that is made warns of what it is asked to do; and
            # again, since somebody else may take either port meanwhile.
            port = self._port or _lower_of_a_free_pair(self._host)
            try:
                listener = self._control.new_listener(f"{self._host}:{port}", hub)
            except AddressInUse:
                if not left:
                    raise
                continue  # the lower one was taken meanwhile
            try:
                self._above = self._listen_above(listener.port, hub)
                return listener
            except (AddressInUse, SecurityError) as error:
                if not left:
                    _report(listener.port + ABOVE, str(error))
                    return listener
            listener.stop()
        raise AssertionError("unreachable: the last try returns")

    def above(self, hub: Hub) -> Listener | None:
        """Return what takes streams, after ``listen``; None: its port cannot be had."""
        listener, self._above = self._above, None
        return listener

    def _listen_above(self, port: int, hub: Hub) -> Listener:
        if port + ABOVE > LARGEST_PORT:
            raise AddressInUse("there is no port above it")
        return self._data.new_data_listener(f"{self._host}:{port + ABOVE}", hub)


def _lower_of_a_free_pair(host: str) -> int:
    """Return a port that is free, and so is the one above it; 0: none was found."""
    (family, _, _, _, where), *_ = socket.getaddrinfo(
        host_of(f"{host}:0"), 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    for _ in range(_TRIES):
        with (
            socket.socket(family) as lower,
            socket.socket(family) as upper,
            suppress(OSError, OverflowError),  # taken; there is none above the last
        ):
            lower.bind((where[0], 0))
            port = int(lower.getsockname()[1])
            upper.bind((where[0], port + ABOVE))
            return port
    return 0


def _report(port: int, why: str) -> None:
    logger.warning(
        "no data port: %s; streams use the connections of sessions, which are slower. Free port "
        "%d, name another (stream.data_listen=tcp://HOST:PORT), or write none",
        why,
        port,
        extra=noted("no data port", port=port, reason=why),
    )
