"""What a peer may announce and send: sizes are checked before anything is kept or made for them.

First the description of a model (``Open`` and its pages), then each chunk, by its header alone: so
a carrier can ask before it reads the payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from streamlink.config import LimitsConfig
from streamlink.errors import FlowControlError, FrameTooLarge, RemoteProtocolError
from streamlink.protocol.frames import PLAIN, Chunk, ChunkHeader, Open, Range, SpecPage
from streamlink.protocol.limits import (
    MAX_ACK_RANGES,
    MAX_ATTEMPT_BYTES,
    MAX_DIGEST_BYTES,
    MAX_PAGE_BYTES,
    PAGE_OVERHEAD_BYTES,
    SMALLEST_CHUNK_BYTES,
)

# --- open ------------------------------------------------------------------------------


def check_open(frame: Open, limits: LimitsConfig, *, peer: str, stream_id: int) -> None:
    """Check what a sender announces.

    Raises:
        FrameTooLarge: the model, or a name of it, is beyond the limits.
        RemoteProtocolError: a size is negative or too small, or the extent not inside the model.
    """
    if frame.total_bytes < 0 or frame.spec_pages < 0:
        raise RemoteProtocolError(f"{peer} announced a negative size", stream_id=stream_id)
    if frame.brings.stop > frame.total_bytes:
        raise RemoteProtocolError(
            f"{peer} announced bytes {frame.brings} of a model of {frame.total_bytes}",
            stream_id=stream_id,
        )
    if frame.chunk_bytes < SMALLEST_CHUNK_BYTES:
        raise RemoteProtocolError(
            f"{peer} opened with a chunk size of {frame.chunk_bytes} bytes; the least is "
            f"{SMALLEST_CHUNK_BYTES}",
            stream_id=stream_id,
        )
    if frame.total_bytes > limits.max_model_bytes:
        raise FrameTooLarge(
            f"{peer} announces a model of {frame.total_bytes} bytes; the most is "
            f"{limits.max_model_bytes} (max_model_bytes)",
            stream_id=stream_id,
        )
    job_bytes = len(frame.attempt.job.encode(errors="replace"))
    if len(frame.spec_digest) > MAX_DIGEST_BYTES or job_bytes > MAX_ATTEMPT_BYTES:
        raise FrameTooLarge(
            f"{peer} opened with a digest of {len(frame.spec_digest)} bytes and a job's name of "
            f"{job_bytes}; the most are {MAX_DIGEST_BYTES} and {MAX_ATTEMPT_BYTES}",
            stream_id=stream_id,
        )


def is_same_model(frame: Open, known: Open) -> bool:
    """Return whether both announce the same bytes of one model: no later channel may change it."""
    return _model(frame) == _model(known)


def _model(frame: Open) -> tuple[object, ...]:
    size = frame.total_bytes, frame.brings, frame.chunk_bytes
    return *size, frame.spec_digest, frame.spec_pages, frame.update


# --- the pages of its description ----------------------------------------------------------


class Pages:
    """The description of one stream's model, until it is whole.

    Args:
        max_bytes: what all of its pages may take (``max_spec_bytes``).
    """

    def __init__(self, max_bytes: int) -> None:
        self.is_wanted = False
        """Whether the sender still owes pages, before any chunk."""
        self.kept: list[bytes] = []
        self._max_bytes = max_bytes
        self._nbytes = 0

    def take(self, page: SpecPage, opened: Open, *, peer: str) -> tuple[bytes, ...] | None:
        """Take the next page of what was ``opened``; returns all of them with the last.

        Raises:
            RemoteProtocolError: it is out of order, or was not asked for.
            FrameTooLarge: it, or all of them, are beyond the bounds.
        """
        if not self.is_wanted or page.number != len(self.kept):
            raise RemoteProtocolError(
                f"{peer} sent page {page.number} of the description out of order",
                stream_id=opened.stream_id,
            )
        self._nbytes += len(page.body) + PAGE_OVERHEAD_BYTES
        if self._nbytes > self._max_bytes or len(page.body) > MAX_PAGE_BYTES:
            raise FrameTooLarge(
                f"{peer} describes its model in more than {self._max_bytes} bytes "
                f"(max_spec_bytes), or more than {MAX_PAGE_BYTES} on one page",
                stream_id=opened.stream_id,
            )
        self.kept.append(page.body)
        if len(self.kept) < opened.spec_pages:
            return None
        pages = tuple(self.kept)
        self.is_wanted = False
        self.clear()
        return pages

    def clear(self) -> None:
        """Let go of those that came; on another channel they come again."""
        self.kept.clear()
        self._nbytes = 0


# --- chunks ------------------------------------------------------------------------------


def check_chunk(
    chunk: Chunk | ChunkHeader,
    opened: Open,
    *,
    due: int,
    most: int,
    limit: int,
    encodings: int,
    peer: str,
) -> None:
    """Check a chunk's header, before a byte of its payload is kept.

    Args:
        chunk: what came.
        opened: what the sender announced.
        due: the number that the next chunk frame of its channel has.
        most: the chunk size agreed (bytes).
        limit: the credit: no byte from here on may come.
        encodings: how many were agreed beside plain; a chunk names one by its place among them.
        peer: who sent it.

    Raises:
        FrameTooLarge: it is larger than agreed.
        FlowControlError: it is beyond the credit.
        RemoteProtocolError: it is out of its turn, of no agreed encoding, or outside of its extent.
    """
    stream_id = opened.stream_id
    if chunk.sequence != due:
        raise RemoteProtocolError(
            f"{peer} sent chunk frame {chunk.sequence} where {due} was due", stream_id=stream_id
        )
    if chunk.nbytes > most:
        raise FrameTooLarge(
            f"{peer} sent a chunk of {chunk.nbytes} bytes; agreed were at most {most}",
            stream_id=stream_id,
        )
    if fault := _encoding_fault(chunk, encodings):
        raise RemoteProtocolError(f"{peer} {fault}", stream_id=stream_id)
    if chunk.end > opened.brings.stop or chunk.offset < opened.brings.start:
        raise RemoteProtocolError(
            f"{peer} sent bytes {chunk.offset} to {chunk.end}, outside of {opened.brings}",
            stream_id=stream_id,
        )
    if chunk.end > limit:
        raise FlowControlError(
            f"{peer} sent up to byte {chunk.end} with credit to {limit}", stream_id=stream_id
        )


def _encoding_fault(chunk: Chunk | ChunkHeader, agreed: int) -> str:
    """Return what is wrong with the way a chunk travels; empty: nothing."""
    if chunk.encoding == PLAIN:
        if chunk.wire_bytes == chunk.nbytes:
            return ""
        return f"sent {chunk.wire_bytes} plain bytes that it counts as {chunk.nbytes}"
    if not 0 < chunk.encoding <= agreed:
        return f"sent a chunk in encoding {chunk.encoding}, which was not agreed"
    if chunk.wire_bytes >= chunk.nbytes:  # so a window also bounds the bytes as they travel
        return f"sent {chunk.wire_bytes} encoded bytes for {chunk.nbytes}; those travel plain"
    return ""


# --- acks ----------------------------------------------------------------------------------


def are_ranges(ranges: Sequence[Range], received: int, *, sent: int) -> bool:
    """Return whether a receiver can have ``ranges`` behind its mark: ascending, apart, and sent."""
    bounds = [received, *(bound for each in ranges for bound in each)]
    is_ascending = all(low < high for low, high in pairwise(bounds))
    return len(ranges) <= MAX_ACK_RANGES and is_ascending and bounds[-1] <= sent
