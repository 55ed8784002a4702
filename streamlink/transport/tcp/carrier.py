"""What ``transport/connect.py`` asks of a carrier of streams alone, for TCP: ``tcp://HOST:PORT``."""

from __future__ import annotations

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.transport.addresses import host_of, is_proxied, is_unix, require_address
from streamlink.transport.carriers import DataSession
from streamlink.transport.hub import Hub
from streamlink.transport.identity import is_loopback, require_loopback
from streamlink.transport.tcp.client import TcpCarrier
from streamlink.transport.tcp.listener import TcpListener
from streamlink.transport.tcp.tls import client_context, server_context

__all__ = ["SECURED_BY", "check_data_listening", "new_data_carrier", "new_data_listener"]

SECURED_BY = "TLS with the certificate of the sessions; without one it listens on loopback only"


def check_data_listening(address: str, config: LinkConfig) -> None:
    """See ``DataModule``."""
    if is_unix(address):
        raise ValueError(f"tcp://{address}: a port is needed; write tcp://HOST:PORT")
    require_address(address)
    if server_context(config.security) is None:
        remedy = "Give the server a certificate (security.certificate and key)"
        require_loopback(address, config.security, remedy=remedy)


def new_data_listener(address: str, hub: Hub) -> TcpListener:
    """See ``DataModule``."""
    return TcpListener(address, hub)


def new_data_carrier(
    address: str, port: int, session: DataSession, config: LinkConfig, clock: Clock
) -> TcpCarrier | None:
    """See ``DataModule``.

    None: in plain text nothing leaves this machine unasked, and nothing passes by the proxy through
    which the session is reached.
    """
    host = host_of(address) or "127.0.0.1"  # a server behind a Unix socket is on this machine
    is_plain, is_asked = client_context(config.security) is None, config.security.insecure
    is_here = is_plain and is_loopback(address) and not is_asked
    if not is_here and (is_proxied(host) or (is_plain and not is_asked)):
        return None
    return TcpCarrier((host, port), session, config, clock)
