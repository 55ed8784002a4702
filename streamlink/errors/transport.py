"""The carrier under a stream, and the security settings of a connection."""

from __future__ import annotations

from streamlink.errors.base import AbortCode, StreamlinkError

__all__ = [
    "AddressInUse",
    "AuthenticationFailed",
    "ConnectFailed",
    "MpiUnavailable",
    "SecurityError",
    "TooFewDescriptors",
    "TransportClosed",
    "TransportError",
]


class TransportError(StreamlinkError, ConnectionError):
    """The carrier under a stream failed; raised from the carrier's own error."""

    code = AbortCode.SESSION_LOST


class ConnectFailed(TransportError):
    """No connection to the server could be made."""


class TransportClosed(TransportError):
    """The connection ended while a stream still needed it."""


class AuthenticationFailed(TransportError):
    """One end does not accept the other's identity: a name, a token or a certificate."""

    code = AbortCode.UNAUTHENTICATED


class AddressInUse(TransportError):
    """The server cannot listen on the address it was given."""


class MpiUnavailable(TransportError):
    """MPI is not installed, or cannot be used in this process."""


class TooFewDescriptors(TransportError):
    """The process may have fewer file descriptors (RLIMIT_NOFILE) than its settings need."""


class SecurityError(StreamlinkError, ValueError):
    """The settings of ``security`` do not allow this, or one of their files cannot be used."""
