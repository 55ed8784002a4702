"""The object server of a framework's job: its ports, its room for clients, and what clients dial.

A range of ports is used in pairs. Sessions are opened at the lower one, and the one above it is for
the bytes of models, so that a range that a firewall lets through serves for both. Where one port
alone is named, the bytes go over the connections of sessions: nothing beyond it is opened or
dialled. So they do where no pair of a range is free: a job that is slower is better than none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress

from streamlink import LinkConfig
from streamlink.config import MAX_CLIENTS, ObjectLimits
from streamlink.errors import (
    AddressInUse,
    AuthenticationFailed,
    ConnectFailed,
    SecurityError,
    TooFewDescriptors,
)
from streamlink.objects import ObjectClient, ObjectServer

__all__ = ["ON_DISK", "SOME_CLIENTS", "checked_ports", "dialled", "listening", "started", "within"]

logger = logging.getLogger("streamlink.integrations")

ON_DISK = ObjectLimits(max_bytes="4TiB")
"""What a job's server holds where clients' models lie on its disk: the disk is the limit."""

SOME_CLIENTS = 64
"""How many clients may connect at once where nobody knows how many there will be (count). File
descriptors are reserved for each: 64 fit a limit of 1,024, and leave enough of 4,096 for others."""

_MOST_PORT = 65535
_ADDRESS = re.compile(r"(.+?)(?::([0-9]+)(?:-([0-9]+))?)?")  # HOST, HOST:PORT, HOST:FIRST-LAST


def listening(
    address: str,
    make: Callable[..., ObjectServer],
    config: LinkConfig,
    clients: int = SOME_CLIENTS,
) -> ObjectServer:
    """Return a server that listens.

    Args:
        address: ``HOST:PORT``, or ``HOST:FIRST-LAST`` for the first pair of ports of a range that
            is free: ``FIRST`` and the next one, the two after these, and so on. Where no pair is,
            the first free port is taken alone, which the log says.
        make: makes a server for ``HOST:PORT`` and ``config``; called once for each that is tried.
        config: settings of the server, passed to ``make``, kept within the ports of ``address`` and
            with room for ``clients``. Where ``stream.data_listen`` names ports, no pair is needed.
        clients: how many may connect at once, unless ``config`` says so; fewer, down to the
            setting's default, where the process may not have enough file descriptors.

    Raises:
        AddressInUse: all ports are taken.
        ValueError: the range ends before it begins.
        TooFewDescriptors: there is not even room for the default.
        StreamlinkError: as ``ObjectServer.listen``.
    """
    config, least = within(address, config), config.grpc.max_clients
    # A user's number is never changed, and with a shared memory it follows that.
    if not config.is_max_clients_set and not config.stream.memory_bytes:
        config = config.admitting(max(least, min(clients, MAX_CLIENTS)))
    while True:
        try:
            return _on_first_free(address, make, config)
        except TooFewDescriptors as error:
            if (admitted := config.grpc.max_clients) == least:
                raise
            logger.warning("fewer clients may connect at once: %s", error)
            config = config.admitting(max(least, admitted // 2))


def _on_first_free(
    address: str, make: Callable[..., ObjectServer], config: LinkConfig
) -> ObjectServer:
    host, first, last = _parts(address)
    if last < first:
        raise ValueError(f"{address}: write HOST:FIRST-LAST, the lower one first")
    if first == last:
        return make(f"{host}:{first}", config=config).listen()
    is_pair_wanted = "auto" in config.stream.data_listen
    if is_pair_wanted:
        for port in range(first, last, 2):
            with suppress(AddressInUse):
                return make(f"{host}:{port}", config=_with_data_at(config, host, port + 1)).listen()
        config = _with_data_at(config)
    server = _on_first_free_alone(address, make, config)
    if is_pair_wanted:
        logger.warning(
            "no two neighbouring ports of %d-%d are free: sessions and the bytes of models share "
            "port %d, which is slower; free a pair, or name a larger range at all ends",
            *(first, last, server.port),
        )
    return server


def _on_first_free_alone(
    address: str, make: Callable[..., ObjectServer], config: LinkConfig
) -> ObjectServer:
    host, first, last = _parts(address)
    for port in range(first, last + 1):
        try:
            return make(f"{host}:{port}", config=config).listen()
        except AddressInUse as error:
            taken = error
    raise AddressInUse(
        f"all ports of {first}-{last} are taken: free one, or name a larger range at all ends; the "
        f"last one: {taken}"
    ) from taken


def _with_data_at(config: LinkConfig, host: str = "", port: int = 0) -> LinkConfig:
    """Return settings that have this port, which must be free, in the place of any above; 0: none.

    ``auto`` does without where the port is taken, and then the next pair would not be tried.
    """
    own = f"tcp://{host}:{port}" if port else ""
    places = [own if each == "auto" else each for each in config.stream.data_listen]
    changes = {"data_listen": tuple(filter(None, places)) or ("none",)}
    return config.model_copy(update={"stream": config.stream.model_copy(update=changes)})


def within(address: str, config: LinkConfig) -> LinkConfig:
    """Return settings of either end that keep to the ports of ``address``.

    A client's streams use no other port, unless ``stream.data_ports`` says which. A server at one
    port alone takes them there, unless ``stream.data_listen`` is set.
    """
    _, first, last = _parts(address)
    if not first:
        return config
    changes: dict[str, object] = {"data_ports": config.stream.data_ports or f"{first}-{last}"}
    if first == last and "data_listen" not in config.stream.model_fields_set:
        changes["data_listen"] = ("none",)
    return config.model_copy(update={"stream": config.stream.model_copy(update=changes)})


def dialled(server: str, port: int) -> str:
    """Return where a client connects, which has learnt ``port`` over the framework's channel.

    Args:
        server: what is configured at the client: ``HOST:FIRST-LAST`` or ``HOST``, with ``port`` if
            that is in its range, or ``HOST:PORT``, which is dialled as it is: a gateway may forward
            it to the server.
        port: where the server listens.

    Raises:
        SecurityError: the port is not in the range.
    """
    host, first, last = _parts(server)
    if first and first == last:
        return f"{host}:{first}"
    if first and not first <= port <= last:
        raise SecurityError(
            f"the server listens at port {port}, and this client may dial {server} only; nothing "
            "was dialled; set the same range of ports at both ends"
        )
    return f"{host}:{port}"


def started(client: ObjectClient, unset: str = "") -> ObjectClient:
    """Connect ``client``, and return it.

    Args:
        client: that of a framework's client.
        unset: the setting that says where the server is, if it is not set and so this machine is
            dialled: the error says that, since the server may be on another one.

    Raises:
        StreamlinkError: as ``ObjectClient.start``.
    """
    try:
        return client.start()
    except (ConnectFailed, AuthenticationFailed) as error:
        if not unset:
            raise
        raise type(error)(
            f"{error}; {unset} is not set here, so this machine was dialled: if the server is on "
            "another one, set it to HOST:FIRST-LAST, the server's host and its range of ports"
        ) from error


def checked_ports(ports: str) -> str:
    """Return ``ports`` if they can stand behind the host of an address.

    Raises:
        ValueError: they are neither a port nor a range.
    """
    host, first, last = _parts(f"host:{ports}")
    if host != "host" or not first <= last <= _MOST_PORT or (first == 0 != last):
        raise ValueError(
            f"{ports!r} is no range of ports; write it as 8443-8452, as 8443 for one port alone, "
            "or as 0 for any"
        )
    return ports


def _parts(address: str) -> tuple[str, int, int]:
    """Return the host and the first and last port of an address; 0: none is named."""
    found = _ADDRESS.fullmatch(address)
    host, first, last = found.groups("") if found else (address, "", "")
    return host, int(first or 0), int(last or first or 0)
