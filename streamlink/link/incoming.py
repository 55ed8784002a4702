"""Pump → pieces → sink: the receiving direction. Runs in the caller's thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    CorruptStore,
    ModelError,
    SpecMismatch,
    StoreError,
    StoreFull,
    StreamAborted,
    StreamlinkError,
    code_of,
)
from streamlink.link.description import KnownSpecs, described
from streamlink.link.faults import abort_reason
from streamlink.link.outgoing import WAITING, Pulse, Receipt, Tell, ignore
from streamlink.link.pace import Pace
from streamlink.link.transfers import TransferNotice
from streamlink.model.digest import DigestBuilder
from streamlink.model.interfaces import (
    Lending,
    ModelSink,
    Payload,
    ResumableSink,
    is_prompt,
    lends,
)
from streamlink.model.ranges import Extent
from streamlink.model.spec import ModelSpec
from streamlink.protocol.events import Delivered, Event, Finished, Opened, SpecReceived
from streamlink.protocol.frames import NO_METRICS, Attempt, Chunk, Open, Update
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.stats import StreamStats
from streamlink.transport.receive_pump import ReceivePump

__all__ = ["IncomingModel", "KnownSpecs", "receive_model"]

logger = logging.getLogger("streamlink.transfer")

E = TypeVar("E", bound=Event)

SinkFor = Callable[["IncomingModel"], ModelSink]
"""Gives the sink for a model that was announced, or raises to refuse it."""

Resume = Callable[[bytes], ResumableSink | None]
"""Gives the sink that an interrupted transfer of the model with this spec digest has left."""


class IncomingModel:
    """A model on its way in: opened, read piece by piece in order, checked, committed.

    Every method that waits raises the stream's own error once it has failed. Only the tail from
    ``start`` on is wanted, where that is not 0; then the digest is that of the tail.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        peer: str,
        name: str,
        attempt: Attempt | None = None,
        known: KnownSpecs | None = None,
        start: int = 0,
        notice: TransferNotice | None = None,
    ) -> None:
        self.peer = peer
        self.start = start
        self.pump = ReceivePump(ReceiveStream(config, stream_id=stream_id, peer=peer, name=name))
        self.metrics: Mapping[str, float] = NO_METRICS
        self.is_complete = False
        self._notice = notice or TransferNotice(peer, "received", attempt)
        self._began_at = time.monotonic()
        self._belongs = attempt
        self._known = KnownSpecs() if known is None else known
        self.resumed_at = 0
        self._pace = Pace()
        self._opened: Open | None = None
        self._is_accepted = False
        self._spec: ModelSpec | None = None
        self._digest: DigestBuilder | None = None

    # --- what it is -------------------------------------------------------------------

    def announced(self, seconds: float | None = None) -> bool:
        """Wait until the model is announced: ``spec_digest``. False: not within ``seconds``.

        Raises:
            StreamAborted: the model belongs to another attempt; the peer has been told.
        """
        if self._opened is None:
            opened = self._wait_for(Opened, seconds)
            if opened is None:
                return False
            self._opened = opened.open
            self._check_attempt(opened.open.attempt)
        return True

    def accept_at(self, spec: ModelSpec, start: int) -> None:
        """Let the sender of what was announced begin at byte ``start``.

        What lies before is here already; ``recall`` has been given it.

        Raises:
            SpecMismatch: it is not the model that was announced.
        """
        assert self._opened is not None, "announced() comes first"
        self._require_announced(spec)
        self.resumed_at = start
        self._accept(spec, start)

    def open(self, seconds: float | None = None) -> bool:
        """Wait until the model is announced and described. False: not within ``seconds``.

        Raises:
            SpecMismatch: the description is not of what was announced; the peer has been told.
            StreamAborted: the model belongs to another attempt; the peer has been told.
        """
        if not self.announced(seconds):
            return False
        if not self._is_accepted:
            self._accept(self._known_spec(), self.start)
        if self._spec is None:
            pages = self._wait_for(SpecReceived, seconds)
            if pages is None:
                return False
            self._spec = self._described(pages.pages)
            self._known.add(self._spec)
        return True

    @property
    def spec_digest(self) -> bytes:
        """The digest of its spec; known once ``announced`` has returned True."""
        assert self._opened is not None, "announced() comes first"
        return self._opened.spec_digest

    @property
    def spec(self) -> ModelSpec:
        """The tensors; known once ``open`` has returned True."""
        assert self._spec is not None, "open() comes first"
        return self._spec

    @property
    def has_spec(self) -> bool:
        """Whether its tensors are known."""
        return self._spec is not None

    @property
    def update(self) -> Update:
        """What the sender said of it: its weight in a mean, and what kind of update it is."""
        assert self._opened is not None, "open() comes first"
        return self._opened.update

    @property
    def attempt(self) -> Attempt:
        """What the model belongs to."""
        assert self._opened is not None, "open() comes first"
        return self._opened.attempt

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return self.pump.stream.stats

    @property
    def error(self) -> StreamlinkError | None:
        """Why the stream failed, if it did."""
        return self.pump.stream.error

    # --- its bytes ----------------------------------------------------------------------

    def read(self, seconds: float = 60.0) -> tuple[int, Payload] | None:
        """Return the next (offset, payload), or None: not within ``seconds``, or ``is_complete``.

        Raises:
            ChecksumError: the whole model arrived and its digest is not the sender's.
        """
        chunk = self.read_chunk(seconds)
        return None if chunk is None else (chunk.offset, chunk.payload)

    def read_chunk(self, seconds: float = 60.0) -> Chunk | None:
        """Return the next bytes as ``read`` does, and whether they lie in their place already."""
        event = self.pump.next(seconds)
        if isinstance(event, Delivered):
            self._add_to_digest(event.chunk)
            return event.chunk
        self._hear(event)
        return None

    def lending(self, sink: ModelSink) -> AbstractContextManager[None]:
        """While it lasts, let what comes be read into the memory of ``sink``, if that lends it."""
        lender = lends(sink)
        return nullcontext() if lender is None else self.pump.lending(lender.lend)

    def fill(self, sink: ModelSink, tell: Tell) -> None:
        """Put all of it into ``sink``, which ``is_prompt``, from the thread that reads it.

        Raises:
            ChecksumError: the whole model arrived and its digest is not the sender's.
        """

        def take(chunk: Chunk) -> None:
            self._add_to_digest(chunk)
            _put(sink, chunk)
            tell("receiving", chunk.end)

        while not self.is_complete:
            self._hear(self.pump.fill(take))

    def _add_to_digest(self, chunk: Chunk) -> None:
        if self._digest is None:
            self._digest = self._new_digest()
        for view in chunk.payload:
            self._digest.update(view)

    def _hear(self, event: Event | None) -> None:
        if isinstance(event, Finished):
            self.metrics = event.metrics
            self._check_digest(event.digest)
            self.is_complete = True

    def recall(self, spec: ModelSpec, saved: Iterable[memoryview], tell: Tell = ignore) -> None:
        """Take the bytes that are here from before into the digest, before anything is accepted.

        The sender hears that it waits for that.

        Raises:
            CorruptStore: they are not what was written; nothing of them is in the digest.
            SpecMismatch: they are not of the model that was announced.
        """
        self._require_announced(spec)
        self._spec = spec  # who is told how far this is wants to say of how much
        pulse = Pulse(self.pump, "reading what came before")
        digest = DigestBuilder(spec)
        for view in saved:
            digest.update(view)
            pulse.beat()
            tell("checking", digest.offset)
        self._digest = digest

    @property
    def is_exhausted(self) -> bool:
        """Whether every byte has been read; what remains is its finish."""
        end = self.start if self._digest is None else self._digest.offset
        return self._spec is not None and end == self._spec.nbytes

    def release(self, nbytes: int) -> None:
        """Say that ``nbytes`` more are where they belong; the sender may send as many."""
        self.pump.release(nbytes)

    def mark_durable(self, durable: int) -> None:
        """Say that bytes below ``durable`` would survive this process."""
        with self.pump.locked() as (machine, _):
            machine.mark_durable(durable)
        logger.debug("%s: %d bytes are durable", self.pump.stream.name, durable)

    @property
    def digest(self) -> str:
        """The digest of all that was wanted, hexadecimal; known once it ``is_complete``."""
        return (self._digest or self._new_digest()).hexdigest()

    def _new_digest(self) -> DigestBuilder:
        return DigestBuilder(self.spec, extent=Extent(self.start, self.spec.nbytes))

    # --- how it ends ----------------------------------------------------------------------

    def committing(self) -> None:
        """Say that making it whole goes on."""
        if self._pace.is_due():
            self.pump.committing()

    def commit(self) -> Receipt:
        """Tell the sender that its model is here, whole."""
        self.pump.commit(self.digest)
        return self.receipt()

    def receipt(self) -> Receipt:
        """Return what it was, and what it took."""
        seconds = time.monotonic() - self._began_at
        self._notice.done(self.stats, self.digest, start=self._first)
        return Receipt(self.digest, seconds, self.stats, self.metrics, self.resumed_at)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Say that this end waits for somebody else."""
        self.pump.hold(reason, waiting_for)

    def wait_for(self, name: str) -> None:
        """Note, without a word to the sender, whom this end waits for; empty: nobody."""
        self.pump.stream.waits_for = name

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the stream and tell the peer why."""
        self.pump.abort(code, reason)
        if self.error is not None:
            self._notice.failed(self.stats, self.error, start=self._first)

    # --- small parts ------------------------------------------------------------------------

    @property
    def _first(self) -> int:
        """The first byte that travels: those below are here already, or are not needed."""
        return max(self.start, self.resumed_at)

    def _wait_for(self, kind: type[E], seconds: float | None) -> E | None:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = 60.0 if until is None else until - time.monotonic()
            if left <= 0:
                return None
            event = self.pump.next(left)
            if isinstance(event, kind):
                return event

    def _accept(self, spec: ModelSpec | None, start: int = 0) -> None:
        self._is_accepted = True
        self._spec = spec
        with self.pump.locked() as (machine, now):
            if not machine.is_closed:  # else the next wait says why
                machine.accept(wants_spec=spec is None, start=start, now=now)

    def _check_attempt(self, sent: Attempt) -> None:
        if self._belongs is not None and sent != self._belongs:
            reason = f"{self.peer} sent a model of {sent}; this is {self._belongs}"
            self.abort(AbortCode.STALE_ATTEMPT, reason)
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False)

    def _known_spec(self) -> ModelSpec | None:
        """Return the spec of what was announced, where it was described before."""
        spec = self._known.get(self.spec_digest)
        if spec is not None:
            try:
                self._require_announced(spec)
            except SpecMismatch as error:
                self.abort(AbortCode.SPEC_MISMATCH, str(error))
                raise
        return spec

    def _described(self, pages: tuple[bytes, ...]) -> ModelSpec:
        try:
            spec = described(pages, self.pump.stream.config.limits)
            self._require_announced(spec)
        except StreamlinkError as error:
            self.abort(AbortCode.SPEC_MISMATCH, str(error))
            raise
        return spec

    def _require_announced(self, spec: ModelSpec) -> None:
        assert self._opened is not None
        if spec.digest != self._opened.spec_digest or spec.nbytes != self._opened.total_bytes:
            raise SpecMismatch(
                f"{self.peer} described a model of {spec.nbytes} bytes that is not the one of "
                f"{self._opened.total_bytes} bytes it announced"
            )

    def _check_digest(self, sent: str) -> None:
        if self.digest != sent:
            raise ChecksumError(
                f"the model that arrived from {self.peer} has digest {self.digest}, the one sent "
                f"{sent}: its source changed under the transfer, or memory is faulty",
                stream_id=self.pump.stream.stream_id,
                code=AbortCode.DIGEST_MISMATCH,
            )


def receive_model(
    model: IncomingModel, sink_for: SinkFor, resume: Resume | None = None, tell: Tell = ignore
) -> Receipt:
    """Receive one model into the sink that ``sink_for`` gives, and commit it.

    Args:
        model: what comes.
        sink_for: see ``SinkFor``.
        resume: where interrupted transfers go on. With it a sender that leaves after the last byte,
            before it heard of the commit, does not count as a failure: the model is here.
        tell: told how far it is.

    Raises:
        StreamlinkError: the stream failed, or the sink could not take it; nothing of it is visible.
    """
    sink: ModelSink | None = None

    def told_waiting() -> None:
        if model.has_spec:  # else nobody can say of how much
            tell(WAITING, model.pump.stream.taken)

    model.pump.on_waiting = told_waiting
    try:
        if resume is not None:
            sink = _resumed(model, resume, tell)
        if sink is None:
            model.open()
            sink = sink_for(model)
        with model.lending(sink):
            _fill(model, sink, tell)
        sink.commit(lambda _: model.committing())
    except BaseException as error:
        model.abort(code_of(error), abort_reason(error))
        if sink is not None:
            _leave(model, sink, error)
        raise
    return model.commit() if resume is None else _committed(model)


def _resumed(model: IncomingModel, resume: Resume, tell: Tell) -> ModelSink | None:
    """Go on where an interrupted transfer of this model stopped, if there is one undamaged."""
    model.announced()
    sink = resume(model.spec_digest)
    if sink is None:
        return None
    try:
        # First the check, then the word: where what is here is damaged, all of it can still come.
        model.recall(sink.spec, sink.saved(), tell)
        model.accept_at(sink.spec, sink.durable)
    except CorruptStore as error:
        logger.warning("what came before is damaged, so the transfer begins again: %s", error)
        sink.discard()
        return None
    except BaseException as error:
        _leave(model, sink, error)
        raise
    return sink


def _fill(model: IncomingModel, sink: ModelSink, tell: Tell) -> None:
    if is_prompt(sink):
        model.fill(sink, tell)
        return
    keeper = sink if isinstance(sink, ResumableSink) else None
    durable = model.resumed_at
    while not model.is_complete:
        chunk = model.read_chunk()
        if chunk is None:
            continue
        _put(sink, chunk)
        model.release(chunk.nbytes)
        if keeper is not None and keeper.durable > durable:
            durable = keeper.durable
            model.mark_durable(durable)
        tell("receiving", chunk.end)


def _put(sink: ModelSink, chunk: Chunk) -> None:
    """Write a chunk into the sink, or tell the sink that it lies there."""
    if chunk.is_in_place:
        assert isinstance(sink, Lending)
        sink.filled(chunk.offset, chunk.nbytes)
        return
    offset = chunk.offset
    for view in chunk.payload:
        sink.write(offset, view)
        offset += view.nbytes


def _leave(model: IncomingModel, sink: ModelSink, error: BaseException) -> None:
    """Keep what came for another time where that is possible and the bytes are not to blame."""
    is_wrong = (
        isinstance(error, ModelError)
        or (isinstance(error, ChecksumError) and model.is_exhausted)
        or (isinstance(error, StreamAborted) and error.code is AbortCode.SOURCE_CHANGED)
    )
    is_broken = isinstance(error, StoreError) and not isinstance(error, StoreFull)
    if isinstance(sink, ResumableSink) and not (is_wrong or is_broken):
        sink.suspend()
    else:
        sink.discard()


def _committed(model: IncomingModel) -> Receipt:
    try:
        return model.commit()
    except StreamlinkError as error:
        logger.warning("the model is whole, but its sender may not know: %s", error)
        return model.receipt()
