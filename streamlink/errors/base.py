"""The base of every exception, and the code that a peer receives instead of the exception."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

__all__ = ["AbortCode", "Cancelled", "StreamlinkError", "code_of", "to_raise"]

E = TypeVar("E", bound="StreamlinkError")


class AbortCode(IntEnum):
    """Why a stream or a session ended early; the numbers are those of ``streamlink.proto``."""

    # Numbers of the wire: a new code takes the next one, and none is ever used again. 0 is what
    # protobuf gives for an enum that is absent.
    UNSPECIFIED = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL = 2
    CHECKSUM = 3
    FRAME_TOO_LARGE = 4
    OPEN_TIMEOUT = 5
    ACK_TIMEOUT = 6
    READ_TIMEOUT = 7
    COMMUNICATION_TIMEOUT = 8
    SPEC_MISMATCH = 9
    STORE_FAILED = 10
    STALE_ATTEMPT = 11
    UNKNOWN_STREAM = 12
    REFUSED = 13
    VERSION = 14
    UNAUTHENTICATED = 15
    CANCELLED = 16
    TASK_FAILED = 17
    DIGEST_MISMATCH = 18
    SESSION_LOST = 19
    SOURCE_CHANGED = 20
    NAME_TAKEN = 21
    BY_OPERATOR = 22
    GOODBYE = 23


class StreamlinkError(Exception):
    """Base of everything streamlink raises on purpose.

    Attributes:
        code: what the peer receives if the error ends a stream or a session.
    """

    code: AbortCode = AbortCode.TASK_FAILED


def code_of(error: BaseException) -> AbortCode:
    """Return the code that a peer receives for ``error``, one of ours or not."""
    # Ours first: several of them are OSErrors too.
    if isinstance(error, StreamlinkError):
        return error.code
    if not isinstance(error, Exception):
        return AbortCode.CANCELLED  # an interrupt: it was ended on purpose
    return AbortCode.STORE_FAILED if isinstance(error, OSError) else AbortCode.TASK_FAILED


def to_raise(error: E) -> E:
    """Return a copy of a stored error, to be raised in its place.

    An error keeps the frames that it was raised through, and they keep what they worked on: arrays,
    a source. Where a stream keeps its error, that would be a reference cycle, freed only by the
    garbage collector; and an error that is raised for every caller would grow with each.
    """
    # Not ``copy.copy``: it calls the class with ``args``, which most of ours do not take.
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.args, copy.__cause__ = error.args, error.__cause__
    return copy


class Cancelled(StreamlinkError):
    """The call was ended by its own ``CancelToken``.

    Attributes:
        reason: why, as ``cancel`` was told.
    """

    code = AbortCode.CANCELLED

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"ended here: {reason}")
