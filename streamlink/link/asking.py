"""``Answer``: what a server has answered to a client, and the stream that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Self

from streamlink.cancel import CancelToken
from streamlink.closing import Closing
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    Cancelled,
    CommunicationTimeout,
    LocalProtocolError,
    RequestRefused,
    ServerBusy,
    StreamlinkError,
    TopicNotServed,
)
from streamlink.extent import Extent
from streamlink.link.facts import BUSY, RETURNS, SENDS, UNSERVED, own, parse_stream_number
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.streams import is_complete
from streamlink.link.transfer_facts import Direction, OnTransfer, TransferNotice
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import Reply
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import PendingReply, Session

__all__ = ["Answer", "ask_server"]

_RECHECK_SECONDS = 1.0  # the late reply to a request that was called off wakes nobody


class Answer(Closing):
    """A server's answer to a client: facts, and a model in one of the two directions.

    Use it in a ``with`` block, or call ``close``: it releases the stream, and aborts a transfer
    that is not complete. The tokens that end ``ClientLink.ask`` end its transfer, too.
    """

    def __init__(
        self,
        dialer: Dialer,
        session: Session,
        topic: str,
        reply: Reply,
        known: KnownSpecs,
        on_transfer: OnTransfer | None = None,
        cancel: Sequence[CancelToken] = (),
        on_committed: Callable[[ReceiveTransfer], object] = lambda transfer: None,
        config: LinkConfig | None = None,
    ) -> None:
        # A reply has no fields for streams, as a request has: their numbers travel among its facts,
        # and the user gets only what the handler has said.
        facts = dict(reply.metadata)
        self._sends = _stream_in(facts, SENDS, session.peer_name)
        self._returns = _stream_in(facts, RETURNS, session.peer_name)
        self.metadata: Mapping[str, str] = facts
        """Small facts that came with the answer."""
        self._dialer, self._session, self._topic = dialer, session, topic
        self._known, self._on_transfer = known, on_transfer
        self._cancel = cancel
        self._config = config or session.config  # of its transfer
        self._on_committed = on_committed
        self._transfer: ReceiveTransfer | SendTransfer | None = None

    def receive(self, *, extent: Extent | None = None) -> ReceiveTransfer:
        """Open the stream of the model that the server sends; see ``receive_model``.

        Args:
            extent: the bytes of the model that were asked for; None: all.

        Raises:
            LocalProtocolError: the server sends none, or it was opened before.
        """
        number = self._take(self._sends, "sends no model")
        model = ReceiveTransfer(
            self._config,
            clock=self._session.clock,
            stream_id=number,
            peer_name=self._session.peer_name,
            name=f"{self._topic} of {self._session.peer_name}",
            known=self._known,
            extent=extent,
            notice=self._notice("received"),
        )
        self._open(model)
        return model

    def send(self, spec: ModelSpec, *, extent: Extent | None = None) -> SendTransfer:
        """Open the stream of the model that the server takes; see ``send_model``.

        Args:
            spec: the model.
            extent: the bytes of it that the server wants; None: all.

        Raises:
            LocalProtocolError: the server takes none, or it was opened before.
        """
        number = self._take(self._returns, "takes no model")
        model = SendTransfer(
            self._config,
            spec,
            clock=self._session.clock,
            stream_id=number,
            peer_name=self._session.peer_name,
            name=f"{self._topic} to {self._session.peer_name}",
            is_resumable=True,
            extent=extent,
            notice=self._notice("sent"),
        )
        self._open(model)
        return model

    def close(self, reason: str = "closed before the transfer was complete") -> None:
        """Release the stream; a transfer that is not complete is aborted with ``reason``."""
        if self._transfer is not None:
            if not is_complete(self._transfer):
                self._transfer.abort(AbortCode.CANCELLED, reason)
            elif isinstance(self._transfer, ReceiveTransfer):
                self._on_committed(self._transfer)
            self._transfer.withdraw(self._session.withdraw)

    def __enter__(self) -> Self:
        return self

    # --- small parts ----------------------------------------------------------------------

    def _take(self, number: int, what: str) -> int:
        if not number or self._transfer is not None:
            problem = f"the server {what}" if not number else "the stream was opened before"
            raise LocalProtocolError(f"answer to {self._topic!r}: {problem}")
        return number

    def _open(self, model: ReceiveTransfer | SendTransfer) -> None:
        self._transfer = model
        model.hand_to(partial(self._dialer.open_transfer, self._session))
        # After that: of a token that is cancelled already the server hears over the stream.
        for cancel in self._cancel:
            model.obey(cancel)

    def _notice(self, direction: Direction) -> TransferNotice:
        clock = self._session.clock
        return TransferNotice("server", direction, None, self._on_transfer, clock=clock)


def ask_server(
    session: Session,
    topic: str,
    metadata: Mapping[str, str],
    timeout: float | None,
    cancel: CancelToken,
) -> Reply:
    """Ask the server of ``session``, and return its reply; see ``ClientLink.ask``."""
    until = None if timeout is None else session.clock() + timeout
    pending = _request(session, topic, metadata, until, cancel)
    try:
        with cancel.calling(lambda reason: session.cancel(pending, reason)):
            # What waiting for a place has taken counts: ``timeout`` is for the whole call.
            reply = pending.result(None if until is None else max(0.0, until - session.clock()))
    except CancelledError:
        raise Cancelled(cancel.reason) from None
    except StreamlinkError:
        raise  # one of ours may be a TimeoutError, too
    except FutureTimeout:
        # Or the server would work on an answer that nobody waits for, and keep its place.
        session.cancel(pending, f"not answered within {timeout:g} s")
        raise CommunicationTimeout(
            stage="processing",
            who=session.peer_name,
            stream=f"the request {topic!r}",
            seconds=timeout or 0.0,
            bytes_done=0,
            setting="timeout",
        ) from None
    if reply.error:
        kinds = {BUSY: ServerBusy, UNSERVED: TopicNotServed}
        kind = next((kinds[fact] for fact in kinds if fact in reply.metadata), RequestRefused)
        raise kind(reply.error, who=session.peer_name, metadata=own(reply.metadata))
    return reply


def _request(
    session: Session,
    topic: str,
    metadata: Mapping[str, str],
    until: float | None,
    cancel: CancelToken,
) -> PendingReply:
    """Send a request, once the server has a place for it: one too many would end the session."""
    # Held from the look to the request: two threads that see one free place would both take it.
    with cancel.calling(lambda _: _wake(session)), session.asking:
        _wait_place(session, topic, until, cancel)
        pending = session.request(topic, metadata=metadata)
    pending.add_done_callback(lambda _: _wake(session))
    return pending


def _wait_place(session: Session, topic: str, until: float | None, cancel: CancelToken) -> None:
    began = last = session.clock()
    patience = session.config.timeouts.communication_timeout
    cancel.check()
    while not session.has_place:
        now = session.clock()
        if session.is_asking:  # what is open has deadlines of its own; the rest was called off
            last = now
        ends = last + patience if until is None else min(until, last + patience)
        if now >= ends:
            most = session.config.limits.max_open_requests
            raise CommunicationTimeout(
                stage="processing",
                who=session.peer_name,
                stream=f"the request {topic!r}, which waits: {most} others are not answered "
                "(max_open_requests), and",
                seconds=now - began,
                bytes_done=0,
                setting="communication_timeout" if ends != until else "timeout",
            )
        session.asking.wait(min(_RECHECK_SECONDS, ends - now))
        cancel.check()


def _wake(session: Session) -> None:
    with session.asking:
        session.asking.notify_all()


def _stream_in(facts: dict[str, str], name: str, where: str) -> int:
    """Remove the number of a stream from ``facts``, and return it; 0: the answer names none."""
    text = facts.pop(name, "")
    return parse_stream_number(text, where) if text else 0
