"""The checks of chunks and acks: what a peer may send, before anything is kept or believed.

A chunk is checked by its header alone, so a carrier can ask before it reads the payload.
``handshake`` has the checks of what a sender announces.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from streamlink.errors import FlowControlError, FrameTooLarge, RemoteProtocolError
from streamlink.protocol.frames import PLAIN, Chunk, ChunkHeader, Open, Range
from streamlink.protocol.limits import MAX_ACK_RANGES


def check_chunk(
    chunk: Chunk | ChunkHeader,
    opened: Open,
    *,
    sequence: int,
    max_bytes: int,
    limit: int,
    encodings: int,
    peer_name: str,
) -> None:
    """Check a chunk's header, before a byte of its payload is kept.

    Args:
        chunk: what arrived.
        opened: what the sender announced.
        sequence: the number that the next chunk frame of its channel has.
        max_bytes: the agreed chunk size.
        limit: the credit: no byte from here on may be sent.
        encodings: how many were agreed beside plain; a chunk names one by its place among them.
        peer_name: who sent it.

    Raises:
        FrameTooLarge: it is larger than agreed.
        FlowControlError: it is beyond the credit.
        RemoteProtocolError: it is out of order, of no agreed encoding, or outside of its extent.
    """
    stream_id = opened.stream_id
    if chunk.sequence != sequence:
        raise RemoteProtocolError(
            f"{peer_name} sent chunk frame {chunk.sequence} where {sequence} was expected",
            stream_id=stream_id,
        )
    if chunk.nbytes > max_bytes:
        raise FrameTooLarge(
            f"{peer_name} sent a chunk of {chunk.nbytes} bytes; at most {max_bytes} were agreed",
            stream_id=stream_id,
        )
    is_plain = chunk.encoding == PLAIN and chunk.wire_bytes == chunk.nbytes
    if not is_plain and (fault := _encoding_fault(chunk, encodings)):
        raise RemoteProtocolError(f"{peer_name} {fault}", stream_id=stream_id)
    extent = opened.brings
    if chunk.end > extent.stop or chunk.offset < extent.start:
        raise RemoteProtocolError(
            f"{peer_name} sent bytes {chunk.offset} to {chunk.end}, outside of {extent}",
            stream_id=stream_id,
        )
    if chunk.end > limit:
        raise FlowControlError(
            f"{peer_name} sent up to byte {chunk.end} with credit to {limit}", stream_id=stream_id
        )


def _encoding_fault(chunk: Chunk | ChunkHeader, agreed: int) -> str:
    """Return what is wrong with how a chunk travels, which is not simply plain; empty: nothing."""
    if chunk.encoding == PLAIN:
        return f"sent {chunk.wire_bytes} plain bytes that it counts as {chunk.nbytes}"
    if not 0 < chunk.encoding <= agreed:
        return f"sent a chunk in encoding {chunk.encoding}, which was not agreed"
    # Credit counts logical bytes. If an encoding could grow them, the window would not bound what
    # travels and what waits here.
    if chunk.wire_bytes >= chunk.nbytes:
        return f"sent {chunk.wire_bytes} encoded bytes for {chunk.nbytes}; those must travel plain"
    return ""


def are_ranges(ranges: Sequence[Range], received: int, *, sent: int) -> bool:
    """Return whether a receiver can have ``ranges`` behind a gap: ascending, disjoint, and sent."""
    bounds = [received, *(bound for each in ranges for bound in each)]
    is_ascending = all(low < high for low, high in pairwise(bounds))
    return len(ranges) <= MAX_ACK_RANGES and is_ascending and bounds[-1] <= sent
