"""What to tell the peer about an error of ours, in words; its code is ``errors.code_of``."""

from __future__ import annotations

from streamlink.errors import Cancelled, RoundError

__all__ = ["abort_reason"]


def abort_reason(error: BaseException) -> str:
    """Return what to tell the peer of an error of ours, in words."""
    if isinstance(error, KeyboardInterrupt | Cancelled):
        return "interrupted by its user"
    if isinstance(error, RoundError):
        return error.what  # without the causes: what one site's task raised is not for the others
    return str(error) or type(error).__name__
