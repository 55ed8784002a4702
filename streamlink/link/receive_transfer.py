"""Pump → chunks: the receiving direction of one model.

Its owner calls it. Where the sink never waits, digest and write run in the reader of a call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar, cast

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.encodings.stream import Decoder
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    SpecMismatch,
    StoreError,
    StreamAborted,
    StreamlinkError,
)
from streamlink.extent import Extent
from streamlink.link.bases import Base, Bases
from streamlink.link.description import KnownSpecs, described
from streamlink.link.throttle import Throttle
from streamlink.link.transfer import OnPhase, Receipt, Transfer, ignore
from streamlink.link.transfer_facts import TransferNotice
from streamlink.model.digest import DigestBuilder
from streamlink.model.interfaces import Lending, ModelSink, Payload, lends
from streamlink.model.spec import ModelSpec
from streamlink.protocol.events import Delivered, Event, Finished, Opened, SpecReceived
from streamlink.protocol.frames import NO_METRICS, Attempt, Chunk, Open, Update
from streamlink.protocol.receiver import ReceiveStream
from streamlink.stores.versions import VersionWriter
from streamlink.transport.receive_pump import ReceivePump

__all__ = ["KnownSpecs", "ReceiveTransfer", "put_chunk"]

logger = logging.getLogger("streamlink.transfer")

E = TypeVar("E", bound=Event)


class ReceiveTransfer(Transfer[ReceivePump]):
    """A model that arrives: announced, read chunk by chunk in order, verified, committed.

    Every method that waits raises the stream's own error once it has failed: ``Cancelled``, where a
    token of this end has ended it. Only ``extent`` of the model is wanted, where one is given; then
    the digest is that of the extent. ``bases`` has the kept versions that chunks may be differences
    from. With ``keeps`` this model becomes one of them, if its sender keeps it, too.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        clock: Clock,
        stream_id: int,
        peer_name: str,
        name: str,
        attempt: Attempt | None = None,
        known: KnownSpecs | None = None,
        extent: Extent | None = None,
        bases: Bases | None = None,
        keeps: bool = False,
        notice: TransferNotice | None = None,
    ) -> None:
        self._spec: ModelSpec | None = None
        self._decoder = Decoder(peer_name=peer_name, stream_id=stream_id)
        stream = ReceiveStream(
            config,
            stream_id=stream_id,
            peer_name=peer_name,
            name=name,
            encodings=self._decoder.names,
        )
        notice = notice or TransferNotice(peer_name, "received", attempt, clock=clock)
        super().__init__(ReceivePump(stream, clock=clock, decode=self._decode), notice)
        self.peer_name = peer_name
        self.metrics: Mapping[str, float] = NO_METRICS
        self.is_complete = False
        self._belongs = attempt
        self._wanted = extent
        self._known = KnownSpecs() if known is None else known
        self._throttle = Throttle(clock)
        self._opened: Open | None = None
        self._is_accepted = False
        self._digest: DigestBuilder | None = None
        self._bases, self._keeps = bases, keeps
        self._base: Base | None = None
        self._kept: VersionWriter | None = None

    # --- what it is -------------------------------------------------------------------

    def wait_announced(self, seconds: float | None = None) -> bool:
        """Wait until the model is announced (``spec_digest``); False: not within ``seconds``.

        Raises:
            Cancelled: a token of this end was cancelled.
            SpecMismatch: another extent of it is announced than wanted; the stream is aborted.
            StreamAborted: the model belongs to another attempt; the stream is aborted.
        """
        if self._opened is None:
            opened = self._wait_for(Opened, seconds)
            if opened is None:
                return False
            self._opened = opened.open
            self._check_attempt(opened.open.attempt)
            self._check_extent(opened.open)
        return True

    def accept_at(self, spec: ModelSpec, start: int) -> None:
        """Let the sender of what was announced begin at byte ``start``, inside of its extent.

        This end has the extent's bytes before it; call ``recall`` with them first.

        Raises:
            SpecMismatch: ``spec`` is not that of the announced model.
        """
        assert self._opened is not None, "wait_announced() comes first"
        self._require_announced(spec)
        self.resumed_at = start
        self._accept(spec, start)

    def open(self, seconds: float | None = None) -> bool:
        """Wait until the model is announced and described. False: not within ``seconds``.

        Raises:
            Cancelled: a token of this end was cancelled.
            SpecMismatch: the description is not that of the announced model; the stream is aborted.
            StreamAborted: the model belongs to another attempt; the stream is aborted.
        """
        if not self.wait_announced(seconds):
            return False
        if not self._is_accepted:
            self._accept(self._known_spec())
        if self._spec is None:
            pages = self._wait_for(SpecReceived, seconds)
            if pages is None:
                return False
            self._spec = self._decoder.spec = self._described(pages.pages)
            self._known.add(self._spec)
        return True

    @property
    def is_announced(self) -> bool:
        """Whether the sender has announced its model; does not wait."""
        return self._pump.stream.opened is not None

    def on_news(self, act: Callable[[], None] | None) -> None:
        """Have ``act`` called whenever the stream has news for its owner; its end is news, too.

        At once for what has come before. It must not wait. None: nothing is called any more.
        """
        self._pump.on_event = act
        if act is not None and (self.is_announced or self._pump.is_closed):
            act()

    @property
    def spec_digest(self) -> bytes:
        """The digest of the model's spec; known once ``wait_announced`` has returned True."""
        assert self._opened is not None, "wait_announced() comes first"
        return self._opened.spec_digest

    @property
    def spec(self) -> ModelSpec:
        """The tensors; known once ``open`` has returned True."""
        assert self._spec is not None, "open() comes first"
        return self._spec

    @property
    def extent(self) -> Extent:
        """The bytes of the model that come; known once ``wait_announced`` has returned True."""
        assert self._opened is not None, "wait_announced() comes first"
        return self._opened.brings

    @property
    def is_rest(self) -> bool:
        """Whether only the rest of the model is wanted: its beginning arrived before."""
        return self._wanted is not None and self._wanted.start > 0

    @property
    def has_spec(self) -> bool:
        """Whether its tensors are known."""
        return self._spec is not None

    @property
    def update(self) -> Update:
        """What the sender announced with it: its weight in a mean, and its kind of update."""
        assert self._opened is not None, "open() comes first"
        return self._opened.update

    @property
    def attempt(self) -> Attempt:
        """The job, round and attempt that the model belongs to."""
        assert self._opened is not None, "open() comes first"
        return self._opened.attempt

    # --- its bytes ----------------------------------------------------------------------

    def read(self, seconds: float = 60.0) -> tuple[int, Payload] | None:
        """Return the next (offset, payload), or None: not within ``seconds``, or ``is_complete``.

        Raises:
            Cancelled: a token of this end was cancelled.
            ChecksumError: the whole model arrived and its digest is not the sender's.
        """
        chunk = self.read_chunk(seconds)
        return None if chunk is None else (chunk.offset, chunk.payload)

    def read_chunk(self, seconds: float = 60.0) -> Chunk | None:
        """Return the next chunk; unlike ``read`` it says whether the bytes are in place already.

        Raises:
            Cancelled: a token of this end was cancelled.
            ChecksumError: the whole model arrived and its digest is not the sender's.
        """
        event = self._pump.next(seconds)
        if isinstance(event, Delivered):
            self._add_to_digest(event.chunk)
            return event.chunk
        self._hear(event)
        return None

    def lending(self, sink: ModelSink) -> AbstractContextManager[None]:
        """In this context, payloads are read straight into memory that ``sink`` lends, if any."""
        lender = lends(sink)
        return nullcontext() if lender is None else self._pump.lending(lender.lend)

    def fill(self, sink: ModelSink, on_phase: OnPhase) -> None:
        """Write the whole extent to ``sink``, which ``is_prompt``, in the carrier's reader thread.

        Raises:
            Cancelled: a token of this end was cancelled.
            ChecksumError: the whole model arrived and its digest is not the sender's.
        """

        def take(chunk: Chunk) -> None:
            self._add_to_digest(chunk)
            put_chunk(sink, chunk)
            on_phase("receiving", chunk.end)

        while not self.is_complete:
            # Any other event, such as *held*, ends ``fill`` early. What arrives until the next turn
            # waits in the stream, whose window bounds it.
            self._hear(self._pump.fill(take))

    def _add_to_digest(self, chunk: Chunk) -> None:
        if self._digest is None:
            self._digest = self._new_digest()
        # Hashed already, when it arrived; else again: it does not consist of whole blocks.
        if not self._digest.update_hashed(chunk.nbytes, chunk.hashes):
            for view in chunk.payload:
                self._digest.update(view)
        if self._kept is not None:
            for view in chunk.payload:
                self._kept.add(view)

    def _hear(self, event: Event | None) -> None:
        if isinstance(event, Finished):
            self.metrics = event.metrics
            self._check_digest(event.digest)
            if self._kept is not None:
                self._kept.commit(event.digest)
            self.is_complete = True

    def recall(
        self, spec: ModelSpec, saved: Iterable[memoryview], on_phase: OnPhase = ignore
    ) -> None:
        """Add the bytes from an interrupted transfer to the digest, before anything is accepted.

        Meanwhile the sender is sent *held*, so that no deadline of its expires.

        Raises:
            Cancelled: a token of this end was cancelled.
            CorruptStore: they have changed since they were written; the digest is as before.
            SpecMismatch: they belong to another model than the announced one.
        """
        self._require_announced(spec)
        self._spec = self._decoder.spec = spec  # before ``on_phase``, which reports it of the total
        pulse = self.pulse("reading what came before")
        # Noted only when all was read: damaged bytes leave no trace, and the transfer begins at 0.
        digest, kept = self._new_digest(), self._begin_keeping()
        for view in saved:
            digest.update(view)
            if kept is not None:
                kept.add(view)
            pulse.beat()
            on_phase("checking", digest.offset)
        self._digest, self._kept = digest, kept

    @property
    def is_exhausted(self) -> bool:
        """Whether every byte has been read; only the finish is missing."""
        if self._spec is None:
            return False
        end = self.extent.start if self._digest is None else self._digest.offset
        return end == self.extent.stop

    def release(self, nbytes: int) -> None:
        """Return the credit of ``nbytes`` that the sink has; the sender may send as many more."""
        self._pump.release(nbytes)

    @property
    def consumed_bytes(self) -> int:
        """All bytes below were read and released."""
        return self._pump.stream.consumed

    def mark_durable(self, durable: int) -> None:
        """Report to the sender that bytes below ``durable`` would survive this process."""
        with self._pump.locked() as (machine, _):
            machine.mark_durable(durable)
        logger.debug("%s: %d bytes are durable", self._pump.stream.name, durable)

    @property
    def digest(self) -> str:
        """The digest of the extent, hexadecimal; known once it ``is_complete``."""
        # A model without bytes has no chunk, and yet a digest.
        return (self._digest or self._new_digest()).hexdigest()

    def _new_digest(self) -> DigestBuilder:
        return DigestBuilder(self.spec, extent=self.extent)

    # --- how it ends ----------------------------------------------------------------------

    def committing(self) -> None:
        """Report to the sender that the commit makes progress."""
        # A commit has a step for each shard and block: a frame for each would look like a flood.
        if self._throttle.is_due():
            self._pump.committing()

    def commit(self) -> Receipt:
        """Report to the sender that its model is committed; returns the receipt."""
        self._pump.commit(self.digest)
        return self.receipt()

    def receipt(self) -> Receipt:
        """Return the receipt of a transfer whose model is committed."""
        return self._done(self.digest, self.metrics)

    @property
    def is_committed(self) -> bool:
        """Whether this end has committed the model, even if the sender does not know it yet."""
        return self._pump.stream.is_committed

    def wait_for(self, name: str) -> None:
        """Note, for this end's statistics only, whom it waits for; empty: nobody."""
        # Without the lock: one assignment, and for statistics alone.
        self._pump.stream.waits_for = name

    # --- small parts ------------------------------------------------------------------------

    def _wait_for(self, kind: type[E], seconds: float | None) -> E | None:
        until = None if seconds is None else self.clock() + seconds
        while True:
            # Without a limit of its own: the deadlines of the machine end this wait.
            left = 60.0 if until is None else until - self.clock()
            if left <= 0:
                return None
            event = self._pump.next(left)
            # Other events, such as *held*, change nothing before the model is known.
            if isinstance(event, kind):
                return event

    def _accept(self, spec: ModelSpec | None, start: int | None = None) -> None:
        self._is_accepted = True
        self._spec = self._decoder.spec = spec
        if self._kept is None:
            self._kept = self._begin_keeping()
        digest = self._choose_base()
        with self._pump.locked() as (machine, now):
            if not machine.is_closed:  # else the next wait raises the reason
                machine.accept(wants_spec=spec is None, start=start, base=digest, now=now)

    def _begin_keeping(self) -> VersionWriter | None:
        """Begin to keep what comes, if both ends keep it, and all of it comes to this process."""
        assert self._opened is not None
        is_whole = self.extent == Extent(0, self._opened.total_bytes)
        is_wanted = self._keeps and self._opened.is_kept and is_whole
        if self._bases is None or not is_wanted:
            return None
        return self._bases.begin(self.spec_digest, self._opened.total_bytes)

    def _choose_base(self) -> str:
        """Let chunks be decoded with a version that both ends have; returns its digest, or none."""
        assert self._opened is not None
        if self._bases is None or not self._opened.bases:
            return ""
        self._base = self._bases.first_of(self._opened.bases, self.spec_digest)
        if self._base is None:
            return ""
        self._decoder.base = self._base.read
        return self._base.version.digest

    def _decode(
        self, number: int, offset: int, nbytes: int, payload: Payload, agreed: Sequence[str]
    ) -> Payload | None:
        """See ``Decode`` of the pump."""
        try:
            return self._decoder.decode(number, offset, nbytes, payload, agreed)
        except StoreError as error:
            if self._base is None or self._bases is None:
                raise
            # A cache costs only time. Dropped, or the next transfer would choose it again.
            self._bases.versions.drop(self._base.version, str(error))
            self._base = self._decoder.base = None
            return None

    def _check_attempt(self, sent: Attempt) -> None:
        if self._belongs is not None and sent != self._belongs:
            reason = f"{self.peer_name} sent a model of {sent}; this is {self._belongs}"
            self.abort(AbortCode.STALE_ATTEMPT, reason)
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False)

    def _check_extent(self, sent: Open) -> None:
        wanted = self._wanted or Extent(0, sent.total_bytes)
        # A client whose task failed announces an empty model instead of its update. Its tensors are
        # compared later, and that error says more than a wrong extent.
        if sent.brings != wanted and sent.total_bytes:
            reason = (
                f"{self.peer_name} announced bytes {sent.brings} of a model of {sent.total_bytes}; "
                f"{wanted} are wanted"
            )
            self.abort(AbortCode.SPEC_MISMATCH, reason)
            raise SpecMismatch(reason)

    def _known_spec(self) -> ModelSpec | None:
        """Return the announced spec, if an earlier transfer has described it."""
        spec = self._known.get(self.spec_digest)
        # Its digest is the announced one; the announced size may still be another.
        if spec is not None:
            try:
                self._require_announced(spec)
            except SpecMismatch as error:
                self.abort(AbortCode.SPEC_MISMATCH, str(error))
                raise
        return spec

    def _described(self, pages: tuple[bytes, ...]) -> ModelSpec:
        try:
            spec = described(pages, self._pump.stream.config.limits)
            self._require_announced(spec)
        except StreamlinkError as error:
            self.abort(AbortCode.SPEC_MISMATCH, str(error))
            raise
        return spec

    def _require_announced(self, spec: ModelSpec) -> None:
        assert self._opened is not None
        if spec.digest != self._opened.spec_digest or spec.nbytes != self._opened.total_bytes:
            raise SpecMismatch(
                f"{self.peer_name} described a model of {spec.nbytes} bytes that is not the one of "
                f"{self._opened.total_bytes} bytes it announced"
            )

    def _check_digest(self, sent: str) -> None:
        if self.digest != sent:
            causes = "its source changed under the transfer, or memory is faulty"
            if self._base is not None and self._bases is not None:
                # Whichever end's copy it is, the next transfer goes without it.
                causes += ", or a version that it was a difference from was changed on a disk"
                self._bases.doubt(self._base, "what was decoded with it is wrong")
            raise ChecksumError(
                f"the model that arrived from {self.peer_name} has digest {self.digest}, the one "
                f"sent {sent}: {causes}",
                stream_id=self._pump.stream.stream_id,
                code=AbortCode.DIGEST_MISMATCH,
            )


def put_chunk(sink: ModelSink, chunk: Chunk) -> None:
    """Write a chunk to the sink, or notify the sink that it was read into its memory."""
    if chunk.is_in_place:
        # Only a sink that lends has chunks in place. A cast, since Python 3.11 walks all attributes
        # of a protocol for each ``isinstance``: here once for each chunk, in the carrier's reader.
        cast("Lending", sink).filled(chunk.offset, chunk.nbytes)
        return
    offset = chunk.offset
    for view in chunk.payload:
        sink.write(offset, view)
        offset += view.nbytes
