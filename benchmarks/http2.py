"""Says what each byte of an HTTP/2 connection that carries gRPC is: ``Reader``, one for each way.

A reader is fed what passes, in pieces of any length, and yields ``Span``s: the frame headers, the
five bytes that gRPC puts before each message, the messages, and what else frames carry. It knows
no HPACK (which call is which is not needed here), and no padding (gRPC pads nothing).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

__all__ = [
    "HEAD_BYTES",
    "PREFACE",
    "Frame",
    "Kind",
    "Message",
    "Reader",
    "Span",
    "SpanReader",
]

Kind = Literal["preface", "header", "prefix", "message", "other"]
"""``prefix`` is gRPC's, before a message; ``other`` is what a frame carries that is not DATA."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES, PREFIX_BYTES = 9, 5
HEAD_BYTES = 64
NAMES = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY"),
    *("WINDOW_UPDATE", "CONTINUATION"),
)
END_STREAM = 0x1


@dataclass(slots=True)
class Frame:
    """A frame; its header is known once all of it has passed (lengths in bytes)."""

    head: bytearray = field(default_factory=bytearray)
    left: int = 0
    """What of its contents has yet to pass."""

    @property
    def is_known(self) -> bool:
        """Whether its header has passed."""
        return len(self.head) == HEADER_BYTES

    @property
    def name(self) -> str:
        """What kind of frame it is; a number where HTTP/2 has no name, empty until known."""
        if not self.is_known:
            return ""
        return NAMES[self.head[3]] if self.head[3] < len(NAMES) else f"type {self.head[3]}"

    @property
    def ends_stream(self) -> bool:
        """Whether its stream is over in this direction, or both."""
        is_last = self.name in ("DATA", "HEADERS") and bool(self.head[4] & END_STREAM)
        return is_last or self.name == "RST_STREAM"

    @property
    def begins_call(self) -> bool:
        """Whether a client begins a call with it."""
        return self.name == "HEADERS"

    @property
    def stream(self) -> int:
        """Which stream it is of; 0: the connection."""
        return int.from_bytes(self.head[5:9], "big") & 0x7FFFFFFF


@dataclass(slots=True)
class Message:
    """A gRPC message (lengths in bytes)."""

    stream: int
    prefix: bytearray = field(default_factory=bytearray)
    head: bytearray = field(default_factory=bytearray)
    """Its first ``HEAD_BYTES``, as far as they have passed."""
    passed: int = 0

    @property
    def has_prefix(self) -> bool:
        """Whether its length is known."""
        return len(self.prefix) == PREFIX_BYTES

    @property
    def length(self) -> int:
        """As its prefix says."""
        return int.from_bytes(self.prefix[1:], "big")

    @property
    def is_whole(self) -> bool:
        """Whether all of it has passed."""
        return self.has_prefix and self.passed == self.length


class FrameLike(Protocol):
    """What judges of a span need to know of the frame around it, in any protocol."""

    @property
    def name(self) -> str: ...
    @property
    def is_known(self) -> bool: ...
    @property
    def ends_stream(self) -> bool: ...
    @property
    def begins_call(self) -> bool: ...
    @property
    def stream(self) -> int: ...


class Span(NamedTuple):
    """Some bytes of a piece, from ``start`` to ``stop``, that are of one kind.

    ``at`` is where they begin in the header, prefix, message or contents that they are part of.
    """

    start: int
    stop: int
    kind: Kind
    frame: FrameLike
    message: Message | None
    at: int


class SpanReader(Protocol):
    """One direction of one connection, in any protocol."""

    def feed(self, piece: bytes) -> Iterator[Span]:
        """Yield what the bytes of ``piece`` are, in order and without gaps."""


class Reader:
    """One direction of one connection.

    Args:
        from_client: whether it begins with HTTP/2's preface.
    """

    def __init__(self, *, from_client: bool) -> None:
        self._preface_left = len(PREFACE) if from_client else 0
        self._frame = Frame()
        self._messages: dict[int, Message] = {}

    def feed(self, piece: bytes) -> Iterator[Span]:
        """Yield what the bytes of ``piece`` are, in order and without gaps.

        When a span is yielded, its frame and message are known as far as to its end. All of them
        have to be taken before the next piece is fed.
        """
        start = 0
        while start < len(piece):
            span = self._next(memoryview(piece)[start:], start)
            yield span
            start = span.stop

    def _next(self, piece: memoryview, start: int) -> Span:
        frame = self._frame
        if self._preface_left:
            at = len(PREFACE) - self._preface_left
            count = min(self._preface_left, len(piece))
            self._preface_left -= count
            return Span(start, start + count, "preface", frame, None, at)
        if not frame.is_known:
            return self._header(piece, start)
        taken = piece[: frame.left]
        if frame.name == "DATA":
            span = self._data(taken, start)
        else:
            at = int.from_bytes(frame.head[:3], "big") - frame.left
            span = Span(start, start + len(taken), "other", frame, None, at)
        frame.left -= span.stop - span.start
        if not frame.left:
            self._end_frame()
        return span

    def _header(self, piece: memoryview, start: int) -> Span:
        frame = self._frame
        at = len(frame.head)
        frame.head += piece[: HEADER_BYTES - at]
        frame.left = int.from_bytes(frame.head[:3], "big")
        if frame.is_known and not frame.left:
            self._end_frame()
        return Span(start, start + len(frame.head) - at, "header", frame, None, at)

    def _data(self, piece: memoryview, start: int) -> Span:
        """Take gRPC's prefix or what follows it, whichever is due."""
        frame = self._frame
        message = self._messages.setdefault(frame.stream, Message(frame.stream))
        kind: Kind = "message" if message.has_prefix else "prefix"
        if kind == "prefix":
            at = len(message.prefix)
            message.prefix += piece[: PREFIX_BYTES - at]
            count = len(message.prefix) - at
        else:
            at = message.passed
            count = min(len(piece), message.length - at)
            message.passed += count
            message.head += piece[: min(count, max(0, HEAD_BYTES - at))]
        if message.is_whole:
            del self._messages[frame.stream]
        return Span(start, start + count, kind, frame, message, at)

    def _end_frame(self) -> None:
        if self._frame.ends_stream:
            self._messages.pop(self._frame.stream, None)
        self._frame = Frame()
