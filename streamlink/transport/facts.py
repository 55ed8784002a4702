"""The facts beside a request or a reply: what one frame can carry, checked where they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamlink.errors import LocalProtocolError
from streamlink.protocol.limits import MAX_CONTROL_BYTES, MAX_ENTRIES, MAX_TEXT_BYTES

__all__ = ["require_sendable"]

_TEXT_OVERHEAD_BYTES = 16  # what a text costs in a frame beside itself
_MAX_FACTS_BYTES = MAX_CONTROL_BYTES - 64 * 1024  # beside a topic, a reason, a traceback


def require_sendable(
    metadata: Mapping[str, str], part: tuple[str, ...] = (), topic: str = ""
) -> None:
    """Refuse facts, patterns and a topic that no frame can carry, or the peer would not take.

    Here and not where the frame is encoded: that is in a carrier's thread, after the caller has
    gone on, and would cost the whole session.

    Raises:
        LocalProtocolError: one of them is no text, or there is too much of it.
    """
    for count, what in ((len(metadata), "facts"), (len(part), "patterns")):
        if count > MAX_ENTRIES:
            raise LocalProtocolError(
                f"{count} {what}; one request or reply takes {MAX_ENTRIES}. "
                "Put several into one, or send them as a tensor of the model"
            )
    for name, value in metadata.items():
        if not all(isinstance(text, str) for text in (name, value)):
            raise LocalProtocolError(f"metadata {name!r}: {value!r}; both must be text (str)")
    for text in (topic, *part):
        _require_short(text)
    nbytes = _count_bytes([*metadata, *metadata.values(), *part])
    if nbytes > _MAX_FACTS_BYTES:
        raise LocalProtocolError(
            f"facts and patterns of {nbytes} bytes; one request or reply takes {_MAX_FACTS_BYTES}. "
            "Send what is large as a tensor of the model"
        )


def _require_short(text: str) -> None:
    if not isinstance(text, str):
        raise LocalProtocolError(f"{text!r} is a topic or a pattern; it must be text (str)")
    if (nbytes := _count_bytes([text]) - _TEXT_OVERHEAD_BYTES) > MAX_TEXT_BYTES:
        raise LocalProtocolError(
            f"{text[:40]!r}... takes {nbytes} bytes; a topic or a pattern takes {MAX_TEXT_BYTES}"
        )


def _count_bytes(texts: Iterable[str]) -> int:
    try:
        return sum(len(text.encode()) + _TEXT_OVERHEAD_BYTES for text in texts)
    except UnicodeEncodeError as error:  # a lone surrogate, as file names may have
        raise LocalProtocolError(
            f"{error.object[:40]!r} cannot be sent: it is no valid Unicode (character "
            f"{error.start}). Use text.encode(errors='replace').decode()"
        ) from None
