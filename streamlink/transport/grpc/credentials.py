"""TLS at both ends, made of files that may be replaced while we run."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc

from streamlink.config import LinkConfig, SecurityConfig
from streamlink.errors import SecurityError
from streamlink.transport.grpc.options import Options, client_options
from streamlink.transport.identity import is_loopback, require_loopback
from streamlink.transport.reloading import Reloading, read_file
from streamlink.transport.x509_names import names_in

__all__ = ["Connector", "server_credentials", "x509_names"]

T = TypeVar("T")


# --- the server -------------------------------------------------------------


def server_credentials(
    address: str, security: SecurityConfig, on_connection: Callable[[], None] = lambda: None
) -> grpc.ServerCredentials | None:
    """Return what a server listens with; None: plain text, and it may.

    With each new connection gRPC asks for files that were replaced meanwhile; the connections that
    are there go on.

    Args:
        address: what it listens on.
        security: the section of the settings.
        on_connection: called before each TLS handshake; its connection stands until it returns.

    Raises:
        SecurityError: plain text was not asked for, or the files cannot be used.
    """
    if security.certificate is None or security.key is None:
        if security.ca is not None:
            raise SecurityError(
                "security.ca asks clients for certificates, and that takes one of the server's own "
                "(certificate and key)"
            )
        remedy = "Give the server a certificate (security.certificate and key)"
        require_loopback(address, security, remedy=remedy)
        return None
    files = _reloading("the server's certificate", security, _server_configuration)

    def renewed() -> Any:
        on_connection()
        return files.reloaded()  # None means no change

    return grpc.dynamic_ssl_server_credentials(
        files.get(),
        renewed,
        require_client_authentication=security.ca is not None,
    )


def x509_names(context: Any) -> frozenset[str] | None:
    """Return the names in the caller's certificate; None: no certificate was asked for.

    They are the common name and every alternative name. gRPC has verified it by then.
    """
    found = context.auth_context()
    if b"ssl" not in found.get("transport_security_type", ()) or "x509_pem_cert" not in found:
        return None
    try:
        return names_in(found["x509_pem_cert"][0])
    except ValueError:
        return frozenset()


def _server_configuration(security: SecurityConfig) -> Any:
    key, chain = _pair(security)
    return grpc.ssl_server_certificate_configuration(
        [(key, chain)], root_certificates=_ca(security)
    )


# --- the client -------------------------------------------------------------


class Connector:
    """Makes a client's channels, each with the files as they are then.

    Raises:
        SecurityError: plain text was not asked for, or the files cannot be used.
    """

    def __init__(self, address: str, config: LinkConfig) -> None:
        security = config.security
        self._address = address
        self._options: Options = client_options(config.grpc, config.stream)
        self._named: list[tuple[str, str]] = []
        self._files: Reloading[grpc.ChannelCredentials] | None = None
        if security.ca or security.certificate or security.server_name:
            self._files = _reloading("this end's certificate", security, _channel_credentials)
            if security.server_name:
                self._named = [("grpc.ssl_target_name_override", security.server_name)]
            return
        remedy = "Name the CA of the server's certificate (security.ca)"
        require_loopback(address, security, remedy=remedy)
        if is_loopback(address) and not security.insecure:
            # A proxy would take it to the loopback of another machine.
            self._options.append(("grpc.enable_http_proxy", 0))

    def channel(self) -> grpc.Channel:
        """Make a channel; it connects when it is used."""
        if self._files is None:
            return grpc.insecure_channel(self._address, options=self._options)
        options: list[tuple[str, Any]] = [*self._options, *self._named]
        return grpc.secure_channel(self._address, self._files.get(), options=options)


def _channel_credentials(security: SecurityConfig) -> grpc.ChannelCredentials:
    key, chain = _pair(security) if security.certificate else (None, None)
    return grpc.ssl_channel_credentials(_ca(security), key, chain)


# --- files ------------------------------------------------------------------


def _reloading(
    what: str, security: SecurityConfig, make: Callable[[SecurityConfig], T]
) -> Reloading[T]:
    paths = [path for path in (security.certificate, security.key, security.ca) if path]
    return Reloading(what, paths, lambda: make(security))


def _pair(security: SecurityConfig) -> tuple[bytes, bytes]:
    """Return key and certificate chain, which belong together (PEM).

    Raises:
        SecurityError: they cannot be read, or do not.
    """
    assert security.certificate is not None
    assert security.key is not None
    chain = read_file("certificate", security.certificate)
    key = read_file("key", security.key)
    _check_pair(security.certificate, security.key)
    return key, chain


def _check_pair(certificate: Path, key: Path) -> None:
    """Load both with Python's own TLS: gRPC would notice only when somebody connects."""
    try:
        # A password, so that nobody is asked for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="none")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or "it is no such file, or encrypted"
        raise SecurityError(
            f"security.certificate {certificate} and security.key {key} do not belong together or "
            f"are no PEM files: {str(reason).lower().replace('_', ' ')}"
        ) from None  # the cause may quote what it read


def _ca(security: SecurityConfig) -> bytes | None:
    if security.ca is None:
        return None
    pem = read_file("ca", security.ca)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
            cadata=pem.decode("ascii", errors="replace")
        )
    except (ssl.SSLError, ValueError):
        raise SecurityError(f"security.ca: {security.ca} holds no certificates (PEM)") from None
    return pem
