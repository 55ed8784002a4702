"""One model between two machines, without rounds: ``receive`` listens, ``send`` connects.

Where only the sender can listen, see ``pull``. Either process may be killed and started again. A
``ResumableStore`` keeps what has arrived, under the identity that the sender gives its model, and
the next transfer of that model resumes there. Both ends read the bytes again that are not sent
again, so the final digest covers every byte.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import AbortCode, ConnectFailed, ModelError, StoreError, StreamlinkError
from streamlink.link.attempts import Attempts, Line, own_name
from streamlink.link.into import Into, expire, may_go_on, resume_in, sink_in
from streamlink.link.oneshot_wire import (
    HEARD_SECONDS,
    IDENTITY,
    PUSH,
    STOPPED,
    STREAM,
    ask,
    stream_number,
)
from streamlink.link.passing import is_passing
from streamlink.link.probe_desk import ProbeDesk
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_slot import Claim, ReceiveSlot
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt, TransferProgress, ignore_progress
from streamlink.link.transfer_facts import OnTransfer, TransferNotice
from streamlink.model.beside_ends import with_beside
from streamlink.model.interfaces import HasIdentity, ModelSource, watch
from streamlink.transport.addresses import listening_at
from streamlink.transport.connect import hub_at
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = ["receive", "send"]

logger = logging.getLogger("streamlink.transfer")

# --- receiving ------------------------------------------------------------------------------


def receive(
    into: Into,
    listen: str = "127.0.0.1:0",
    *,
    config: LinkConfig | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    timeout: float | None = None,
    progress: TransferProgress = ignore_progress,
    slot: ReceiveSlot | None = None,
    traffic: TrafficCounter | None = None,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
    clock: Clock = running_time,
) -> Receipt:
    """Listen until one model is committed in ``into``, and return its receipt.

    If a sender fails, leaves, or sends other tensors than ``into`` takes, that is logged and the
    next one is awaited; a second one at the same time is refused. Into a ``ResumableStore``, such
    as ``SafetensorsStore``, a transfer resumes where an interrupted one of the same model stopped,
    even in another process. Partial models older than ``partial_expiry`` are removed first.

    Args:
        into: see ``Into``. A sink that is no ``ModelInPlace`` gets one attempt only.
        listen: ``host:port``, where port 0 takes a free one; or ``unix:path``.
        config: settings of this end.
        on_listening: called with the port, once it can be reached; 0: a Unix socket.
        timeout: how long to wait while no sender is connected (seconds); None: for ever.
        progress: called with how far it is; see ``TransferProgress``.
        slot: of topic ``PUSH``; closing it ends this call.
        traffic: counts what moves.
        cancel: ends it; what has arrived is kept for another try, as after any other failure.
        on_transfer: called with the facts of each finished attempt; see ``TransferFacts``.
        clock: of all deadlines and waits; tests pass one of virtual time.

    Raises:
        StreamAborted: the slot was closed.
        Cancelled: ``cancel`` was cancelled.
        AddressInUse: the address is taken.
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        ConnectFailed: no sender came within ``timeout``.
        StoreError: this end's disk is full or broken; what has arrived may be kept.
        StreamlinkError: the transfer into a plain sink failed; nothing of it is visible.
    """
    config = config or LinkConfig()
    expire(into, config)
    slot, cancel = slot or ReceiveSlot(PUSH, clock=clock), cancel or CancelToken()
    probes = ProbeDesk(config, clock, on_request=slot.claim, cancel=cancel)
    hub = probes.hub = hub_at(
        listen,
        config,
        clock=clock,
        on_session=probes.on_session,
        on_request=probes.on_request,
        traffic=traffic,
    )
    hub.listen()
    reason = "the receiver has stopped"
    try:
        with cancel.calling(lambda _: slot.close(STOPPED, AbortCode.CANCELLED)):
            on_listening(hub.port)
            receipt = _Receiving(hub, slot, into, progress, on_transfer).take_one(timeout, listen)
        reason = "the model was taken"
        return receipt
    except StreamlinkError:
        # A cancelled token causes errors of other kinds, which would hide it.
        cancel.check()
        raise
    finally:
        hub.close(reason, most=HEARD_SECONDS)  # a sender that has its commit was waited for


class _Receiving:
    """One model that is taken from whichever sender brings all of it first."""

    def __init__(
        self,
        hub: Hub,
        slot: ReceiveSlot,
        into: Into,
        progress: TransferProgress,
        on_transfer: OnTransfer | None,
    ) -> None:
        self._hub, self._slot, self._into = hub, slot, into
        self._progress, self._on_transfer = progress, on_transfer

    def take_one(self, timeout: float | None, listen: str) -> Receipt:
        """Serve senders one by one until a whole model has arrived from one of them."""
        while True:
            claim = self._slot.next(timeout)
            if claim is None:
                where = listening_at(listen, self._hub.port)
                raise ConnectFailed(f"no sender came to {where} within {timeout:g} s")
            try:
                return self._take(claim)
            except StreamlinkError as error:
                # A closed slot has aborted the transfer: the slot's own error has the reason.
                self._slot.check()
                if not may_go_on(self._into, error):
                    raise
                logger.warning("%s: %s; waiting for the next sender", claim.peer_name, error)
            finally:
                self._slot.release(claim)

    def _take(self, claim: Claim) -> Receipt:
        session, clock = claim.session, self._hub.clock
        notice = TransferNotice(
            claim.peer_name, "received", on_transfer=self._on_transfer, clock=clock
        )
        incoming = claim.transfer = ReceiveTransfer(
            session.config,
            clock=clock,
            stream_id=self._hub.new_stream_id(),
            peer_name=claim.peer_name,
            name=f"model from {claim.peer_name}",
            notice=notice,
        )
        identity = claim.request.metadata.get(IDENTITY, "")
        # Only now: a slot that is closed from here on finds the transfer and aborts it.
        claim.check()
        incoming.hand_to(session.offer)
        incoming.hand_to(self._hub.ticker.add)
        # After the offer: a sender that has its answer may open the stream at once.
        session.reply(claim.request, metadata={STREAM: str(incoming.stream_id)})
        logger.info("← %s: a model begins", claim.peer_name)
        try:
            receipt = receive_model(
                incoming,
                lambda model: sink_in(model.spec, self._into, identity, session.config.limits),
                resume_in(self._into, identity),
                lambda phase, done: self._progress(
                    claim.peer_name, phase, done, incoming.spec.nbytes
                ),
            )
            # Until the sender has its commit.
            session.closed.wait(session.config.timeouts.open_timeout)
            return receipt
        except StreamlinkError:
            # The abort says more than a goodbye, which travels on another call and could overtake
            # it: the sender leaves once it has read the abort. That call may be over here already.
            if not session.is_disconnected:
                session.closed.wait(HEARD_SECONDS)
            session.close("the transfer failed")
            raise
        finally:
            incoming.hand_to(session.withdraw)


# --- sending --------------------------------------------------------------------------------


def send(
    model: ModelSource,
    to: str,
    *,
    name: str = "",
    config: LinkConfig | None = None,
    retry: float = 60.0,
    progress: TransferProgress = ignore_progress,
    traffic: TrafficCounter | None = None,
    cancel: CancelToken | None = None,
    on_transfer: OnTransfer | None = None,
    clock: Clock = running_time,
) -> Receipt:
    """Send ``model`` to the receiver at ``to``; returns once the receiver has committed it.

    If nobody answers, or the connection or the receiver is lost, it retries and resumes at what the
    receiver has: even after a restart of this process, if the model comes from files.

    Args:
        model: must not change meanwhile; a ``Watched`` model detects that it did.
        to: ``host:port`` or ``unix:path``.
        name: of this end, at the receiver; by default the host name and the process id.
        config: settings of this end.
        retry: how long to retry without any progress (seconds); 0: one attempt only, even if the
            connection is refused.
        progress: called with how far it is; see ``TransferProgress``.
        traffic: counts what moves, over all attempts.
        cancel: ends it; the receiver is notified, and keeps what it can for another try.
        on_transfer: called with the facts of each finished attempt; see ``TransferFacts``.
        clock: of all deadlines and waits; tests pass one of virtual time.

    Raises:
        Cancelled: ``cancel`` was cancelled.
        ConnectFailed: nobody answers there, or the receiver is busy with another model.
        SourceChanged: the model was modified meanwhile; the receiver keeps none of it.
        StreamlinkError: the transfer failed; the receiver's model is what it was before.
    """
    cancel, config = cancel or CancelToken(), config or LinkConfig()
    require_known(config.stream.encodings)
    traffic = traffic or TrafficCounter(clock=clock)
    own = name or own_name()
    line = Line(to, own, config, retry, progress, traffic, cancel, on_transfer, clock)
    return _Sending(model, line).run()


class _Sending:
    """One model that is sent to one receiver, in as many attempts as it takes."""

    def __init__(self, model: ModelSource, line: Line) -> None:
        model = with_beside(model, line.config.limits)
        self._model, self._line = model, line
        known = model.identity() if isinstance(model, HasIdentity) else ""
        # One check for all attempts, since the receiver may keep bytes of the first.
        self._check = watch(model)
        # Where a model has no identity, a random one: then only this call's own attempts are
        # resumed.
        self._identity = known or secrets.token_hex(16)
        self._attempts = Attempts(
            line, self._send_over, role="this end only sends", can_retry=is_passing
        )

    def run(self) -> Receipt:
        """Send it; raises what the last attempt raised."""
        return self._attempts.run()

    def _send_over(self, client: Dialer, session: Session) -> Receipt:
        to, clock, cancel = self._line.to, self._line.clock, self._line.cancel
        answer = ask(session, PUSH, to, cancel, {IDENTITY: self._identity})
        outgoing = SendTransfer(
            session.config,
            self._model.spec,
            clock=clock,
            stream_id=stream_number(answer, to),
            peer_name=session.peer_name,
            name=f"model to {to}",
            is_resumable=True,
            notice=self._line.notice("sent"),
        )
        outgoing.hand_to(partial(client.open_transfer, session))
        try:
            with cancel.calling(lambda _: outgoing.abort(AbortCode.CANCELLED, STOPPED)):
                return send_model(outgoing, self._model, on_phase=self._on_phase, check=self._check)
        except (ModelError, StoreError):
            outgoing.wait_over(HEARD_SECONDS)  # else the goodbye overtakes the reason
            raise
        finally:
            # What the receiver has: bytes that were sent and lost are no progress.
            self._attempts.has_moved(outgoing.stats.received_bytes)

    def _on_phase(self, phase: str, done: int) -> None:
        self._line.progress(self._line.to, phase, done, self._model.spec.nbytes)
