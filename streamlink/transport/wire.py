"""The frames of one call to bytes and back: a ``Wire`` counts them in each direction.

The check of a frame covers its number on the call, and a chunk has one of its own. So a frame that
was lost, or came twice, is found with the next one, as damage: a link can do that, too, where it
damages what gRPC wraps around a frame.
"""

from __future__ import annotations

from typing import Any

from streamlink.protocol import frames as f
from streamlink.transport import messages
from streamlink.transport.chunks import chunk_of
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.messages import Buffers

__all__ = ["SessionWire", "TransferWire", "Wire"]


class Wire:
    """The frames of one call.

    Args:
        sent: how many frames this end has sent on the call before.
        received: how many the other end has sent.
    """

    def __init__(self, *, sent: int = 0, received: int = 0) -> None:
        self._sent, self._received = sent, received

    def encode(self, frame: Any) -> bytes:
        """Return the next frame to send, joined."""
        return messages.joined(self.buffers(frame))

    def buffers(self, frame: Any) -> Buffers:
        """Return the next frame to send, as consecutive buffers: a payload is not copied."""
        raise NotImplementedError

    def decode(self, raw: bytes) -> f.Frame:
        """Return the next frame that arrived.

        Raises:
            DamagedFrame: it is not what was sent, or is not in its turn.
            RemoteProtocolError: it is what was sent, and no frame.
        """
        raise NotImplementedError


class SessionWire(Wire):
    """The frames of one session call."""

    def buffers(self, frame: Any) -> Buffers:
        """See ``Wire``."""
        raw = messages.encode_session(frame, self._sent)
        self._sent += 1
        return (raw,)

    def decode(self, raw: bytes) -> f.SessionFrame:
        """See ``Wire``."""
        frame = messages.decode_session(raw, self._received)
        self._received += 1
        return frame


class TransferWire(Wire):
    """The frames of one transfer call."""

    def __init__(self, stream_id: int, *, sent: int = 0, received: int = 0) -> None:
        super().__init__(sent=sent, received=received)
        self._stream_id = stream_id
        self._chunks = 0

    def buffers(self, frame: Any) -> Buffers:
        """See ``Wire``."""
        buffers = messages.transfer_buffers(frame, self._stream_id, self._sent)
        # Chunks are not counted here: each has a sequence number, and a hash of its own.
        self._sent += not isinstance(frame, f.Chunk)
        return buffers

    def decode(self, raw: bytes) -> f.TransferFrame:
        """See ``Wire``."""
        frame = messages.decode_transfer(raw, self._stream_id, self._received)
        if isinstance(frame, f.Chunk):
            return self._counted(frame)
        self._received += 1
        return frame

    def chunk(
        self, header: f.ChunkHeader, digest: int, payload: f.Payload, *, is_in_place: bool = False
    ) -> f.Chunk:
        """Return the next frame that arrived, a chunk whose payload was read apart.

        Raises:
            DamagedFrame: it is not in its turn.
        """
        return self._counted(
            chunk_of(header, digest, payload, self._stream_id, is_in_place=is_in_place)
        )

    def _counted(self, frame: f.Chunk) -> f.Chunk:
        # Of a damaged chunk the number itself may be wrong: the machine asks for it again by count.
        if frame.is_intact and frame.sequence > self._chunks:
            raise DamagedFrame(f"chunk {frame.sequence} where {self._chunks} was due")
        self._chunks += 1
        return frame
