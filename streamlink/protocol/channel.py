"""One channel of a stream: an ordered pipe to the peer, such as a gRPC call or a socket.

A stream may have several at once. Each begins with the same greeting, ``Open`` and ``Accept``,
which says where the stream stands; after it any of them may carry any chunk.
"""

from __future__ import annotations

from collections import deque

from streamlink.protocol.frames import Frame
from streamlink.protocol.stream_state import State


class Channel:
    """What one end knows of one channel."""

    __slots__ = (
        "chunks", "damaged_in_a_row", "greeting", "marks", "number", "outbox", "reads_into",
    )  # fmt: skip

    def __init__(self, number: int, greeting: State) -> None:
        self.number = number
        self.greeting: State | None = greeting
        """How far the greeting has come; None: it is complete."""
        self.outbox: deque[Frame] = deque()
        """What only this channel may carry: its greeting, and repairs of frames it brought."""
        self.chunks = 0
        """Receiver: chunk frames that arrived on it, damaged ones included (count)."""
        self.damaged_in_a_row = 0
        """Receiver: chunk frames that arrived damaged since the last intact one (count)."""
        self.reads_into: int | None = None
        """Receiver: where the payload belongs that is being read from it (byte)."""
        self.marks = (0, 0, 0, 0)
        """Sender: received, taken, durable and limit as last acknowledged on it (bytes)."""

    @property
    def is_ready(self) -> bool:
        """Whether the greeting is complete, so that chunks and acks may travel."""
        return self.greeting is None
