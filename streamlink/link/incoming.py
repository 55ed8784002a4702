"""Pump → pieces → sink: the receiving direction. Runs in the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    SpecMismatch,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.faults import abort_code
from streamlink.link.outgoing import Receipt
from streamlink.model.digest import DigestBuilder
from streamlink.model.interfaces import ModelSink, Payload
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol.events import Delivered, Event, Finished, Opened, SpecReceived
from streamlink.protocol.frames import NO_METRICS, Attempt, Open, Update
from streamlink.protocol.machine import StreamStats
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.messages import decode_spec
from streamlink.transport.pump import ReceivePump

__all__ = ["IncomingModel", "KnownSpecs", "receive_model"]

E = TypeVar("E", bound=Event)

SinkFor = Callable[["IncomingModel"], ModelSink]
"""Gives the sink for a model that was announced, or raises to refuse it."""


class KnownSpecs:
    """Descriptions seen before, by digest, so that each travels once. Keeps the last few."""

    LIMIT = 8

    def __init__(self) -> None:
        self._specs: dict[bytes, ModelSpec] = {}

    def add(self, spec: ModelSpec) -> None:
        """Remember ``spec``."""
        self._specs.pop(spec.digest, None)
        self._specs[spec.digest] = spec
        while len(self._specs) > self.LIMIT:
            del self._specs[next(iter(self._specs))]

    def get(self, digest: bytes) -> ModelSpec | None:
        """Return the description of that digest, if it is known."""
        return self._specs.get(digest)


class IncomingModel:
    """A model on its way in: opened, read piece by piece in order, checked, committed.

    Every method that waits raises the stream's own error once it has failed.
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
    ) -> None:
        self.peer = peer
        self.pump = ReceivePump(ReceiveStream(config, stream_id=stream_id, peer=peer, name=name))
        self.metrics: Mapping[str, float] = NO_METRICS
        self.is_complete = False
        self.began_at = time.monotonic()
        self._belongs = attempt
        self._known = known or KnownSpecs()
        self._opened: Open | None = None
        self._spec: ModelSpec | None = None
        self._digest: DigestBuilder | None = None

    # --- what it is -------------------------------------------------------------------

    def open(self, seconds: float | None = None) -> bool:
        """Wait until the model is announced and described. False: not within ``seconds``.

        Raises:
            SpecMismatch: the description is not of what was announced; the peer has been told.
            StreamAborted: the model belongs to another attempt; the peer has been told.
        """
        if self._opened is None:
            opened = self._wait_for(Opened, seconds)
            if opened is None:
                return False
            self._opened = opened.open
            self._check_attempt(opened.open.attempt)
            self._spec = self._known.get(opened.open.spec_digest)
            self.pump.accept(wants_spec=self._spec is None)
        if self._spec is None:
            pages = self._wait_for(SpecReceived, seconds)
            if pages is None:
                return False
            self._spec = self._described(pages.pages)
            self._known.add(self._spec)
        return True

    @property
    def spec(self) -> ModelSpec:
        """The tensors; known once ``open`` has returned True."""
        assert self._spec is not None, "open() comes first"
        return self._spec

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
        event = self.pump.next(seconds)
        if isinstance(event, Delivered):
            if self._digest is None:
                self._digest = DigestBuilder(self.spec)
            for view in event.payload:
                self._digest.update(view)
            return event.offset, event.payload
        if isinstance(event, Finished):
            self.metrics = event.metrics
            self._check_digest(event.digest)
            self.is_complete = True
        return None

    @property
    def is_exhausted(self) -> bool:
        """Whether every byte has been read; what remains is its finish."""
        return self._digest is not None and self._digest.offset == self.spec.nbytes

    def release(self, nbytes: int) -> None:
        """Say that ``nbytes`` more are where they belong; the sender may send as many."""
        self.pump.release(nbytes)

    @property
    def digest(self) -> str:
        """The digest of the whole model, hexadecimal; known once it ``is_complete``."""
        return (self._digest or DigestBuilder(self.spec)).hexdigest()

    # --- how it ends ----------------------------------------------------------------------

    def committing(self) -> None:
        """Say that making it whole goes on."""
        self.pump.committing()

    def commit(self) -> Receipt:
        """Tell the sender that its model is here, whole."""
        self.pump.commit(self.digest)
        return Receipt(self.digest, time.monotonic() - self.began_at, self.stats, self.metrics)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Say that this end waits for somebody else."""
        self.pump.hold(reason, waiting_for)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the stream and tell the peer why."""
        self.pump.abort(code, reason)

    # --- small parts ------------------------------------------------------------------------

    def _wait_for(self, kind: type[E], seconds: float | None) -> E | None:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = 60.0 if until is None else until - time.monotonic()
            if left <= 0:
                return None
            event = self.pump.next(left)
            if isinstance(event, kind):
                return event

    def _check_attempt(self, sent: Attempt) -> None:
        if self._belongs is not None and sent != self._belongs:
            reason = f"{self.peer} sent a model of {sent}; this is {self._belongs}"
            self.abort(AbortCode.STALE_ATTEMPT, reason)
            raise StreamAborted(AbortCode.STALE_ATTEMPT, reason, by_peer=False)

    def _described(self, pages: tuple[bytes, ...]) -> ModelSpec:
        assert self._opened is not None
        try:
            spec = ModelSpec(tuple(TensorSpec(*entry) for entry in decode_spec(pages)))
            if spec.digest != self._opened.spec_digest or spec.nbytes != self._opened.total_bytes:
                raise SpecMismatch(
                    f"{self.peer} described a model of {spec.nbytes} bytes that is not the one of "
                    f"{self._opened.total_bytes} bytes it announced"
                )
        except StreamlinkError as error:
            self.abort(AbortCode.SPEC_MISMATCH, str(error))
            raise
        return spec

    def _check_digest(self, sent: str) -> None:
        if self.digest != sent:
            raise ChecksumError(
                f"the model that arrived from {self.peer} has digest {self.digest}, the one sent "
                f"{sent}: its source changed under the transfer, or memory is faulty",
                stream_id=self.pump.stream.stream_id,
            )


def receive_model(model: IncomingModel, sink_for: SinkFor) -> Receipt:
    """Receive one model into the sink that ``sink_for`` gives, and commit it.

    Raises:
        StreamlinkError: the stream failed, or the sink could not take it; nothing of it is visible.
    """
    sink: ModelSink | None = None
    try:
        model.open()
        sink = sink_for(model)
        _fill(model, sink)
        sink.commit(lambda _: model.committing())
        return model.commit()
    except BaseException as error:
        model.abort(abort_code(error), str(error))
        if sink is not None:
            sink.discard()
        raise


def _fill(model: IncomingModel, sink: ModelSink) -> None:
    while not model.is_complete:
        piece = model.read()
        if piece is None:
            continue
        offset, taken = piece[0], 0
        for view in piece[1]:
            sink.write(offset + taken, view)
            taken += view.nbytes
        model.release(taken)
