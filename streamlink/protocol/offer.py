"""What a sender announces of its model on each call, and what a receiver may answer to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streamlink.errors import RemoteProtocolError
from streamlink.extent import Extent
from streamlink.protocol.frames import Accept, Attempt, Open, SpecPage, Update
from streamlink.protocol.limits import SMALLEST_CHUNK_BYTES


class Offer:
    """One model, announced to one receiver.

    Args:
        stream_id: the stream that is to carry it.
        attempt: what it is a part of.
        update: which update it is.
        total_bytes: its size.
        extent: the bytes of it that the stream brings; None: all.
        chunk_bytes: the largest chunk this side would send.
        spec_digest: names its description, which a receiver may know.
        spec_pages: the description.
        is_resumable: a receiver may have some of it from a process before this one.
        encodings: names of those that chunks may travel in, beside plain.
    """

    def __init__(
        self,
        *,
        stream_id: int,
        attempt: Attempt,
        update: Update,
        total_bytes: int,
        extent: Extent | None = None,
        chunk_bytes: int,
        spec_digest: bytes,
        spec_pages: Sequence[bytes],
        is_resumable: bool,
        encodings: tuple[str, ...] = (),
    ) -> None:
        self._open = Open(
            stream_id=stream_id,
            attempt=attempt,
            total_bytes=total_bytes,
            spec_digest=spec_digest,
            spec_pages=len(spec_pages),
            chunk_bytes=chunk_bytes,
            update=update,
            encodings=encodings,
            extent=extent,
        )
        self._extent = self._open.brings
        self._pages = tuple(spec_pages)
        self._is_resumable = is_resumable
        self._agreed_chunk = 0

    def open(self, *, is_resumed: bool) -> Open:
        """Return what a call begins with."""
        return replace(self._open, is_resumed=is_resumed)

    def pages(self) -> Iterator[SpecPage]:
        """Yield the description, for a receiver that does not know it."""
        return (SpecPage(number, page) for number, page in enumerate(self._pages))

    def take(self, answer: Accept, position: int, *, peer: str) -> bool:
        """Take what the receiver answers; returns whether it is its first answer.

        Args:
            answer: it.
            position: up to where bytes were written.
            peer: who answers.

        Raises:
            RemoteProtocolError: what it says cannot be.
        """
        is_first = not self._agreed_chunk
        extent = self._extent
        # The first time, a receiver may have what a sender before this one has brought.
        most = extent.stop if is_first and self._is_resumable else position
        if not extent.start <= answer.received <= most or answer.limit < answer.received:
            raise RemoteProtocolError(
                f"{peer} accepted at byte {answer.received} with credit to {answer.limit}, "
                f"but the bytes of {extent} were sent up to {position}",
                stream_id=self._open.stream_id,
            )
        # One size for all calls: what was cut for the call before has to fit.
        least = self._agreed_chunk or SMALLEST_CHUNK_BYTES
        if not least <= answer.chunk_bytes <= self._open.chunk_bytes:
            raise RemoteProtocolError(
                f"{peer} accepted with a chunk size of {answer.chunk_bytes} bytes",
                stream_id=self._open.stream_id,
            )
        if is_first and any(name not in self._open.encodings for name in answer.encodings):
            raise RemoteProtocolError(
                f"{peer} accepted with encodings that were not offered: {answer.encodings}",
                stream_id=self._open.stream_id,
            )
        self._agreed_chunk = answer.chunk_bytes
        return is_first

    def drop_pages(self) -> None:
        """Let go of the description."""
        self._pages = ()
