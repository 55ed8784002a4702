"""One model between two machines, without rounds: ``receive`` listens, ``send`` connects.

Either process may be killed and started again. A ``ResumableStore`` keeps what has arrived, under
the identity that the sender gives its model, and the next transfer of that model resumes there.
Both ends read the bytes again that are not sent again, so the final digest covers every byte.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import (
    AbortCode,
    ConnectFailed,
    CorruptStore,
    ModelError,
    RemoteProtocolError,
    StoreError,
    StreamlinkError,
)
from streamlink.link.passing import is_passing
from streamlink.link.receive_model import Resume, receive_model
from streamlink.link.receive_slot import Claim, ReceiveSlot
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import OnPhase, Receipt, abort_reason
from streamlink.link.transfer_facts import OnTransfer, TransferNotice
from streamlink.model.interfaces import (
    Expiring,
    HasIdentity,
    ModelInPlace,
    ModelSink,
    ModelSource,
    ModelStore,
    ResumableStore,
    watch,
)
from streamlink.model.spec import ModelSpec, require_same
from streamlink.transport.addresses import listening_at
from streamlink.transport.connect import dial, hub_at
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = ["TransferProgress", "receive", "send"]

logger = logging.getLogger("streamlink.transfer")

TOPIC = "push"
_STREAM, _IDENTITY = "stream", "identity"
_STOPPED = "interrupted by its user"
_MOST_DIGITS = 19  # every number of 19 digits fits into 64 bits
_HEARD_SECONDS = 2.0  # how long a peer that was sent an error has to leave by itself

Into = ModelStore | ModelSink | Callable[[ModelSpec], ModelSink]
"""Where a model goes: a store, whose model it replaces; a sink whose tensors it must have; or a
function that makes a sink for its tensors."""

TransferProgress = Callable[[str, str, int, int], None]
"""``progress(peer_name, phase, done, total)``: how far a transfer is (bytes). Any thread may call
it, also the one that reads the network: a callback that blocks for long costs the connection."""


def _ignore(peer: str, phase: str, done: int, total: int) -> None:
    pass


# --- receiving ------------------------------------------------------------------------------


def receive(
    into: Into,
    listen: str = "127.0.0.1:0",
    *,
    config: LinkConfig | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    timeout: float | None = None,
    progress: TransferProgress = _ignore,
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
        slot: of topic ``TOPIC``; closing it ends this call.
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
    _expire(into, config or LinkConfig())
    slot, cancel = slot or ReceiveSlot(TOPIC, clock=clock), cancel or CancelToken()
    server = hub_at(
        listen, config or LinkConfig(), clock=clock, on_request=slot.claim, traffic=traffic
    ).listen()
    reason = "the receiver has stopped"
    try:
        with cancel.calling(lambda _: slot.close(_STOPPED, AbortCode.CANCELLED)):
            on_listening(server.port)
            receipt = _take_one(server, slot, into, progress, timeout, listen, on_transfer)
        reason = "the model was taken"
        return receipt
    except StreamlinkError:
        # A cancelled token causes errors of other kinds, which would hide it.
        cancel.check()
        raise
    finally:
        server.close(reason, most=_HEARD_SECONDS)  # a sender that has its commit was waited for


def _take_one(
    server: Hub,
    slot: ReceiveSlot,
    into: Into,
    progress: TransferProgress,
    timeout: float | None,
    listen: str,
    on_transfer: OnTransfer | None,
) -> Receipt:
    """Serve senders one by one until a whole model has arrived from one of them."""
    while True:
        claim = slot.next(timeout)
        if claim is None:
            where = listening_at(listen, server.port)
            raise ConnectFailed(f"no sender came to {where} within {timeout:g} s")
        try:
            return _take(server, claim, into, progress, on_transfer)
        except StreamlinkError as error:
            # A closed slot has aborted the transfer: the slot's own error has the reason.
            slot.check()
            if not _may_go_on(into, error):
                raise
            logger.warning("%s: %s; waiting for the next sender", claim.peer_name, error)
        finally:
            slot.release(claim)


def _expire(into: object, config: LinkConfig) -> None:
    if isinstance(into, Expiring):
        into.expire(config.timeouts.partial_expiry)


def _take(
    server: Hub,
    claim: Claim,
    into: Into,
    progress: TransferProgress,
    on_transfer: OnTransfer | None,
) -> Receipt:
    session = claim.session
    incoming = claim.transfer = ReceiveTransfer(
        session.config,
        clock=server.clock,
        stream_id=server.new_stream_id(),
        peer_name=claim.peer_name,
        name=f"model from {claim.peer_name}",
        notice=TransferNotice(
            claim.peer_name, "received", on_transfer=on_transfer, clock=server.clock
        ),
    )
    identity = claim.request.metadata.get(_IDENTITY, "")
    # Only now: a slot that is closed from here on finds the transfer and aborts it.
    claim.check()
    incoming.hand_to(session.offer)
    incoming.hand_to(server.ticker.add)
    session.reply(claim.request, metadata={_STREAM: str(incoming.stream_id)})
    logger.info("← %s: a model begins", claim.peer_name)
    try:
        receipt = receive_model(
            incoming,
            lambda model: _sink(model.spec, into, identity),
            _resume_in(into, identity),
            lambda phase, done: progress(claim.peer_name, phase, done, incoming.spec.nbytes),
        )
        session.closed.wait(session.config.timeouts.open_timeout)  # until the sender has its commit
        return receipt
    except StreamlinkError:
        # The abort says more than a goodbye, which travels on another call and could overtake it:
        # the sender leaves once it has read the abort. That call may be over here already.
        if not session.is_disconnected:
            session.closed.wait(_HEARD_SECONDS)
        session.close("the transfer failed")
        raise
    finally:
        incoming.hand_to(session.withdraw)


def _resume_in(into: Into, identity: str) -> Resume:
    if isinstance(into, ResumableStore):
        store = into
        return lambda spec_digest: store.resume(spec_digest, identity)
    return lambda spec_digest: None


def _sink(spec: ModelSpec, into: Into, identity: str) -> ModelSink:
    """Return where the model goes, or raise the error that the sender gets.

    Raises:
        ModelError: it has other tensors than ``into`` takes, or does not fit into memory.
    """
    try:
        return _sink_in(spec, into, identity)
    except (MemoryError, OverflowError) as error:
        raise ModelError(
            f"a model of {spec.nbytes} bytes does not fit into the receiver's memory"
        ) from error


def _sink_in(spec: ModelSpec, into: Into, identity: str) -> ModelSink:
    if isinstance(into, ModelSink):
        require_same(into.spec, spec, "the sender", "the receiver")
        return into
    if isinstance(into, ResumableStore):
        return into.begin(spec, identity)
    return into.begin(spec) if isinstance(into, ModelStore) else into(spec)


def _may_go_on(into: Into, error: StreamlinkError) -> bool:
    """Return whether another sender may succeed after this error."""
    if isinstance(error, ModelError):
        return True  # refused before its first byte
    if isinstance(error, StoreError) and not isinstance(error, CorruptStore):
        return False  # the next sender would meet the same disk
    # A plain sink was discarded with the attempt; a model in place can be filled again.
    return isinstance(into, ModelInPlace) or not isinstance(into, ModelSink)


# --- sending --------------------------------------------------------------------------------


def send(
    model: ModelSource,
    to: str,
    *,
    name: str = "",
    config: LinkConfig | None = None,
    retry: float = 60.0,
    progress: TransferProgress = _ignore,
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
    sending = _Sending(
        model,
        to,
        name or _own_name(),
        config or LinkConfig(),
        retry,
        progress,
        traffic or TrafficCounter(clock=clock),
        cancel or CancelToken(),
        on_transfer,
        clock,
    )
    again = Retrying(
        retry=retry_if_exception(is_passing),
        stop=sending.is_hopeless,
        wait=wait_exponential(multiplier=0.2, max=5.0) + wait_random(0, 0.2),
        before_sleep=sending.log,
        sleep=sending.pause,
        reraise=True,
    )
    return again(sending.attempt)


class _Sending:
    """One model that is sent to one receiver, in as many attempts as it takes."""

    def __init__(
        self,
        model: ModelSource,
        to: str,
        name: str,
        config: LinkConfig,
        retry: float,
        progress: TransferProgress,
        traffic: TrafficCounter,
        cancel: CancelToken,
        on_transfer: OnTransfer | None,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._traffic, self._cancel = traffic, cancel
        self._on_transfer = on_transfer
        self._model, self._to, self._name = model, to, name
        require_known(config.stream.encodings)
        self._config, self._retry = config, retry
        self._progress = progress
        known = model.identity() if isinstance(model, HasIdentity) else ""
        # One check for all attempts, since the receiver may keep bytes of the first.
        self._check = watch(model)
        self._identity = known or secrets.token_hex(16)
        self._furthest = -1  # bytes received in the best attempt so far
        self._since = self._clock()

    def attempt(self) -> Receipt:
        """Connect, send, and wait for the commit."""
        try:
            return self._attempt()
        except StreamlinkError:
            self._cancel.check()  # cancelling causes other errors, which must not cause a retry
            raise

    def _attempt(self) -> Receipt:
        client = dial(
            self._to,
            self._config,
            name=self._name,
            clock=self._clock,
            traffic=self._traffic,
            cancel=self._cancel,
        )
        try:
            session = client.connect(
                lambda session, request: session.reply(request, error="this end only sends"),
                tries_for=self._retry - (self._clock() - self._since),
            )
            try:
                receipt = self._send_over(client, session)
            except BaseException as error:
                # With the reason: the goodbye may overtake the abort, which has its own connection.
                session.close(abort_reason(error))
                raise
            session.close("sent")
            return receipt
        finally:
            client.close()

    def is_hopeless(self, state: RetryCallState) -> bool:
        """Return whether nothing has moved for ``retry`` seconds."""
        return self._clock() - self._since >= self._retry

    def pause(self, seconds: float) -> None:
        """Wait before the next attempt; raises if this call was cancelled."""
        self._cancel.pause(seconds, self._clock)

    def log(self, state: RetryCallState) -> None:
        """Log why there will be another attempt."""
        if state.outcome is not None:
            logger.warning("%s; retrying", state.outcome.exception())

    def _send_over(self, client: Dialer, session: Session) -> Receipt:
        outgoing = SendTransfer(
            session.config,
            self._model.spec,
            clock=self._clock,
            stream_id=self._ask(session),
            peer_name=session.peer,
            name=f"model to {self._to}",
            is_resumable=True,
            notice=TransferNotice(
                self._to, "sent", on_transfer=self._on_transfer, clock=self._clock
            ),
        )
        outgoing.hand_to(partial(client.open_transfer, session))
        try:
            with self._cancel.calling(lambda _: outgoing.abort(AbortCode.CANCELLED, _STOPPED)):
                return send_model(
                    outgoing, self._model, on_phase=self._on_phase(), check=self._check
                )
        except (ModelError, StoreError):
            outgoing.wait_over(_HEARD_SECONDS)  # else the goodbye overtakes the reason
            raise
        finally:
            # Only more than the best attempt had is progress: attempts that all break at the same
            # byte must come to an end.
            if outgoing.stats.received_bytes > self._furthest:
                self._furthest = outgoing.stats.received_bytes
                self._since = self._clock()

    def _ask(self, session: Session) -> int:
        """Return the number of the stream that the receiver opens for the model."""
        seconds = session.config.timeouts.open_timeout
        try:
            asked = session.request(TOPIC, metadata={_IDENTITY: self._identity})
            with self._cancel.calling(lambda _: session.abort(AbortCode.CANCELLED, _STOPPED)):
                reply = asked.result(timeout=seconds)
        except FutureTimeout as error:
            raise ConnectFailed(
                f"{self._to} does not answer within {seconds:g} s (open_timeout)"
            ) from error
        if reply.error or _STREAM not in reply.metadata:
            raise ConnectFailed(f"{self._to} takes no model: {reply.error or 'no stream'}")
        return _stream_number(reply.metadata[_STREAM], self._to)

    def _on_phase(self) -> OnPhase:
        total = self._model.spec.nbytes
        return lambda phase, done: self._progress(self._to, phase, done, total)


def _stream_number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise RemoteProtocolError(
            f"{where} answered with the stream number {text[:40]!r}, which is not a number"
        )
    return int(text)


def _own_name() -> str:
    return f"{socket.gethostname()[:100]}-{os.getpid()}"
