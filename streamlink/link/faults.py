"""What to tell the peer about an error of ours: one function, one table."""

from __future__ import annotations

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    ModelError,
    SourceChanged,
    StreamlinkError,
)

__all__ = ["abort_code"]


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
