"""Source → ``SendTransfer``: sends an extent of a model, from where the receiver asks."""

from __future__ import annotations

from collections.abc import Mapping

from streamlink.errors import AbortCode, StreamAborted, code_of
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.throttle import ThrottledCheck
from streamlink.link.transfer import WAITING, OnPhase, Receipt, abort_reason, ignore
from streamlink.model.interfaces import Check, ModelSource, Payload, watch
from streamlink.protocol.frames import NO_METRICS
from streamlink.transport.send_pump import Supply

__all__ = ["send_model"]


def send_model(
    transfer: SendTransfer,
    source: ModelSource,
    metrics: Mapping[str, float] = NO_METRICS,
    on_phase: OnPhase | None = None,
    check: Check | None = None,
) -> Receipt:
    """Send the transfer's extent of ``source``; an error here aborts the stream, with its reason.

    Args:
        transfer: where to.
        source: the bytes.
        metrics: facts about the work on it, sent with the last byte.
        on_phase: called with how far it is.
        check: raises where the source has changed; None: what the source has, from now on.

    Raises:
        SourceChanged: the source was modified meanwhile; the receiver keeps none of it.
        Cancelled: the token of this end was cancelled; see where the transfer is from.
        StreamlinkError: the stream failed, or the source could not be read.
    """
    try:
        return _send(transfer, source, metrics, on_phase, check or watch(source))
    except BaseException as error:
        transfer.abort(code_of(error), abort_reason(error))
        raise


def _send(
    transfer: SendTransfer,
    source: ModelSource,
    metrics: Mapping[str, float],
    on_phase: OnPhase | None,
    check: Check,
) -> Receipt:
    if on_phase is not None:
        transfer.when_waiting(lambda: on_phase(WAITING, transfer.received_bytes))
    transfer.measured_by(source)
    read = source.read if on_phase is None else _reporting(source, on_phase)
    supply = _watched(read, ThrottledCheck(check, transfer.clock))
    # Again only if the receiver, asked to commit, came back with fewer bytes than it had.
    while True:
        try:
            transfer.recall(source, on_phase or ignore)
            transfer.pull(supply)
        finally:
            # Also after an error: whoever called this may close the source next.
            transfer.stop_pulling()
        check()  # from here on the receiver may commit
        receipt = _finish(transfer, metrics, check)
        if receipt is not None:
            if on_phase is not None:
                on_phase("sending", transfer.extent.stop)
            return receipt


def _finish(transfer: SendTransfer, metrics: Mapping[str, float], check: Check) -> Receipt | None:
    try:
        return transfer.try_finish(metrics)
    except StreamAborted as error:
        if error.code is AbortCode.DIGEST_MISMATCH:
            check()  # what was on its way may have changed after it was hashed
        raise


def _reporting(source: ModelSource, on_phase: OnPhase) -> Supply:
    def supply(offset: int, nbytes: int) -> Payload:
        on_phase("sending", offset)  # what is asked for now follows what was sent
        return source.read(offset, nbytes)

    return supply


def _watched(supply: Supply, check: ThrottledCheck) -> Supply:
    def watched(offset: int, nbytes: int) -> Payload:
        payload = supply(offset, nbytes)
        # After the read: checked before it, a change during the read would pass.
        check.check_if_due()
        return payload

    return watched
