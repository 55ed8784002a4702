"""Chunks → pump: the sending direction of one model.

Its owner calls it. What it hands to the pump, hashing and encoding, runs in the writer of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.encodings.registry import AUTO, lossy_formats, offered
from streamlink.encodings.stream import Encoder
from streamlink.encodings.worth import Worth
from streamlink.errors import AbortCode, LocalProtocolError, StoreError, StreamAborted
from streamlink.extent import Extent
from streamlink.link.bases import Base, Bases
from streamlink.link.transfer import OnPhase, Receipt, Transfer, ignore
from streamlink.link.transfer_facts import TransferNotice
from streamlink.model.digest import BLOCK_BYTES, DigestBuilder, HasBlockHashes
from streamlink.model.interfaces import ModelSource, Payload, payload_bytes
from streamlink.model.rounding import RoundingError, meter_of
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_METRICS, Attempt, Update, split_payload
from streamlink.protocol.sender import SendStream
from streamlink.transport.messages import encode_spec
from streamlink.transport.send_pump import SendPump, Supply

__all__ = ["SendTransfer"]

SPEC_PAGE_BYTES = 256 * 1024
"""Size of one page of a model's description on the wire (bytes), about."""


class SendTransfer(Transfer[SendPump]):
    """A model that is sent: written in order, then finished, then committed by the receiver.

    Every method that waits raises the stream's own error once it has failed: ``Cancelled``, where a
    token of this end has ended it. Only ``extent`` of the model travels, where one is given; then
    the digest is that of the extent. ``lossy`` are the rules by which its source may be rounded:
    what is, travels packed. ``bases`` has the kept versions that it may be sent as a difference
    from, and ``is_kept`` tells the receiver that this one will be among them.
    """

    def __init__(
        self,
        config: LinkConfig,
        spec: ModelSpec,
        *,
        clock: Clock,
        stream_id: int,
        peer_name: str,
        name: str,
        attempt: Attempt = Attempt(),
        update: Update = Update(),
        is_resumable: bool = False,
        extent: Extent | None = None,
        lossy: Sequence[str] = (),
        bases: Bases | None = None,
        is_kept: bool = False,
        notice: TransferNotice | None = None,
    ) -> None:
        self.extent = extent or Extent(0, spec.nbytes)
        """The bytes of the model that travel."""
        names = config.stream.encodings
        packings = lossy_formats(lossy)
        digests = bases.digests(spec.digest) if bases is not None else ()
        stream = SendStream(
            config,
            stream_id=stream_id,
            total_bytes=spec.nbytes,
            extent=extent,
            spec_digest=spec.digest,
            spec_pages=_pages(spec, config),
            attempt=attempt,
            update=update,
            is_resumable=is_resumable,
            encodings=(*packings, *offered(names)),
            bases=digests,
            is_kept=is_kept,
            peer_name=peer_name,
            name=name,
        )
        # None where nothing is set: then encodings cost a chunk no call.
        encode = None
        self._against_base: _AgainstBase | None = None
        if names or packings:
            worth = Worth(stream, clock) if AUTO in names else None
            encoder = Encoder(offered(names), spec, packings=packings, worth=worth)
            encode = encoder.encode
            if bases is not None and digests:
                self._against_base = _AgainstBase(encoder, stream, bases, spec.digest)
                encode = self._against_base.encode
        notice = notice or TransferNotice(peer_name, "sent", attempt, clock=clock)
        super().__init__(SendPump(stream, clock=clock, encode=encode), notice)
        self.spec = spec
        self.update = update
        self._digest = DigestBuilder(spec, extent=self.extent)
        self._stored_digest = ""

    def measured_by(self, source: object) -> None:
        """Report at the end what ``source``, which is sent, has changed by rounding."""
        # Not the source: a transfer that has ended must not keep it alive.
        self._notice.meter = meter_of(source)

    @property
    def rounding(self) -> RoundingError | None:
        """What rounding has changed in what was sent so far; None: nothing is rounded."""
        return self._notice.rounding

    def wait_room(self) -> tuple[int, int] | None:
        """Return (offset, bytes) of what the stream can take next; None once all is written.

        Raises:
            Cancelled: a token of this end was cancelled.
        """
        return self._pump.wait_room()

    def write(self, offset: int, payload: Payload) -> None:
        """Send bytes from ``offset`` on, as much at a time as the stream has room for.

        The views must not change until the receiver has them.

        Raises:
            Cancelled: a token of this end was cancelled.
        """
        # All of it before the first piece is queued, since a piece may have to be written twice.
        for view in payload:
            self._hash(offset, view)
            offset += view.nbytes
        start, end = offset - payload_bytes(payload), offset
        while start < end:
            room = self.wait_room()
            if room is None or room[0] != start:
                raise LocalProtocolError(f"write at byte {start}, but the stream expects {room}")
            size = min(room[1], end - start)
            first, rest = split_payload(payload, size)
            # False: the call was lost since there was room, so nothing was queued; ask again.
            if self._pump.write(start, first):
                start, payload = start + size, rest

    def pull(self, supply: Supply) -> None:
        """Let the stream pull from ``supply(offset, nbytes)`` until all is written.

        ``supply`` runs in the carrier's thread, gives up to ``nbytes``, and may wait.

        Raises:
            Cancelled: a token of this end was cancelled.
        """
        # Hashed in the thread that pulls: one at a time, in order, so the digest needs no lock.
        self._pump.pull(supply, self._hash_all)

    def stop_pulling(self) -> None:
        """Stop pulling, and wait for a read that still runs; then the source may be closed."""
        self._pump.stop_pulling()

    def recall(self, source: ModelSource, on_phase: OnPhase = ignore) -> None:
        """Wait until the receiver has accepted, and add to the digest what it has already.

        Those bytes came from an earlier sender of the same model, so they are read here again.

        Raises:
            Cancelled: a token of this end was cancelled.
        """
        # The receiver has accepted when there is room; ``position`` is then where it resumes.
        self.wait_room()
        start = self._pump.stream.position
        # Hashed that far already, by an earlier call of this or by the pulls before a break.
        if start <= self._digest.offset or self._stored_digest:
            return
        self.resumed_at = start
        is_whole = self.extent.nbytes == self.spec.nbytes
        if is_whole and isinstance(source, HasBlockHashes) and source.block_hash(0) is not None:
            # Each block that is read is checked against its hash, so this is what will be sent.
            self._stored_digest = source.digest()
            return
        pulse = self.pulse("reading what was sent before")
        while (offset := self._digest.offset) < start:
            pulse.beat()
            for view in source.read(offset, min(BLOCK_BYTES, start - offset)):
                self._digest.update(view)
            on_phase("checking", self._digest.offset)

    def finish(self, metrics: Mapping[str, float] = NO_METRICS) -> Receipt:
        """Report that everything is written, and wait until the receiver has committed it.

        Raises:
            Cancelled: a token of this end was cancelled.
        """
        while (receipt := self.try_finish(metrics)) is None:
            # The call may have been lost just before: then only the finish has to be sent again.
            if not self._pump.stream.is_written:
                raise LocalProtocolError(
                    "the receiver resumed before the bytes that can be sent again"
                )
        return receipt

    def try_finish(self, metrics: Mapping[str, float] = NO_METRICS) -> Receipt | None:
        """Finish; None: the receiver reconnected and asks for bytes that must be sent again.

        Raises:
            Cancelled: a token of this end was cancelled.
        """
        self._pump.finish(self._hexdigest(), metrics)
        try:
            if not self._pump.wait_committed():
                return None
        except StreamAborted as error:
            if error.code is AbortCode.DIGEST_MISMATCH and self._against_base is not None:
                self._against_base.doubt(str(error))
            raise
        return self._done(self._hexdigest(), metrics)

    @property
    def received_bytes(self) -> int:
        """The receiver has all bytes below."""
        return self._pump.stream.received

    def when_held(self, act: Callable[[str, str], None]) -> None:
        """Call ``act(reason, waiting_for)`` whenever the receiver reports that it waits."""
        self._pump.on_held = lambda event: act(event.reason, event.waiting_for)

    def _hexdigest(self) -> str:
        return self._stored_digest or self._digest.hexdigest()

    def _hash_all(self, offset: int, payload: Payload) -> bytes:
        """Add to the digest; returns the hashes that a chunk of these bytes needs, if it has them.

        So they are hashed once, where they are whole blocks.
        """
        if not self._stored_digest and offset == self._digest.offset:
            return self._digest.update_all(payload)
        for view in payload:
            self._hash(offset, view)
            offset += view.nbytes
        return b""

    def _hash(self, offset: int, view: memoryview) -> None:
        if self._stored_digest:
            return
        # A resume writes some bytes a second time; the digest has them once.
        known = self._digest.offset - offset
        if known < view.nbytes:
            self._digest.update(view[max(0, known) :])


class _AgainstBase:
    """An encoder that knows the base once the receiver has accepted one, until it loses that."""

    def __init__(
        self, encoder: Encoder, stream: SendStream, bases: Bases, spec_digest: bytes
    ) -> None:
        self._encoder, self._stream = encoder, stream
        self._bases, self._spec_digest = bases, spec_digest
        self._base: Base | None = None
        self._is_chosen = False

    def encode(self, offset: int, payload: Payload, agreed: Sequence[str]) -> tuple[int, Payload]:
        """See ``Encoder.encode``."""
        if not self._is_chosen and self._stream.base:
            self._is_chosen = True
            self._base = self._bases.get(self._stream.base, self._spec_digest)
            self._encoder.base = None if self._base is None else self._base.read
        if not self._stream.base:  # none, or the receiver has lost it; this end's copy is sound
            self._base = self._encoder.base = None
        try:
            return self._encoder.encode(offset, payload, agreed)
        except StoreError as error:
            # A range without its base is a range as ever; the model need not fail with its cache.
            self.drop(str(error))
            return self._encoder.encode(offset, payload, agreed)

    def doubt(self, why: str) -> None:
        """Use the base no more with this receiver, whose digest of the model is another one."""
        if self._base is not None:
            self._bases.doubt(self._base, why)

    def drop(self, why: str) -> None:
        """Keep the base no longer, and send without it from now on."""
        if self._base is not None:
            self._bases.versions.drop(self._base.version, why)
        self._base = self._encoder.base = None


def _pages(spec: ModelSpec, config: LinkConfig) -> list[bytes]:
    tensors = ((tensor.name, tensor.dtype, tensor.shape) for tensor in spec.tensors)
    return encode_spec(tensors, min(SPEC_PAGE_BYTES, config.stream.chunk_bytes))
