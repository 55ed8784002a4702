"""Tells what each byte of a data connection over TCP is: ``Reader``, one for each direction.

It is to such a connection what ``http2.Reader`` is to one of gRPC, and yields the same ``Span``s: a
client begins with its opening, a server with its answer, and then both send messages, each with its
length and a check in front. Messages of less than 64 bytes are padded to that. A connection is one
call of one stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks import http2
from benchmarks.http2 import HEAD_BYTES, Span

__all__ = ["Reader"]

OPENING_HEAD_BYTES, MAC_BYTES = 38, 32
ANSWER_BYTES = 48
PREFIX_BYTES, LENGTH_BYTES = 8, 4
FIRST_BYTES = 64  # of each message, or padding


@dataclass(slots=True)
class Part:
    """What comes before the first message; its head is known once all of that has passed."""

    name: str
    begins_call: bool
    head: bytearray = field(default_factory=bytearray)
    head_bytes: int = 0
    left: int = 0
    """What of it has yet to pass, behind its head (bytes)."""
    stream: int = 0
    ends_stream: bool = False

    @property
    def is_known(self) -> bool:
        """Whether its head has passed."""
        return len(self.head) == self.head_bytes

    def take_head(self, piece: memoryview) -> int:
        """Take what ``piece`` has of the head; return its length (bytes)."""
        taken = piece[: self.head_bytes - len(self.head)]
        self.head += taken
        if len(self.head) == self.head_bytes:
            self.left = self.head[4] + self.head[5] + MAC_BYTES  # two names and the HMAC
        return len(taken)


class Message(http2.Message):
    """A message, as gRPC's but for its prefix and padding (lengths in bytes)."""

    __slots__ = ()

    @property
    def has_prefix(self) -> bool:
        """Whether its length is known."""
        return len(self.prefix) == PREFIX_BYTES

    @property
    def length(self) -> int:
        """As its prefix says, with padding."""
        return max(FIRST_BYTES, int.from_bytes(self.prefix[:LENGTH_BYTES], "little"))


class Reader:
    """One direction of one connection.

    Args:
        from_client: whether it begins with the opening, else with the answer.
    """

    def __init__(self, *, from_client: bool) -> None:
        if from_client:
            self._first = Part("opening", begins_call=True, head_bytes=OPENING_HEAD_BYTES)
        else:
            self._first = Part("answer", begins_call=False, left=ANSWER_BYTES)
        self._message = Message(stream=0)

    def feed(self, piece: bytes) -> Iterator[Span]:
        """Yield what the bytes of ``piece`` are, as ``http2.Reader`` does."""
        start = 0
        while start < len(piece):
            span = self._next(memoryview(piece)[start:], start)
            yield span
            start = span.stop

    def _next(self, piece: memoryview, start: int) -> Span:
        first = self._first
        if not first.is_known:
            at = len(first.head)
            return Span(start, start + first.take_head(piece), "header", first, None, at)
        if first.left:
            count = min(first.left, len(piece))
            first.left -= count
            return Span(start, start + count, "other", first, None, 0)
        return self._in_message(piece, start)

    def _in_message(self, piece: memoryview, start: int) -> Span:
        message = self._message
        if not message.has_prefix:
            at = len(message.prefix)
            message.prefix += piece[: PREFIX_BYTES - at]
            stop = start + len(message.prefix) - at
            return Span(start, stop, "prefix", self._first, message, at)
        at = message.passed
        count = min(len(piece), message.length - at)
        message.passed += count
        message.head += piece[: min(count, max(0, HEAD_BYTES - at))]
        if message.is_whole:
            self._message = Message(stream=0)
        return Span(start, start + count, "message", self._first, message, at)
