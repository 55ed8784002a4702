"""Source → ``SendTransfer``: sends an extent of a model, from where the receiver asks."""

from __future__ import annotations

from collections.abc import Mapping

from streamlink.errors import AbortCode, StreamAborted, code_of
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.throttle import ThrottledCheck
from streamlink.link.transfer import WAITING, Receipt, Tell, abort_reason, ignore
from streamlink.model.interfaces import Check, ModelSource, Payload, watch
from streamlink.protocol.frames import NO_METRICS
from streamlink.transport.send_pump import Supply

__all__ = ["send_model"]


def send_model(
    transfer: SendTransfer,
    source: ModelSource,
    metrics: Mapping[str, float] = NO_METRICS,
    tell: Tell | None = None,
    check: Check | None = None,
) -> Receipt:
    """Send the transfer's extent of ``source``; the peer is told of any error here.

    Args:
        transfer: where to.
        source: the bytes.
        metrics: facts about the work on it, sent with the last byte.
        tell: called with how far it is.
        check: raises where the source has changed; None: what the source has, from now on.

    Raises:
        SourceChanged: somebody wrote to the source meanwhile; the receiver keeps nothing of it.
        StreamlinkError: the stream failed, or the source could not be read.
    """
    try:
        return _send(transfer, source, metrics, tell, check or watch(source))
    except BaseException as error:
        transfer.abort(code_of(error), abort_reason(error))
        raise


def _send(
    transfer: SendTransfer,
    source: ModelSource,
    metrics: Mapping[str, float],
    tell: Tell | None,
    check: Check,
) -> Receipt:
    if tell is not None:
        transfer.when_waiting(lambda: tell(WAITING, transfer.received_bytes))
    read = source.read if tell is None else _told(source, tell)
    supply = _watched(read, ThrottledCheck(check, transfer.clock))
    while True:
        try:
            transfer.recall(source, tell or ignore)
            transfer.pull(supply)
        finally:
            transfer.stop_pulling()
        check()  # from here on the receiver may commit
        receipt = _finish(transfer, metrics, check)
        if receipt is not None:
            if tell is not None:
                tell("sending", transfer.extent.stop)
            return receipt


def _finish(transfer: SendTransfer, metrics: Mapping[str, float], check: Check) -> Receipt | None:
    try:
        return transfer.try_finish(metrics)
    except StreamAborted as error:
        if error.code is AbortCode.DIGEST_MISMATCH:
            check()  # what was on its way may have changed after it was hashed
        raise


def _told(source: ModelSource, tell: Tell) -> Supply:
    def supply(offset: int, nbytes: int) -> Payload:
        tell("sending", offset)  # what is asked for now follows what was sent
        return source.read(offset, nbytes)

    return supply


def _watched(supply: Supply, check: ThrottledCheck) -> Supply:
    def watched(offset: int, nbytes: int) -> Payload:
        payload = supply(offset, nbytes)
        check.check_if_due()
        return payload

    return watched
