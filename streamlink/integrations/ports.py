"""The object server of a framework's job: on the first free port, with a spool of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from streamlink.errors import AddressInUse, StoreError
from streamlink.objects import ObjectServer

__all__ = ["listening", "with_own_spool"]

_MOST_JOBS = 100  # of one machine at the same time


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


def with_own_spool(address: str, make: Callable[..., ObjectServer], spools: Path) -> ObjectServer:
    """Return a server that listens, with a spool that no other process of this machine has.

    A temporary directory would stay if its process was killed, with all that clients had sent.
    Whoever gets a spool by number removes what was left in it.

    Args:
        address: as in ``listening``.
        make: makes a server for ``HOST:PORT``, with the keyword ``spool``.
        spools: the number is added to this path, as in ``PATH-0``.

    Raises:
        StoreError: all are taken, or none can be used.
        StreamlinkError: as ``listening``.
    """

    def with_spool(number: int) -> ObjectServer:
        return listening(address, partial(make, spool=f"{spools}-{number}"))

    for number in range(_MOST_JOBS):
        with suppress(StoreError):
            return with_spool(number)
    return with_spool(_MOST_JOBS)
