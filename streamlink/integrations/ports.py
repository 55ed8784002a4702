"""The object server of a framework's job, on the first free pair of ports of a range.

Sessions are opened at the lower one. The one above it is for the bytes of models, where the server
listens for these apart, so that a range that a firewall lets through serves for both.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from streamlink.errors import AddressInUse
from streamlink.objects import ObjectServer

__all__ = ["listening"]


def listening(address: str, make: Callable[[str], ObjectServer]) -> ObjectServer:
    """Return a server that listens.

    Args:
        address: ``HOST:PORT``, or ``HOST:FIRST-LAST`` for the first free pair of ports of a range:
            ``FIRST`` and the next one, the two after these, and so on.
        make: makes a server for ``HOST:PORT``; called once for each pair that is tried.

    Raises:
        AddressInUse: of each pair one port is taken.
        StreamlinkError: as ``ObjectServer.listen``.
    """
    host, _, ports = address.rpartition(":")
    first, _, last = ports.partition("-")
    *pairs, final = range(int(first), int(last or first), 2) or [int(first)]
    for port in pairs:
        with suppress(AddressInUse):
            return make(f"{host}:{port}").listen()
    return make(f"{host}:{final}").listen()
