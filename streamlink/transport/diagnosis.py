"""Why there is no connection to a server: what TLS says, where it can be made to say something.

gRPC tells a client little: that a handshake failed, or only that the connection ended. So a client
that could not connect makes one handshake of its own, with Python's ``ssl``, the same files and the
same address, and reports what came of that. It tells nothing where gRPC would go through a proxy,
and nothing of a Unix socket.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from dataclasses import dataclass

from streamlink.config import SecurityConfig
from streamlink.errors import AuthenticationFailed, ConnectFailed, StreamlinkError
from streamlink.transport.addresses import is_proxied, is_unix

__all__ = ["Finding", "diagnose", "other_service", "unreachable"]

DIAGNOSIS_SECONDS = 3.0
"""What the handshake may take in sum (seconds)."""

_NO_TLS = "handshake|verif|certificate|peer name"  # in what gRPC says of a failed connection
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty settings
_SETTINGS = b"\4"  # the type of a frame
_MOST_SAID, _SHOWN = 64, 24
_STRANGERS = {b"SSH-": "an SSH server", b"HTTP/": "a web server", b"<": "a web server"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a handshake has shown.

    Attributes:
        what: the fault, as a clause about the server.
        is_identity: whether one end does not accept the other's certificate.
    """

    what: str
    is_identity: bool = False


_CUT_SHORT = Finding(
    "something listens there, but closes the connection during the TLS handshake; is it a "
    "streamlink server?"
)


def unreachable(
    address: str, security: SecurityConfig, *, within: str, said: str
) -> StreamlinkError:
    """Return the error for a server that no connection could be made to.

    Args:
        address: its address, as ``named`` gives it.
        security: the section of the client's settings.
        within: for how long it was tried, as words that follow a verb.
        said: what the carrier reports.
    """
    if "://" in address:  # of another carrier, which knows all that there is to know
        return ConnectFailed(f"no server answers at {address}{within}: {said or 'no reason given'}")
    found = diagnose(address, security)
    if found is not None and found.is_identity:
        return AuthenticationFailed(f"TLS with {address} failed{within}: {found.what}")
    if found is not None:
        return ConnectFailed(f"no server answers at {address}{within}: {found.what}")
    has_tls = _has_tls(security)
    if has_tls and re.search(_NO_TLS, said, re.IGNORECASE):
        return AuthenticationFailed(
            f"TLS with {address} failed{within}: {said}; are ca, server_name and this end's "
            "certificate those that belong to this server?"
        )
    hint = "is it running, and is the address right"
    if not has_tls:
        hint += ", and does it take plain text (no ca was given)"
    return ConnectFailed(
        f"no server answers at {address}{within}; {hint}? gRPC says: {said or 'nothing'}"
    )


def other_service(address: str) -> ConnectFailed:
    """Return the error for a peer that answers a call with the gRPC status UNIMPLEMENTED."""
    return ConnectFailed(
        f"no server answers at {address}: something else listens there: a gRPC server without the "
        "methods of streamlink, or a proxy without a route to one (status UNIMPLEMENTED); are "
        "address and port right?"
    )


def diagnose(address: str, security: SecurityConfig) -> Finding | None:
    """Try one TLS handshake and return what is wrong; None: nothing is, or no one answers."""
    host, _, port = address.removeprefix("dns:").lstrip("/").rpartition(":")
    host = host.strip("[]")
    if is_unix(address) or not port.isdecimal() or is_proxied(host):
        return None
    until = time.monotonic() + DIAGNOSIS_SECONDS
    try:
        line = socket.create_connection((host, int(port)), DIAGNOSIS_SECONDS)
    except OSError:  # gRPC reports that, too
        return None
    with line:
        if _has_tls(security):
            return _tls_fault(line, host, security, until)
        found = _plain_fault(line, until)
    return found or _stranger(host, int(port), until)


def _tls_fault(
    line: socket.socket, host: str, security: SecurityConfig, until: float
) -> Finding | None:
    """Return why the server and this end do not agree on TLS."""
    try:
        context = ssl.create_default_context(cafile=security.ca)
        if security.certificate is not None:
            # With any password: without one ``ssl`` asks for that of an encrypted key at the
            # terminal.
            context.load_cert_chain(security.certificate, security.key, password="none")
    except OSError:  # a file was replaced or taken away since it was checked
        return None
    context.set_alpn_protocols(["h2"])  # as gRPC does, which refuses a client that does not
    try:
        _limit(line, until)
        inside = context.wrap_socket(line, server_hostname=security.server_name or host)
    except ssl.SSLCertVerificationError as error:
        what = f"its certificate is not accepted here: {_words(error)}"
        return Finding(f"{what}; is it from {_trusted(security)}, and for this name?", True)
    except ssl.SSLEOFError:
        return _CUT_SHORT
    except ssl.SSLError as error:
        return _refusal(error, security) or Finding(
            f"something listens there, but does not speak TLS ({_words(error)}); is it a server "
            "without TLS?"
        )
    except TimeoutError:
        return Finding(
            "something listens there that accepts connections and does not answer a TLS handshake; "
            "is it a streamlink server?"
        )
    except OSError:
        return _CUT_SHORT
    return _answer_fault(inside, security, until)


def _answer_fault(inside: ssl.SSLSocket, security: SecurityConfig, until: float) -> Finding | None:
    """Return how the server ends a connection that stands from this side.

    With TLS 1.3 a server looks at a client's certificate after the client has finished.
    """
    with inside:
        try:
            _limit(inside, until)
            inside.sendall(_GREETING)
            if inside.recv(1):
                return None
        except ssl.SSLError as error:
            return _refusal(error, security)
        except TimeoutError:
            return None
        except OSError:
            pass  # reset: gRPC's way to end it, as the end of the stream is
    return _refusal(None, security)


def _refusal(error: ssl.SSLError | None, security: SecurityConfig) -> Finding | None:
    """Return what it means that the server ended TLS; None: ``error`` is no alert of its."""
    alert = ""
    if error is not None:
        if "ALERT" not in (error.reason or ""):
            return None
        alert = f" ({_words(error)})"
    if security.certificate is None:
        return Finding(
            f"it closed the connection after the TLS handshake{alert}: it asks for a certificate, "
            "and none was given (security.certificate and key)",
            is_identity=True,
        )
    return Finding(
        f"it closed the connection after the TLS handshake{alert}: it does not accept "
        f"{security.certificate}; is that valid, for a client, and from the CA that the server "
        "trusts (security.ca there)?",
        is_identity=True,
    )


def _plain_fault(line: socket.socket, until: float) -> Finding | None:
    """Return what is wrong where a server does not take our plain text: whether it speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent over it
    context.set_alpn_protocols(["h2"])
    try:
        _limit(line, until)
        context.wrap_socket(line).close()
    except ssl.SSLError as error:
        # Only TLS answers with an alert, such as one that asks for our certificate.
        if "ALERT" not in (error.reason or ""):
            return None
    except TimeoutError:
        return Finding(
            "something listens there that accepts connections and says nothing; is it a streamlink "
            "server?"
        )
    except OSError:
        return None
    return Finding("it takes TLS only; name the CA of its certificate (security.ca)")


def _stranger(host: str, port: int, until: float) -> Finding | None:
    """Return what answers in place of a server; None: HTTP/2 does, or nothing."""
    try:
        with socket.create_connection((host, port), max(0.01, until - time.monotonic())) as line:
            line.sendall(_GREETING)
            said = line.recv(_MOST_SAID)
    except OSError:
        return None
    # Every server of HTTP/2 begins with its settings.
    if not said or said[3:4] == _SETTINGS:
        return None
    known = (name for begin, name in _STRANGERS.items() if said.startswith(begin))
    return Finding(
        f"something else listens there: {next(known, 'it does not speak HTTP/2')} "
        f"(it answers {said[:_SHOWN]!r}); is the port right?"
    )


def _limit(line: socket.socket, until: float) -> None:
    line.settimeout(max(0.01, until - time.monotonic()))


def _words(error: ssl.SSLError) -> str:
    """Return what ssl says, without where in its source it says so."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")


def _trusted(security: SecurityConfig) -> str:
    return f"security.ca {security.ca}" if security.ca else "a public CA (no security.ca is given)"


def _has_tls(security: SecurityConfig) -> bool:
    return bool(security.ca or security.certificate or security.server_name)
