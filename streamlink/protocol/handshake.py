"""The handshakes: what both ends agree on before the first request, and before the first chunk.

A session begins with ``Hello`` and ``Welcome``: version and largest chunk. Each channel of a stream
begins with ``Open`` and ``Accept``: which model, where to resume, which encodings. Every size that
a peer announces is checked here before anything is kept or allocated for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streamlink.config import LimitsConfig, LinkConfig
from streamlink.errors import AbortCode, FrameTooLarge, RemoteProtocolError
from streamlink.extent import Extent
from streamlink.protocol.frames import (
    Accept,
    Attempt,
    Hello,
    Open,
    SpecPage,
    Update,
    Welcome,
)
from streamlink.protocol.limits import (
    MAX_ATTEMPT_BYTES,
    MAX_DIGEST_BYTES,
    MAX_PAGE_BYTES,
    PAGE_OVERHEAD_BYTES,
    SMALLEST_CHUNK_BYTES,
)

# --- sessions ------------------------------------------------------------------------------

VERSION_MIN = VERSION_MAX = 1
FRAME_OVERHEAD_BYTES = 1024
"""Room that a chunk's frame needs beside its payload, rounded up generously (bytes)."""


MAX_NAME_CHARACTERS = 128


def name_fault(name: str) -> str:
    """Return why no client can be called ``name``, as a sentence; empty: one can."""
    if 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable():
        return ""
    # A little more than fits: it shows that the name is too long, and a peer may have sent it.
    shown = name[: MAX_NAME_CHARACTERS + 2]
    return f"{shown!r} is not a valid name: use 1 to {MAX_NAME_CHARACTERS} printable characters"


def agree_version(hello: Hello) -> int:
    """Return the newest version both sides speak.

    Raises:
        RemoteProtocolError: there is none; its code is ``VERSION``.
    """
    # The newest of both, unless it is below what either still supports.
    version = min(hello.version_max, VERSION_MAX)
    if version < max(hello.version_min, VERSION_MIN):
        raise RemoteProtocolError(
            f"{hello.name} speaks versions {hello.version_min} to {hello.version_max}, this server "
            f"{VERSION_MIN} to {VERSION_MAX}; upgrade the older side",
            code=AbortCode.VERSION,
        )
    return version


def agree_chunk(config: LinkConfig, hello: Hello, peer_name: str) -> int:
    """Return the largest chunk that fits both sides and both message limits (bytes).

    Raises:
        RemoteProtocolError: it would be below the smallest chunk of the protocol.
    """
    # Both ends reserve room for a frame's other fields: gRPC rejects a message that is too large.
    fits = min(hello.max_message_bytes, config.grpc.max_message_bytes)
    size = min(hello.chunk_bytes, config.stream.chunk_bytes, fits - FRAME_OVERHEAD_BYTES)
    if size < SMALLEST_CHUNK_BYTES:
        raise RemoteProtocolError(
            f"{peer_name} offers chunk_bytes={hello.chunk_bytes} and "
            f"max_message_bytes={hello.max_message_bytes}; the smallest chunk that can be "
            f"agreed on is {SMALLEST_CHUNK_BYTES} bytes"
        )
    return size


def welcome_fault(welcome: Welcome, config: LinkConfig) -> str:
    """Return what in a welcome was not offered; empty: nothing."""
    if not VERSION_MIN <= welcome.version <= VERSION_MAX:
        return f"chose version {welcome.version}, which we did not offer"
    if not SMALLEST_CHUNK_BYTES <= welcome.chunk_bytes <= config.stream.chunk_bytes:
        return f"chose a chunk size of {welcome.chunk_bytes} bytes"
    return ""


def agree_open_requests(config: LinkConfig, welcome: Welcome) -> int:
    """Return how many requests the client of ``welcome`` has open at once, at most (count)."""
    most = config.limits.max_open_requests
    return min(most, welcome.max_open_requests or most)


def agreed(config: LinkConfig, welcome: Welcome) -> LinkConfig:
    """Return ``config`` with what both sides agreed on."""
    most = agree_open_requests(config, welcome)
    limits = config.limits.model_copy(update={"max_open_requests": most})
    stream = config.stream.model_copy(update={"chunk_bytes": welcome.chunk_bytes})
    return config.model_copy(update={"stream": stream, "limits": limits})


# --- streams: the sender ------------------------------------------------------------------


class SendHandshake:
    """The sender's half: announces one model on each channel, and checks the answers.

    Args:
        stream_id: the stream that carries the model.
        attempt: what it is a part of.
        update: which update it is.
        total_bytes: its size.
        extent: the bytes of it that the stream brings; None: all.
        chunk_bytes: the largest chunk this side would send.
        spec_digest: identifies its description, which a receiver may know already.
        spec_pages: the description.
        is_resumable: a receiver may have some of it from an earlier process of this sender.
        encodings: names of those that chunks may travel in, beside plain.
        bases: digests of kept models that chunks may be encoded against.
        is_kept: this model will be one of them.
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
        bases: tuple[str, ...] = (),
        is_kept: bool = False,
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
            bases=bases,
            is_kept=is_kept,
        )
        self._pages = tuple(spec_pages)
        self._is_resumable = is_resumable
        self._agreed_chunk = 0

    def open(self, *, is_resumed: bool) -> Open:
        """Return the frame that a channel begins with."""
        return replace(self._open, is_resumed=is_resumed)

    def pages(self) -> Iterator[SpecPage]:
        """Yield the description, for a receiver that does not know it."""
        return (SpecPage(number, page) for number, page in enumerate(self._pages))

    def check_accept(self, accept: Accept, position: int, *, peer_name: str) -> bool:
        """Check the receiver's answer; returns whether it is its first answer.

        Args:
            accept: the answer.
            position: up to where bytes were written.
            peer_name: who answers.

        Raises:
            RemoteProtocolError: the answer is impossible.
        """
        is_first = not self._agreed_chunk
        extent, stream_id = self._open.brings, self._open.stream_id
        # In its first answer a receiver may have what an earlier process of this sender has sent.
        furthest = extent.stop if is_first and self._is_resumable else position
        if not extent.start <= accept.received <= furthest or accept.limit < accept.received:
            raise RemoteProtocolError(
                f"{peer_name} accepted at byte {accept.received} with credit to {accept.limit}, "
                f"but the bytes of {extent} were sent up to {position}",
                stream_id=stream_id,
            )
        # One size for all channels: chunks that were cut for an earlier channel still have to fit.
        least = self._agreed_chunk or SMALLEST_CHUNK_BYTES
        if not least <= accept.chunk_bytes <= self._open.chunk_bytes:
            raise RemoteProtocolError(
                f"{peer_name} accepted with a chunk size of {accept.chunk_bytes} bytes; it has to "
                f"be from {least} to {self._open.chunk_bytes}",
                stream_id=stream_id,
            )
        if is_first and any(name not in self._open.encodings for name in accept.encodings):
            raise RemoteProtocolError(
                f"{peer_name} accepted with encodings that were not offered: {accept.encodings}",
                stream_id=stream_id,
            )
        if is_first and accept.base and accept.base not in self._open.bases:
            raise RemoteProtocolError(
                f"{peer_name} accepted with the base {accept.base!r}, which was not offered",
                stream_id=stream_id,
            )
        self._agreed_chunk = accept.chunk_bytes
        return is_first

    def drop_pages(self) -> None:
        """Release the description."""
        self._pages = ()


# --- streams: the receiver ------------------------------------------------------------------


def check_open(frame: Open, limits: LimitsConfig, *, peer_name: str, stream_id: int) -> None:
    """Check what a sender announces.

    Raises:
        FrameTooLarge: the model, or a name of it, is beyond the limits.
        RemoteProtocolError: a size is negative or too small, or the extent not inside the model.
    """
    if frame.total_bytes < 0 or frame.spec_pages < 0:
        raise RemoteProtocolError(f"{peer_name} announced a negative size", stream_id=stream_id)
    if frame.brings.stop > frame.total_bytes:
        raise RemoteProtocolError(
            f"{peer_name} announced bytes {frame.brings} of a model of {frame.total_bytes}",
            stream_id=stream_id,
        )
    if frame.chunk_bytes < SMALLEST_CHUNK_BYTES:
        raise RemoteProtocolError(
            f"{peer_name} opened with a chunk size of {frame.chunk_bytes} bytes; the smallest is "
            f"{SMALLEST_CHUNK_BYTES}",
            stream_id=stream_id,
        )
    if frame.total_bytes > limits.max_model_bytes:
        raise FrameTooLarge(
            f"{peer_name} announces a model of {frame.total_bytes} bytes; the most is "
            f"{limits.max_model_bytes} (max_model_bytes)",
            stream_id=stream_id,
        )
    # In bytes, as it travels; a name that is no valid Unicode is measured, and refused elsewhere.
    job_bytes = len(frame.attempt.job.encode(errors="replace"))
    if len(frame.spec_digest) > MAX_DIGEST_BYTES or job_bytes > MAX_ATTEMPT_BYTES:
        raise FrameTooLarge(
            f"{peer_name} opened with a digest of {len(frame.spec_digest)} bytes and a job's name "
            f"of {job_bytes}; the most are {MAX_DIGEST_BYTES} and {MAX_ATTEMPT_BYTES}",
            stream_id=stream_id,
        )


def is_same_model(frame: Open, known: Open) -> bool:
    """Return whether both announce the same bytes of one model: no later channel may change it."""
    return _model(frame) == _model(known)


def _model(frame: Open) -> tuple[object, ...]:
    size = frame.total_bytes, frame.brings, frame.chunk_bytes
    return *size, frame.spec_digest, frame.spec_pages, frame.update


class SpecPages:
    """The pages of one model's description, until all have arrived.

    Args:
        max_bytes: what all of its pages may take (``max_spec_bytes``).
    """

    def __init__(self, max_bytes: int) -> None:
        self.is_wanted = False
        """Whether the sender still owes pages, before any chunk."""
        self.kept: list[bytes] = []
        self._max_bytes = max_bytes
        self._nbytes = 0

    def add(self, page: SpecPage, opened: Open, *, peer_name: str) -> tuple[bytes, ...] | None:
        """Keep the next page of what was ``opened``; returns all of them with the last.

        Raises:
            RemoteProtocolError: it is out of order, or was not asked for.
            FrameTooLarge: it, or all of them together, are beyond the limits.
        """
        if not self.is_wanted or page.number != len(self.kept):
            raise RemoteProtocolError(
                f"{peer_name} sent page {page.number} of the description out of order",
                stream_id=opened.stream_id,
            )
        # Counted before it is kept, and with an overhead: a million empty pages have a cost, too.
        self._nbytes += len(page.body) + PAGE_OVERHEAD_BYTES
        if self._nbytes > self._max_bytes or len(page.body) > MAX_PAGE_BYTES:
            raise FrameTooLarge(
                f"{peer_name} describes its model in more than {self._max_bytes} bytes "
                f"(max_spec_bytes), or in a page of more than {MAX_PAGE_BYTES}",
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
        """Release those that arrived; on another channel they are sent again, from the first."""
        self.kept.clear()
        self._nbytes = 0
