"""``ReceiveTransfer`` → sink: receives a model, and commits it, or keeps or discards a part."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    CorruptStore,
    ModelError,
    StoreError,
    StoreFull,
    StreamAborted,
    StreamlinkError,
    code_of,
)
from streamlink.link.receive_transfer import ReceiveTransfer, put_chunk
from streamlink.link.transfer import WAITING, OnPhase, Receipt, abort_reason, ignore
from streamlink.model.interfaces import ModelSink, ResumableSink, is_prompt

__all__ = ["Resume", "SinkFor", "receive_model"]

logger = logging.getLogger("streamlink.transfer")

SinkFor = Callable[[ReceiveTransfer], ModelSink]
"""Returns the sink for an announced model, or raises to refuse it."""

Resume = Callable[[bytes], ResumableSink | None]
"""Returns the sink that an interrupted transfer of the model with this spec digest has left."""


def receive_model(
    transfer: ReceiveTransfer,
    sink_for: SinkFor,
    resume: Resume | None = None,
    on_phase: OnPhase = ignore,
    digest: str = "",
) -> Receipt:
    """Receive one model into the sink that ``sink_for`` gives, and commit it.

    Args:
        transfer: the model that arrives.
        sink_for: see ``SinkFor``.
        resume: finds the sink of an interrupted transfer. With it, a sender that leaves after its
            last byte and before it gets the commit is no failure: the model has arrived.
        on_phase: called with how far it is.
        digest: what the model has to have, hexadecimal; empty: whatever the sender computes.

    Raises:
        ChecksumError: the sender's model has another digest than ``digest``.
        Cancelled: the token of this end was cancelled; see where the transfer is from.
        StreamlinkError: the stream failed, or the sink could not take it; none of it is visible.
    """
    sink: ModelSink | None = None

    def report_waiting() -> None:
        if transfer.has_spec:  # else the total is not known yet
            on_phase(WAITING, transfer.consumed_bytes)

    transfer.when_waiting(report_waiting)
    try:
        if resume is not None:
            sink = _resumed(transfer, resume, on_phase)
        if sink is None:
            transfer.open()
            sink = sink_for(transfer)
        with transfer.lending(sink):
            _fill(transfer, sink, on_phase)
        _require_digest(transfer, digest)
        # After the block: no carrier's reader may write into memory that is being committed.
        sink.commit(lambda _: transfer.committing())
    except BaseException as error:
        # First, so that the sender hears the cause even where the sink cannot be cleaned up.
        transfer.abort(code_of(error), abort_reason(error))
        if sink is not None:
            _leave(transfer, sink, error)
        raise
    return transfer.commit() if resume is None else _committed(transfer)


def _resumed(transfer: ReceiveTransfer, resume: Resume, on_phase: OnPhase) -> ModelSink | None:
    """Resume where an interrupted transfer of this model stopped, if its bytes are undamaged."""
    transfer.wait_announced()
    sink = resume(transfer.spec_digest)
    if sink is None:
        return None
    try:
        # Check before accepting: if the kept bytes are damaged, the sender can still send them all.
        transfer.recall(sink.spec, sink.saved(), on_phase)
        transfer.accept_at(sink.spec, sink.durable)
    except CorruptStore as error:
        logger.warning(
            "the partial model is damaged, so the transfer starts from the beginning: %s", error
        )
        sink.discard()
        return None
    except BaseException as error:
        _leave(transfer, sink, error)
        raise
    return sink


def _fill(transfer: ReceiveTransfer, sink: ModelSink, on_phase: OnPhase) -> None:
    # A sink that never waits is filled by the carrier's reader: that saves a hand-over per chunk. A
    # reader that waited for a disk would look like a receiver that does not acknowledge.
    if is_prompt(sink):
        transfer.fill(sink, on_phase)
        return
    keeper = sink if isinstance(sink, ResumableSink) else None
    durable = transfer.resumed_at
    while not transfer.is_complete:
        chunk = transfer.read_chunk()
        if chunk is None:
            continue
        put_chunk(sink, chunk)
        transfer.release(chunk.nbytes)
        # Only where it has grown: each report makes an ack due.
        if keeper is not None and keeper.durable > durable:
            durable = keeper.durable
            transfer.mark_durable(durable)
        on_phase("receiving", chunk.end)


def _require_digest(transfer: ReceiveTransfer, digest: str) -> None:
    if digest and transfer.digest != digest:
        raise ChecksumError(
            f"the model from {transfer.peer_name} has digest {transfer.digest}, and {digest} was "
            "promised: it was changed since",
            stream_id=transfer.stream_id,
            code=AbortCode.DIGEST_MISMATCH,
        )


def _leave(transfer: ReceiveTransfer, sink: ModelSink, error: BaseException) -> None:
    """Keep what has arrived for another try, if the sink can and the bytes are not the cause."""
    # A checksum error before the last byte is about the link, not about what is stored.
    is_wrong = (
        isinstance(error, ModelError)
        or (isinstance(error, ChecksumError) and transfer.is_exhausted)
        or (isinstance(error, StreamAborted) and error.code is AbortCode.SOURCE_CHANGED)
    )
    # A full disk has damaged nothing: another try may resume once there is room.
    is_broken = isinstance(error, StoreError) and not isinstance(error, StoreFull)
    if isinstance(sink, ResumableSink) and not (is_wrong or is_broken):
        sink.suspend()
    else:
        sink.discard()


def _committed(transfer: ReceiveTransfer) -> Receipt:
    try:
        return transfer.commit()
    except StreamlinkError as error:
        logger.warning("the model is committed, but its sender may not know: %s", error)
        return transfer.receipt()
