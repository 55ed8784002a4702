"""TLS of the TCP carrier: the same files, names and renewal as those of the sessions' carrier."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from streamlink.config import SecurityConfig
from streamlink.errors import SecurityError
from streamlink.transport.reloading import Reloading
from streamlink.transport.tcp.sockets import PlainSocket, Socket, TlsSocket

__all__ = ["Contexts", "client_context", "connected_by", "server_context"]

Contexts = Reloading[ssl.SSLContext] | None
"""Contexts as new as their files are; None: plain text."""


def server_context(security: SecurityConfig) -> Contexts:
    """Return what a server's connections are encrypted with.

    Raises:
        SecurityError: a file cannot be used.
    """
    if security.certificate is None:
        return None
    return _reloading("the server's certificate on the data port", security, _server)


def client_context(security: SecurityConfig) -> Contexts:
    """Return what a client's connections are encrypted with; raises as ``server_context``."""
    if not (security.ca or security.certificate or security.server_name):
        return None
    return _reloading("this end's certificate on data ports", security, _client)


def connected_by(
    connected: socket.socket, contexts: Contexts, *, server_name: str | None = None
) -> Socket:
    """Return a connection as the carrier uses it; nothing is sent yet.

    Args:
        connected: is that object's from now on; closed where this raises.
        contexts: of this end.
        server_name: the name that the server's certificate has to carry; None: this is the server.

    Raises:
        OSError: the connection was lost meanwhile.
        ValueError: that is no name of a server.
    """
    try:
        connected.settimeout(None)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if contexts is None:
            return PlainSocket(connected)
        return TlsSocket(
            contexts.get().wrap_socket(
                connected,
                server_side=server_name is None,
                server_hostname=server_name,
                do_handshake_on_connect=False,
            )
        )
    except BaseException:
        connected.close()
        raise


def _reloading(
    what: str, security: SecurityConfig, make: Callable[[SecurityConfig], ssl.SSLContext]
) -> Reloading[ssl.SSLContext]:
    paths = [path for path in (security.certificate, security.key, security.ca) if path]
    return Reloading(what, paths, lambda: make(security))


def _server(security: SecurityConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, security)
    if security.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # nobody resumes: each would be written before the client is proven
    return context


def _client(security: SecurityConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, security)
    if security.ca is None:
        context.load_default_certs()
    return context


def _load(context: ssl.SSLContext, security: SecurityConfig) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        if security.certificate is not None:
            # A password, so that nobody is asked for one at the terminal.
            context.load_cert_chain(security.certificate, security.key, password="none")
        if security.ca is not None:
            context.load_verify_locations(security.ca)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SecurityError(
            f"security: the files for the data port cannot be used: {error}"
        ) from None
