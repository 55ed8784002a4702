"""What to tell the peer about an error of ours: one function, one table."""

from __future__ import annotations

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    ModelError,
    SourceChanged,
    StreamlinkError,
)

__all__ = ["abort_code", "abort_reason"]


def abort_reason(error: BaseException) -> str:
    """Return what to tell the peer of an error of ours, in words."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted by its user"
    return str(error) or type(error).__name__


def abort_code(error: BaseException) -> AbortCode:
    """Return the wire's code for an error of ours."""
    if not isinstance(error, Exception):
        return AbortCode.CANCELLED  # Ctrl-C
    if isinstance(error, SourceChanged):
        return error.code
    if isinstance(error, ModelError):
        return AbortCode.SPEC_MISMATCH
    if isinstance(error, ChecksumError):
        return AbortCode.DIGEST_MISMATCH
    if isinstance(error, StreamlinkError) and hasattr(error, "code"):
        return AbortCode(error.code)
    if isinstance(error, OSError):
        return AbortCode.STORE_FAILED
    return AbortCode.TASK_FAILED
