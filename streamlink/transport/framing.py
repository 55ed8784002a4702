"""Faults of a frame that are found before it is parsed: it arrived damaged, or it is too large.

A parser needs many times the memory of what it parses, so a size is checked first. A chunk is
bounded by what the carrier lets through and is read in place; every other frame is small.
"""

from __future__ import annotations

from streamlink.config import GrpcConfig, StreamConfig
from streamlink.errors import FrameTooLarge
from streamlink.protocol.limits import MAX_CONTROL_BYTES, MAX_PAGE_BYTES

__all__ = ["DamagedFrame", "check_size", "largest_received"]

_PAGE_TAG = b"\x32"
_ENVELOPE_BYTES = 64  # tags, lengths, number and check around a page


class DamagedFrame(Exception):
    """A frame did not arrive as it left, or frames before it were lost: the peer did nothing wrong.

    No ``StreamlinkError``: a wire raises it, a pump catches it and gives the call up, and nobody
    above the transport ever sees it.
    """


def check_size(raw: bytes, stream_id: int = 0) -> None:
    """Refuse a frame that is no chunk and larger than any may be.

    Raises:
        FrameTooLarge: it is.
    """
    nbytes = len(raw)
    if nbytes <= MAX_CONTROL_BYTES:
        return
    # The tag alone is enough: a forged one buys the peer a page's size, which it may send anyway.
    if raw[:1] == _PAGE_TAG and nbytes <= MAX_PAGE_BYTES + _ENVELOPE_BYTES:
        return
    raise FrameTooLarge(
        f"received a frame of {nbytes} bytes; but for chunks the most is {MAX_CONTROL_BYTES}, and "
        f"{MAX_PAGE_BYTES} for a page of a description",
        stream_id=stream_id,
    )


def largest_received(grpc: GrpcConfig, stream: StreamConfig) -> int:
    """Return the largest message gRPC has to let in (bytes).

    No honest one is larger than a chunk or a page. There is room for more, so that a peer whose
    chunk is too large gets an abort with the reason, and is not just cut off.
    """
    return min(grpc.max_message_bytes, 2 * (stream.chunk_bytes + MAX_PAGE_BYTES))
