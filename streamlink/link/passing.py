"""Which failures of a transfer are worth another attempt."""

from __future__ import annotations

from streamlink.errors import (
    AbortCode,
    AuthenticationFailed,
    RequestRefused,
    ServerBusy,
    StreamAborted,
    StreamTimeout,
    TransportError,
)

__all__ = ["is_passing"]

_PASSING = {
    AbortCode.GOODBYE,
    AbortCode.SESSION_LOST,
    AbortCode.CANCELLED,
    AbortCode.REFUSED,
    AbortCode.NAME_TAKEN,
    AbortCode.UNKNOWN_STREAM,
    AbortCode.OPEN_TIMEOUT,
    AbortCode.ACK_TIMEOUT,
    AbortCode.READ_TIMEOUT,
    AbortCode.COMMUNICATION_TIMEOUT,
}
"""Failures that another attempt may not meet: a process was stopped, or was too slow."""


def is_passing(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(error, RequestRefused):
        return isinstance(error, ServerBusy)  # else the peer has decided
    if isinstance(error, StreamAborted):
        return error.code in _PASSING
    # ``ConnectFailed`` is one of them: a server that is busy may be free later. Whoever does not
    # accept our certificate, token or name will not accept it the next time either.
    return isinstance(error, TransportError | StreamTimeout) and not isinstance(
        error, AuthenticationFailed
    )
