"""``ReceiveTransfer`` → sink: receives the whole of a model, and commits or keeps what came."""

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
from streamlink.link.transfer import WAITING, Receipt, Tell, abort_reason, ignore
from streamlink.model.interfaces import ModelSink, ResumableSink, is_prompt

__all__ = ["Resume", "SinkFor", "receive_model"]

logger = logging.getLogger("streamlink.transfer")

SinkFor = Callable[[ReceiveTransfer], ModelSink]
"""Gives the sink for a model that was announced, or raises to refuse it."""

Resume = Callable[[bytes], ResumableSink | None]
"""Gives the sink that an interrupted transfer of the model with this spec digest has left."""


def receive_model(
    transfer: ReceiveTransfer, sink_for: SinkFor, resume: Resume | None = None, tell: Tell = ignore
) -> Receipt:
    """Receive one model into the sink that ``sink_for`` gives, and commit it.

    Args:
        transfer: what comes.
        sink_for: see ``SinkFor``.
        resume: where interrupted transfers go on. With it a sender that leaves after the last byte,
            before it heard of the commit, does not count as a failure: the model is here.
        tell: told how far it is.

    Raises:
        StreamlinkError: the stream failed, or the sink could not take it; nothing of it is visible.
    """
    sink: ModelSink | None = None

    def told_waiting() -> None:
        if transfer.has_spec:  # else nobody can say of how much
            tell(WAITING, transfer.consumed_bytes)

    transfer.when_waiting(told_waiting)
    try:
        if resume is not None:
            sink = _resumed(transfer, resume, tell)
        if sink is None:
            transfer.open()
            sink = sink_for(transfer)
        with transfer.lending(sink):
            _fill(transfer, sink, tell)
        sink.commit(lambda _: transfer.committing())
    except BaseException as error:
        transfer.abort(code_of(error), abort_reason(error))
        if sink is not None:
            _leave(transfer, sink, error)
        raise
    return transfer.commit() if resume is None else _committed(transfer)


def _resumed(transfer: ReceiveTransfer, resume: Resume, tell: Tell) -> ModelSink | None:
    """Go on where an interrupted transfer of this model stopped, if there is one undamaged."""
    transfer.wait_announced()
    sink = resume(transfer.spec_digest)
    if sink is None:
        return None
    try:
        # First the check, then the word: where what is here is damaged, all of it can still come.
        transfer.recall(sink.spec, sink.saved(), tell)
        transfer.accept_at(sink.spec, sink.durable)
    except CorruptStore as error:
        logger.warning("what came before is damaged, so the transfer begins again: %s", error)
        sink.discard()
        return None
    except BaseException as error:
        _leave(transfer, sink, error)
        raise
    return sink


def _fill(transfer: ReceiveTransfer, sink: ModelSink, tell: Tell) -> None:
    if is_prompt(sink):
        transfer.fill(sink, tell)
        return
    keeper = sink if isinstance(sink, ResumableSink) else None
    durable = transfer.resumed_at
    while not transfer.is_complete:
        chunk = transfer.read_chunk()
        if chunk is None:
            continue
        put_chunk(sink, chunk)
        transfer.release(chunk.nbytes)
        if keeper is not None and keeper.durable > durable:
            durable = keeper.durable
            transfer.mark_durable(durable)
        tell("receiving", chunk.end)


def _leave(transfer: ReceiveTransfer, sink: ModelSink, error: BaseException) -> None:
    """Keep what came for another time where that is possible and the bytes are not to blame."""
    is_wrong = (
        isinstance(error, ModelError)
        or (isinstance(error, ChecksumError) and transfer.is_exhausted)
        or (isinstance(error, StreamAborted) and error.code is AbortCode.SOURCE_CHANGED)
    )
    is_broken = isinstance(error, StoreError) and not isinstance(error, StoreFull)
    if isinstance(sink, ResumableSink) and not (is_wrong or is_broken):
        sink.suspend()
    else:
        sink.discard()


def _committed(transfer: ReceiveTransfer) -> Receipt:
    try:
        return transfer.commit()
    except StreamlinkError as error:
        logger.warning("the model is whole, but its sender may not know: %s", error)
        return transfer.receipt()
