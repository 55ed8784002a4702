"""The carriers there are, one line each, and what the module of one has.

A control carrier carries sessions, and their streams too; the scheme of an address names it. A data
carrier carries streams alone. ``connect`` chooses among them, and is the only user of this module.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.transport.addresses import split_scheme
from streamlink.transport.carriers import DataSession, Listener, ProvableCarrier
from streamlink.transport.dialer import Carriers
from streamlink.transport.hub import Hub

__all__ = [
    "CONTROL_CARRIERS",
    "DATA_CARRIERS",
    "ControlModule",
    "DataModule",
    "control_module",
    "data_module",
    "data_module_at",
]

# Modules by scheme. They are imported when they are first used, since each may stand on a package,
# or a library of the machine, that is not everywhere.
CONTROL_CARRIERS = {
    "grpc": "streamlink.transport.grpc.carrier",
    "memory": "streamlink.transport.memory",
    "mpi": "streamlink.transport.mpi.carrier",
}
DATA_CARRIERS = {
    "memory": "streamlink.transport.memory",
    "tcp": "streamlink.transport.tcp.carrier",
}


class ControlModule(Protocol):
    """What the module of a carrier of sessions has. ``address`` comes without its scheme."""

    def check_listening(self, address: str, config: LinkConfig) -> None:
        """Raise what ``new_listener`` would for this address and these settings; do not listen."""

    def check_dialing(self, address: str, config: LinkConfig) -> None:
        """Raise what ``new_carriers`` would."""

    def new_listener(self, address: str, hub: Hub) -> Listener:
        """Listen at ``address``, and give each call to ``hub``."""

    def new_carriers(self, address: str, config: LinkConfig, clock: Clock) -> Carriers:
        """Return a client's end of sessions, and of the streams beside them; nothing connects."""


class DataModule(Protocol):
    """What the module of a carrier for streams alone has. ``address`` comes without its scheme.

    Nobody else secures what it carries; see ``carriers``.
    """

    SECURED_BY: str
    """What keeps strangers from its calls beyond this machine, in a few words. "": nothing does; it
    then listens on loopback only, unless ``security.insecure`` permits plain text."""

    def check_data_listening(self, address: str, config: LinkConfig) -> None:
        """Check the address and the settings; do not listen.

        Raises:
            SecurityError: a certificate or another file cannot be used.
            ValueError: the address is not of its form; says what to write.
        """

    def new_data_listener(self, address: str, hub: Hub) -> Listener:
        """Listen at ``address``, and give calls to ``hub``.

        Its ``port`` is what the welcome names.

        Raises:
            AddressInUse: the port is taken. ``hub_at`` makes one of any other ``OSError``.
        """

    def new_data_carrier(
        self, address: str, port: int, session: DataSession, config: LinkConfig, clock: Clock
    ) -> ProvableCarrier | None:
        """Return the client's end, without connecting yet.

        None if this carrier cannot reach that server.

        Args:
            address: of the server, as the client dialed it for the session: ``HOST:PORT``, or a
                Unix socket. ``addresses.host_of`` gives its host, or None for a Unix socket, whose
                server is on this machine. No other host may be dialed: a welcome names none.
            port: what the server's welcome names.
            session: that of the welcome; the carrier proves that it belongs to it.
            config: settings of this end.
            clock: what its waits go by.
        """


def control_module(scheme: str) -> ControlModule:
    """Return the carrier of sessions that the scheme of an address names.

    Raises:
        ValueError: there is none.
    """
    if scheme not in CONTROL_CARRIERS:
        raise ValueError(
            f"{scheme}://: there is no carrier of sessions by this name; known are "
            f"{', '.join(CONTROL_CARRIERS)}"
        )
    return cast("ControlModule", import_module(CONTROL_CARRIERS[scheme]))


def data_module(name: str) -> DataModule | None:
    """Return the carrier of streams alone that a welcome names; None: it is unknown here."""
    # No error: a newer server may offer carriers that this version does not have.
    if name not in DATA_CARRIERS:
        return None
    return cast("DataModule", import_module(DATA_CARRIERS[name]))


def data_module_at(address: str) -> tuple[DataModule, str]:
    """Return the carrier that a value of ``stream.data_listen`` names, and where it listens.

    Raises:
        ValueError: it names none.
    """
    scheme, where = split_scheme(address)
    # A bare HOST:PORT has a scheme too, that of gRPC; here the carrier has to be written out.
    module = data_module(scheme) if "://" in address else None
    if module is None:
        raise ValueError(
            f"stream.data_listen: {address!r} names no carrier of streams alone; write "
            f"CARRIER://WHERE, with one of these carriers: {', '.join(DATA_CARRIERS)}"
        )
    return module, where
