"""What one chunk may be: no larger than agreed, in its place, within the model and the credit.

It is checked before anything is kept of it.
"""

from __future__ import annotations

from streamlink.errors import FlowControlError, FrameTooLarge, RemoteProtocolError
from streamlink.protocol.arrivals import Arrivals
from streamlink.protocol.frames import Chunk, Open


def check_chunk(
    chunk: Chunk, arrivals: Arrivals, opened: Open, *, most: int, limit: int, peer: str
) -> None:
    """Check a chunk that is whole.

    Args:
        chunk: what came.
        arrivals: what came before it.
        opened: what the sender announced.
        most: the size agreed (bytes).
        limit: the credit: no byte from here on may come.
        peer: who sent it.

    Raises:
        FrameTooLarge: it is larger than agreed.
        FlowControlError: it is beyond the credit.
        RemoteProtocolError: it is out of its place, or beyond the model.
    """
    if chunk.nbytes > most:
        raise FrameTooLarge(
            f"{peer} sent a chunk of {chunk.nbytes} bytes; agreed were at most {most}",
            stream_id=opened.stream_id,
        )
    if fault := arrivals.fault_in(chunk, limit=limit):
        raise RemoteProtocolError(f"{peer} {fault}", stream_id=opened.stream_id)
    if chunk.end > opened.total_bytes:
        raise RemoteProtocolError(
            f"{peer} sent bytes beyond its model, up to {chunk.end}", stream_id=opened.stream_id
        )
    if chunk.end > limit:
        raise FlowControlError(
            f"{peer} sent up to byte {chunk.end} with credit to {limit}",
            stream_id=opened.stream_id,
        )
