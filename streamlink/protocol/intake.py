"""``Intake``: how the receiving half takes chunks.

Each is checked by its header (``validate``), put in order (``reassembly``), and delivered. One
whose hash is wrong is asked for again, on the channel that brought it.
"""

from __future__ import annotations

from collections.abc import Collection

from streamlink.config import LinkConfig
from streamlink.errors import ChecksumError, ProtocolError
from streamlink.protocol.acks import AckRule
from streamlink.protocol.channel import Channel
from streamlink.protocol.events import Delivered
from streamlink.protocol.frames import Chunk, ChunkHeader, Open, Repair
from streamlink.protocol.limits import MAX_WAITING_FRAMES, SMALLEST_CHUNK_BYTES
from streamlink.protocol.meter import ReceiveMeter
from streamlink.protocol.reassembly import Place, Reassembly
from streamlink.protocol.stream import StreamMachine
from streamlink.protocol.stream_state import State
from streamlink.protocol.validate import Pages, check_chunk
from streamlink.protocol.window import credit_for

_READ = "read"
_CHUNKS = (State.STREAMING, State.FINISHING)


class Intake(StreamMachine):
    """Base of ``ReceiveStream``: from a chunk's header to its delivery."""

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        peer: str,
        name: str,
        encodings: Collection[str],
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer=peer, name=name)
        stream = config.stream
        self.opened: Open | None = None
        self._chunk_bytes = stream.chunk_bytes
        self._credit = credit_for(stream, stream.chunk_bytes)
        self._decodes = frozenset(encodings)
        self.encodings: tuple[str, ...] = ()
        """Those that the sender offers and this end decodes; a chunk names one by its place."""
        self._pages = Pages(stream.max_spec_bytes)
        self._reassembly = Reassembly()
        # The sender bounds the repairs of one chunk; this end cannot tell which chunk it was, and
        # bounds how many may arrive damaged while not one is intact.
        self._max_damaged = (stream.max_repairs + 1) * (
            stream.window_bytes // stream.smallest_chunk_bytes + 1
        )
        self._most_chunks = 2 * stream.window_bytes // SMALLEST_CHUNK_BYTES + 64
        self._meter = ReceiveMeter()
        self._acks = AckRule(
            stream.window_bytes,
            report_seconds=config.timeouts.held_interval,
            timers=self._timers,
        )

    # --- before a payload is read ----------------------------------------------------

    def admit(self, header: ChunkHeader, *, now: float, channel: int = 0) -> bool:
        """Check a chunk by its header; returns whether its payload may be read into its place.

        For carriers that read a payload apart, and know that the header is as it was sent. The
        place belongs to that reader until ``receive`` brings the chunk or the channel is lost.
        False: it is to be read elsewhere, as it is here already, or another channel brings it.
        """
        on = self._channels.get(channel)
        if on is None or not on.is_ready or self.state not in _CHUNKS or self._pages.is_wanted:
            return False
        try:
            self._check_chunk(header, on)
        except ProtocolError as error:
            self._fail(error, error.code)
            return False
        is_free = self._reassembly.reserve(header.offset, header.end)
        if is_free:
            on.reads_into = header.offset
        return is_free

    # --- chunks ----------------------------------------------------------------------

    def _on_chunk(self, chunk: Chunk, now: float) -> None:
        channel = self._channel
        self._free_place(channel)
        if self._pages.is_wanted:
            raise self._violation("sent a chunk before its description")
        if not chunk.is_intact:
            self._request_repair(channel)
            return
        self._check_chunk(chunk, channel)
        channel.chunks += 1
        channel.damaged_in_a_row = 0
        place = self._reassembly.place_of(chunk.offset, chunk.end)
        if place is Place.DUPLICATE:
            self._count_duplicate(chunk, now)
        elif place is Place.OVERLAP:
            raise self._violation(f"cut its model anew at byte {chunk.offset}")
        else:
            self._take(chunk, now)

    def _check_chunk(self, chunk: Chunk | ChunkHeader, channel: Channel) -> None:
        assert self.opened is not None
        check_chunk(
            chunk,
            self.opened,
            due=channel.chunks,
            most=self._chunk_bytes,
            limit=self._credit.limit,
            encodings=len(self.encodings),
            peer=self.peer,
        )
        if not chunk.nbytes or len(self._events) + len(self._reassembly) > self._most_chunks:
            raise self._violation(f"cuts its model too fine, {chunk.nbytes} bytes in a chunk")

    def _count_duplicate(self, chunk: Chunk, now: float) -> None:
        # A lost channel may have delivered what another sends again; a flood of it is no accident.
        if not self._allowance.spend(now=now):
            raise self._violation(f"floods this side with byte {chunk.offset}, which is here")
        self._acks.is_due = True

    def _take(self, chunk: Chunk, now: float) -> None:
        self._has_moved = True
        in_order = self._reassembly.take(chunk)
        if in_order:
            self._deliver(in_order, now)
        else:
            self._acks.delivered(1, is_full=False, now=now)
            self._watch_sender(now, is_progress=True)

    def _request_repair(self, channel: Channel) -> None:
        number, channel.chunks = channel.chunks, channel.chunks + 1
        channel.damaged_in_a_row += 1
        if channel.damaged_in_a_row > self._max_damaged:
            raise ChecksumError(
                f"{channel.damaged_in_a_row} chunks from {self.peer} arrived damaged in a "
                f"row after byte {self._reassembly.received}; look at the network cards or proxies "
                "on the way",
                stream_id=self.stream_id,
            )
        if len(channel.outbox) >= MAX_WAITING_FRAMES:
            raise self._violation(f"leaves {MAX_WAITING_FRAMES} answers unread")
        self._repairs += 1
        channel.outbox.append(Repair(number))

    def _free_place(self, channel: Channel) -> None:
        if channel.reads_into is not None:
            self._reassembly.cancel(channel.reads_into)
            channel.reads_into = None

    def _deliver(self, chunks: list[Chunk], now: float) -> None:
        self._meter.arrived(chunks[-1].end - chunks[0].offset, now=now)
        for chunk in chunks:
            self._chunks += 1
            self._events.append(Delivered(chunk))
        self._peer_waits_for = ""
        is_full = chunks[-1].nbytes == self._chunk_bytes and not self._reassembly.has_gap
        self._acks.delivered(len(chunks), is_full=is_full, now=now)
        if not self._timers.is_running(_READ):
            self._restart_read_clock(now)
        self._watch_sender(now, is_progress=True)

    # --- clocks ------------------------------------------------------------------------

    def _restart_read_clock(self, now: float) -> None:
        if self._reassembly.received > self._credit.taken:
            self._timers.start(_READ, self.config.timeouts.streaming_read_timeout, now=now)
        else:
            self._timers.stop(_READ)

    def _watch_sender(self, now: float, *, is_progress: bool = False) -> None:
        raise NotImplementedError
