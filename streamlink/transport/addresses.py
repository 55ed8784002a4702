"""Where one listens or connects: ``host:port``, or a Unix socket of this machine.

A socket is named as gRPC names it: ``unix:PATH``, ``unix:///PATH``, or ``unix-abstract:NAME`` for
one without a file (Linux). In front of it may stand the carrier, as in ``grpc://host:port``; what
follows another carrier's name is its own business.
"""

from __future__ import annotations

import re
import socket
from contextlib import closing
from pathlib import Path

__all__ = [
    "DEFAULT_SCHEME",
    "LARGEST_PORT",
    "host_of",
    "is_answered",
    "is_proxied",
    "is_unix",
    "listening_at",
    "named",
    "require_address",
    "socket_file",
    "split_scheme",
]

DEFAULT_SCHEME = "grpc"
"""The carrier of an address that names none."""

LARGEST_PORT = 65535

# ``unix:///PATH`` is no carrier's name, but one of gRPC's ways to write a socket.
_SCHEME = re.compile(r"(?!unix)([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_FILE, _ABSTRACT = "unix:", "unix-abstract:"
_MOST_BYTES = 107  # sockaddr_un has 108, and a zero ends it
_LOOK_SECONDS = 1.0


def split_scheme(address: str) -> tuple[str, str]:
    """Return the carrier that ``address`` names, and what follows; without one it is gRPC."""
    if not isinstance(address, str):
        raise TypeError(f"an address is a text such as 'host:8470', not a {type(address).__name__}")
    found = _SCHEME.fullmatch(address)
    return (found[1], found[2]) if found else (DEFAULT_SCHEME, address)


def named(address: str) -> str:
    """Return ``address`` as logs and errors name it: with a carrier, unless that is gRPC."""
    scheme, where = split_scheme(address)
    return where if scheme == DEFAULT_SCHEME else address


def is_unix(address: str) -> bool:
    """Return whether ``address`` names a Unix socket."""
    return address.startswith((_FILE, _ABSTRACT))


def socket_file(address: str) -> Path | None:
    """Return the file of a Unix socket; None: ``address`` is another kind of address."""
    if not address.startswith(_FILE):
        return None
    path = address.removeprefix(_FILE)
    return Path("/" + path.lstrip("/") if path.startswith("//") else path)


def host_of(address: str) -> str | None:
    """Return the host of ``host:port``, an IPv6 one without brackets; None for a Unix socket."""
    if is_unix(address):
        return None
    # From the right: an IPv6 host has colons, too.
    host = address.rpartition(":")[0]
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def require_address(address: str) -> None:
    """Check the form of an address; whether it can be reached is not looked at.

    Raises:
        ValueError: nobody can listen there or connect to it; says what is expected.
    """
    scheme, address = split_scheme(address)
    if scheme != DEFAULT_SCHEME:
        return
    if is_unix(address):
        _require_socket(address)
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > LARGEST_PORT:
        raise ValueError(f"{address!r} is not of the form HOST:PORT or unix:PATH")


def is_proxied(host: str) -> bool:
    """Return whether gRPC may reach ``host`` through an HTTP proxy that the environment names.

    Whatever else connects would go another way, and perhaps to another machine of that name.
    """
    from urllib.request import getproxies, proxy_bypass  # with HTTP and e-mail behind them

    names = getproxies()
    # The names are those that gRPC looks at (its doc/environment_variables.md).
    if not any(each in names for each in ("grpc", "https", "http")):
        return False
    return not proxy_bypass(host)


def listening_at(address: str, port: int) -> str:
    """Return ``address`` with the port that was taken there in the place of 0."""
    if not port or is_unix(address):
        return address
    return f"{address.rpartition(':')[0]}:{port}"


def is_answered(address: str) -> bool:
    """Return whether somebody listens at a Unix socket with a file.

    gRPC takes such a file away from a server that lives, where it would refuse a port.
    """
    path = socket_file(address)
    if path is None or not path.is_socket():
        return False
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(_LOOK_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True  # full, or not ours to ask: in any case not left over
    return True


def _require_socket(address: str) -> None:
    name = address.partition(":")[2]
    if not name.strip("/"):
        raise ValueError(f"{address!r} names no socket; write unix:PATH")
    path = socket_file(address)
    if (nbytes := len((str(path) if path else name).encode())) > _MOST_BYTES:
        raise ValueError(
            f"{address!r} is too long for a Unix socket: {nbytes} bytes of at most {_MOST_BYTES}; "
            "name a shorter path"
        )
    if path is not None and not path.parent.is_dir():
        raise ValueError(f"{address!r}: there is no directory {path.parent} for the socket")
