"""The object server of a framework's job, on the first free port of a range."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from streamlink.errors import AddressInUse
from streamlink.objects import ObjectServer

__all__ = ["listening"]


def listening(address: str, make: Callable[[str], ObjectServer]) -> ObjectServer:
    """Return a server that listens.

    Args:
        address: ``HOST:PORT``, or ``HOST:FIRST-LAST`` for the first free port of a range.
        make: makes a server for ``HOST:PORT``; called once for each port that is tried.

    Raises:
        AddressInUse: all ports are taken.
        StreamlinkError: as ``ObjectServer.listen``.
    """
    host, _, ports = address.rpartition(":")
    first, _, last = ports.partition("-")
    for port in range(int(first), int(last or first)):
        with suppress(AddressInUse):
            return make(f"{host}:{port}").listen()
    return make(f"{host}:{last or first}").listen()
