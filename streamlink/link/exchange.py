"""``Exchange``: what a server has asked one client, as a future that moves both models itself.

It has a thread of its own while it runs, and a second one while a model goes each way. The first
failure, of a stream, the request or the user's code, ends the rest and is the exchange's error.
Exchanges know nothing of one another.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.errors import (
    AbortCode,
    Cancelled,
    CommunicationTimeout,
    ExchangeFailed,
    ModelError,
    OpenTimeout,
    StreamAborted,
    StreamlinkError,
    code_of,
)
from streamlink.link.facts import OMITS, own, parse_metrics
from streamlink.link.loop_future import LoopFuture
from streamlink.link.receive_beside import ReceiveBeside
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.streams import is_complete
from streamlink.link.transfer import Receipt, abort_reason
from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import Reply
from streamlink.timers import Timer, start_timer
from streamlink.transport.session import PendingReply, Session

__all__ = ["Exchange", "ExchangeProgress", "ExchangeResult", "Opened", "Phase", "SinkForSpec"]

logger = logging.getLogger("streamlink.server")

SinkForSpec = Callable[[ModelSpec], ModelSink]
"""Makes the sink for an answer of these tensors, or raises to refuse it."""

Phase = Literal["waiting", "sending", "processing", "receiving", "over"]
"""Where an exchange is; see ``ExchangeProgress.phase``."""


@dataclass(frozen=True, slots=True)
class ExchangeProgress:
    """How far an exchange is."""

    phase: Phase
    """``waiting`` for its turn, ``sending``, ``processing`` at the client, ``receiving``, ``over``.
    """
    sent_bytes: int
    """Of the model, acknowledged by the client."""
    sends_bytes: int
    """Size of the model that is sent; 0: none."""
    received_bytes: int
    """Of the answer, taken by the sink."""
    returns_bytes: int
    """Size of the answer; 0: not known yet, or none."""


@dataclass(frozen=True, slots=True)
class ExchangeResult:
    """What a client has answered. Its model is where ``into`` has put it."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    """Small facts of the answer."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the answer."""
    sent: Receipt | None = None
    """Of the model; None: none was sent, or the client answered without taking it."""
    received: Receipt | None = None
    """Of the client's model; None: it answered without one."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The request of an exchange, once it was sent."""

    session: Session
    pending: PendingReply
    outgoing: SendTransfer | None
    incoming: ReceiveTransfer | None


class Exchange(LoopFuture[ExchangeResult]):
    """One request to one client; a ``concurrent.futures.Future``, and awaitable in asyncio.

    Its callbacks run in a thread of the exchange, or in the one that cancels it; those that were
    added where an event loop runs are called by that loop, so that ``asyncio.wait`` takes it.
    """

    def __init__(
        self,
        peer_name: str,
        topic: str,
        source: ModelSource | None,
        sink_for: SinkForSpec | None,
        open_it: Callable[[ModelSpec | None, bool], Opened],
        *,
        clock: Clock,
        cancel: CancelToken,
        release: Callable[[], None],
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self.peer_name, self.topic = peer_name, topic
        self._source, self._sink_for, self._open = source, sink_for, open_it
        self._clock, self._token, self._release = clock, cancel, release
        self._timeout = timeout
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._is_running = self._is_cancel_noted = False
        self._failure: BaseException | None = None
        self._omitted: frozenset[str] = frozenset()
        self._last: ExchangeProgress | None = None
        # The condition inside a ``Future`` is none of the clock's, so no virtual time moves it.
        self._is_done = clock.event()
        # Not by the loop where this one may run: a thread that waits may be that loop's.
        Future.add_done_callback(self, lambda _: self._is_done.set())
        self._timer: Timer | None = None
        if timeout is not None:  # a short one may be over before it is noted
            self._timer = start_timer(clock, timeout, self._time_out)

    # --- for its owner ------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> ExchangeResult:
        """Return what the client has answered; the future's ``exception`` waits alike.

        Args:
            timeout: how long to wait here (seconds); the exchange goes on after that.

        Raises:
            ExchangeFailed: it failed; the cause has the details.
            Cancelled: the server's token was cancelled.
            concurrent.futures.CancelledError: ``cancel`` was called.
            TimeoutError: it is not over within ``timeout``.
        """
        self._is_done.wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why it failed, once it is over; None: it has not."""
        self._is_done.wait(timeout)
        return super().exception(0)

    def cancel(self, reason: str = "the exchange was cancelled") -> bool:
        """End it, at the client, too; other exchanges go on. False: it is over already."""
        # Never marked as running, unlike the futures of an executor: those cannot be cancelled once
        # they run.
        if not super().cancel():
            return False
        self._note_cancel()
        self._stop(CancelledError(reason), reason)
        self._finish_if_idle()
        return True

    def _note_cancel(self) -> None:
        """Notify ``concurrent.futures.wait``, as an executor does for its own futures."""
        with self._lock:
            is_first, self._is_cancel_noted = not self._is_cancel_noted, True
        if is_first:  # a second call is an error
            self.set_running_or_notify_cancel()

    def running(self) -> bool:
        """Whether it has been sent to the client and is not over."""
        return self._is_running and not self.done()

    @property
    def progress(self) -> ExchangeProgress:
        """How far it is."""
        # In this order: at its end the last is kept first, and the rest is dropped after that.
        opened, source = self._opened, self._source
        if self._last is not None:
            return self._last
        sends = 0 if source is None else source.spec.nbytes
        if opened is None:
            return ExchangeProgress("over" if self.done() else "waiting", 0, sends, 0, 0)
        sent = 0 if opened.outgoing is None else opened.outgoing.received_bytes
        incoming = opened.incoming
        is_coming = incoming is not None and incoming.has_spec
        returns = incoming.spec.nbytes if incoming is not None and is_coming else 0
        received = 0 if incoming is None else incoming.consumed_bytes
        phase: Phase = "over" if self.done() else "receiving" if is_coming else "processing"
        if phase != "over" and sent < sends:
            phase = "sending"
        return ExchangeProgress(phase, sent, sends, received, returns)

    # --- its way ------------------------------------------------------------------------------

    def run(self) -> None:
        """Do it, in the thread of a crew."""
        with self._lock:
            if self._is_running or self.done():
                return
            self._is_running = True
        try:
            with self._token.calling(self._cancelled_by_token):
                outcome: ExchangeResult | BaseException = self._exchange()
        except BaseException as error:
            self._stop(error, abort_reason(error))  # also where nothing had been opened before
            outcome = self._failure or error
            if outcome is not error:
                _without_frames(error)  # a source may keep what it raises, and with it the model
        self._finish(outcome)

    def _exchange(self) -> ExchangeResult:
        has_answer = self._sink_for is not None
        opened = self._open(self._source.spec if self._source is not None else None, has_answer)
        with self._lock:
            self._opened = opened
        if self._failure is not None:  # between; nobody could stop what was not opened yet
            raise self._failure
        opened.pending.add_done_callback(self._replied)
        # Both ways at once: a client may answer while it still receives. If nobody read its answer
        # meanwhile, it would stop reading at the end of its credit, and both ends would wait.
        receiving = self._receiving(opened)
        try:
            sent = self._send(opened)
            received = receiving.receipt()
        except BaseException as error:
            self._stop(error, abort_reason(error))
            raise
        finally:
            # Also after a failure, which has ended the stream: nobody may write to the sink once
            # the exchange is over.
            receiving.give_up()
        return self._result_of(opened, self._reply(opened, received), sent, received)

    def _send(self, opened: Opened) -> Receipt | None:
        if opened.outgoing is None or self._source is None:
            return None
        try:
            receipt = send_model(opened.outgoing, self._source)
        except StreamlinkError:
            # ``_replied`` has aborted it: the client answered without taking the model, as it may.
            if "sends" in self._omitted:
                return None
            raise
        opened.session.request_complete(opened.pending)
        return receipt

    def _receiving(self, opened: Opened) -> ReceiveBeside:
        def receive() -> Receipt | None:
            try:
                return self._receive(opened)
            except BaseException as error:
                self._stop(error, abort_reason(error))
                raise

        beside = opened.incoming if opened.outgoing is not None else None
        return ReceiveBeside(beside, receive, f"receive-{self.peer_name}", self._clock)

    def _receive(self, opened: Opened) -> Receipt | None:
        if opened.incoming is None:
            return None
        try:
            self._wait_announced(opened, opened.incoming)
            return receive_model(opened.incoming, self._sink)
        except StreamlinkError:
            if "returns" in self._omitted:
                return None
            raise

    def _wait_announced(self, opened: Opened, incoming: ReceiveTransfer) -> None:
        """Wait for the client's model: as long as its work may take, and once it replied no more.

        Its reply ends the stage *processing*, and its model may be a little later.
        """
        seconds = opened.session.config.timeouts.open_timeout
        has_replied = False
        while not incoming.wait_announced(seconds):
            # Not at once: the reply may have come at the end of this wait.
            is_late, has_replied = has_replied, opened.pending.done()
            if is_late and not opened.session.is_disconnected:
                raise OpenTimeout(
                    who=self.peer_name,
                    stream=f"the stream of its answer to {self.topic!r}, after its reply",
                    seconds=seconds,
                    bytes_done=0,
                    setting="open_timeout",
                )

    def _sink(self, incoming: ReceiveTransfer) -> ModelSink:
        assert self._opened is not None
        assert self._sink_for is not None
        # The stage *processing* ends with the first byte of the answer; its stream has deadlines.
        self._opened.session.reply_began(self._opened.pending)
        try:
            return self._sink_for(incoming.spec)
        except (MemoryError, OverflowError) as error:
            size = incoming.spec.nbytes
            raise ModelError(f"an answer of {size} bytes does not fit into memory") from error

    def _reply(self, opened: Opened, received: Receipt | None) -> Reply:
        # The stage *processing*, and its deadline with it, ended when the answer's model began.
        # Without such a model it goes on until the reply, as long as the work reports progress.
        seconds = opened.session.config.timeouts.communication_timeout
        try:
            return opened.pending.result(None if received is None else seconds)
        except StreamlinkError:
            raise  # one of ours may be a TimeoutError, too
        except FutureTimeout:
            raise CommunicationTimeout(
                stage="processing",
                who=self.peer_name,
                stream=f"the answer to {self.topic!r}, whose model has come,",
                seconds=seconds,
                bytes_done=self.progress.received_bytes,
            ) from None

    def _result_of(
        self, opened: Opened, reply: Reply, sent: Receipt | None, received: Receipt | None
    ) -> ExchangeResult:
        if reply.error:
            raise self._refusal(reply)
        of_model = {} if received is None else received.metrics
        metrics = {**of_model, **parse_metrics(reply.metadata)}
        return ExchangeResult(own(reply.metadata), metrics, sent, received)

    def _refusal(self, reply: Reply) -> StreamAborted:
        return StreamAborted(AbortCode.TASK_FAILED, reply.error, by_peer=True, who=self.peer_name)

    # --- how it ends --------------------------------------------------------------------------

    def _replied(self, pending: Future[Reply]) -> None:
        """Look at the reply, in the session's thread: it may end what still waits."""
        if pending.cancelled():
            return
        error = pending.exception()
        if error is None and pending.result().error:
            error = self._refusal(pending.result())
        if error is not None:
            self._stop(error, str(error))
            return
        # Streams that the client has never opened, and never will.
        omitted = pending.result().metadata.get(OMITS, "")
        self._omitted = frozenset(omitted.split(","))
        opened = self._opened
        if opened is None:
            return
        if "sends" in self._omitted and opened.outgoing is not None:
            opened.outgoing.abort(AbortCode.CANCELLED, "answered without it")
        if "returns" in self._omitted and opened.incoming is not None:
            opened.incoming.abort(AbortCode.CANCELLED, "the answer has no model")

    def _time_out(self) -> None:
        timeout = self._timeout or 0.0
        self._stop(_OutOfTime(timeout), f"not complete within {timeout:g} s")
        self._finish_if_idle()

    def _cancelled_by_token(self, reason: str) -> None:
        self._stop(Cancelled(reason), reason)

    def _stop(self, error: BaseException, reason: str) -> None:
        """End both streams and the request; the first error is the one that counts."""
        with self._lock:
            if self._failure is None:
                self._failure = error
            opened = self._opened
        if opened is None:
            return
        # Without the lock from here on: session and pumps have their own, and call back.
        # The request first: a reply that comes just now must find nobody.
        opened.session.cancel(opened.pending, reason)
        for transfer in (opened.outgoing, opened.incoming):
            if transfer is not None and not is_complete(transfer):
                transfer.abort(code_of(error), reason)

    def _finish_if_idle(self) -> None:
        """End what waits for its turn here; what runs is ended by its own thread."""
        with self._lock:
            if self._is_running:
                return
            self._is_running = True  # nobody else ends it now
        self._finish(self._failure or CancelledError())

    def _finish(self, outcome: ExchangeResult | BaseException) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if (opened := self._opened) is not None:
            for transfer in (opened.outgoing, opened.incoming):
                if transfer is not None:
                    transfer.hand_to(opened.session.withdraw)
        try:
            self._release()
        except BaseException:  # the future has to end all the same
            logger.exception("%s: the model of %r was not released", self.peer_name, self.topic)
        error = None if isinstance(outcome, ExchangeResult) else self._failed(outcome)
        self._let_go()
        with suppress(InvalidStateError):  # cancelled meanwhile: that has been its end
            if isinstance(outcome, ExchangeResult):
                self.set_result(outcome)
            else:
                self.set_exception(error)

    def _let_go(self) -> None:
        """Keep the outcome alone: whoever keeps the future must not keep the models."""
        self._last = replace(self.progress, phase="over")
        self._opened = self._source = self._sink_for = self._failure = None
        self._open, self._release = _nothing, _nothing

    def _failed(self, error: BaseException) -> BaseException:
        """Return ``error`` with who, what and how far; an end on purpose is itself."""
        text = _without_frames(error)
        if isinstance(error, Cancelled | CancelledError) or not isinstance(error, Exception):
            return error
        timeout = self._timeout if isinstance(error, _OutOfTime) else None
        now = self.progress
        failed = ExchangeFailed(
            self.peer_name,
            self.topic,
            cause=None if timeout is not None else error,
            timeout=timeout,
            sent_bytes=now.sent_bytes,
            sends_bytes=now.sends_bytes,
            received_bytes=now.received_bytes,
        )
        failed.__cause__ = failed.cause
        if not isinstance(error, StreamlinkError):  # of a source or a sink: the line to mend
            failed.add_note(text)
        logger.warning("%s", failed)
        return failed


def _without_frames(error: BaseException) -> str:
    """Take the frames off an error that is kept: they refer to the models, and to this exchange.

    Clearing their variables would not do: the closures of their functions refer to the same.

    Returns:
        What they have shown.
    """
    text = "".join(traceback.format_exception(error))
    left: BaseException | None = error
    while left is not None:
        left.__traceback__ = None
        left = left.__cause__ or left.__context__
    return text


def _nothing(*_: object) -> Any:
    raise RuntimeError("the exchange is over")


class _OutOfTime(StreamlinkError):
    """The exchange's own ``timeout``."""

    code = AbortCode.COMMUNICATION_TIMEOUT
