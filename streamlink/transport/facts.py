"""The facts beside a request or a reply: what one frame can carry, checked where they are given."""

from __future__ import annotations

from collections.abc import Mapping

from streamlink.errors import LocalProtocolError
from streamlink.protocol.limits import MAX_CONTROL_BYTES

__all__ = ["require_sendable"]

_TEXT_OVERHEAD_BYTES = 16  # what a text costs in a frame beside itself
_MAX_FACTS_BYTES = MAX_CONTROL_BYTES - 64 * 1024  # beside a topic, a reason, a traceback


def require_sendable(metadata: Mapping[str, str], part: tuple[str, ...] = ()) -> None:
    """Refuse facts and patterns that no frame can carry.

    Here and not where the frame is encoded: that is in a carrier's thread, after the caller has
    gone on, and would cost the whole session.

    Raises:
        LocalProtocolError: one of them is no text, or there is too much of it.
    """
    for name, value in metadata.items():
        if not all(isinstance(text, str) for text in (name, value)):
            raise LocalProtocolError(f"metadata {name!r}: {value!r}; both must be text (str)")
    texts = [*metadata, *metadata.values(), *part]
    nbytes = sum(len(text.encode(errors="replace")) + _TEXT_OVERHEAD_BYTES for text in texts)
    if nbytes > _MAX_FACTS_BYTES:
        raise LocalProtocolError(
            f"facts and patterns of {nbytes} bytes; one request or reply takes {_MAX_FACTS_BYTES}. "
            "Send what is large as a tensor of the model"
        )
