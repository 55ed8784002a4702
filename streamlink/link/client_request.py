"""``ClientRequest``: what a client has asked, as the handler of the server sees it.

The client asks, the server replies with the numbers of a stream that it has offered, and the client
opens that stream: so a model may go either way, and all connections are still made by the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    OpenTimeout,
    StreamAborted,
    StreamlinkError,
    to_raise,
)
from streamlink.extent import Extent
from streamlink.link.facts import RETURNS, SENDS
from streamlink.link.presence import Presence
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.reports import Reports
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.streams import is_complete
from streamlink.link.transfer import abort_reason
from streamlink.link.transfer_facts import Direction, OnTransfer, TransferNotice
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, Request
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session

__all__ = ["ClientRequest"]


class ClientRequest:
    """What a client has asked, as the server's handler sees it.

    A handler answers once: with a model (``send``), by taking one (``receive``), or with facts
    alone (``reply``). When it returns, the stream is released; one that is not complete is aborted.
    The server's token ends what waits in it, with ``Cancelled``, and the stream.
    """

    def __init__(
        self,
        hub: Hub,
        session: Session,
        request: Request,
        known: KnownSpecs,
        on_transfer: OnTransfer | None = None,
        cancel: CancelToken | None = None,
        config: LinkConfig | None = None,
    ) -> None:
        self.peer_name = session.peer_name
        """The client's name, which its certificate or token has proven where these are on."""
        self._hub, self._session, self._request = hub, session, request
        self._known, self._on_transfer = known, on_transfer
        self._cancel = cancel or CancelToken()
        self._config = config or session.config  # of its transfer
        self._reports = Reports(session, request)
        self._transfer: SendTransfer | ReceiveTransfer | None = None
        self._is_answered = False
        self._called_off = ""

    @property
    def topic(self) -> str:
        """The kind of request."""
        return self._request.topic

    @property
    def metadata(self) -> Mapping[str, str]:
        """Small facts that came with the request."""
        return self._request.metadata

    # --- the answer -----------------------------------------------------------------------

    def send(
        self,
        spec: ModelSpec,
        *,
        extent: Extent | None = None,
        metadata: Mapping[str, str] = NO_ENTRIES,
    ) -> SendTransfer:
        """Answer with a model: the client opens its stream; give the bytes to ``send_model``.

        Args:
            spec: the model.
            extent: the bytes of it that travel; None: all. The client has to ask for the same.
            metadata: small facts, which the client gets before the first byte.

        Raises:
            Cancelled: the server's token was cancelled.
            StreamlinkError: the client has gone, or called its request off.
            LocalProtocolError: it was answered before.
        """
        self._require_open()
        # Its tensors need not be described to a client that had them before.
        self._known.add(spec)
        outgoing = SendTransfer(
            self._config,
            spec,
            clock=self._session.clock,
            stream_id=self._hub.new_stream_id(),
            peer_name=self.peer_name,
            name=f"{self.topic} to {self.peer_name}",
            is_resumable=True,
            extent=extent,
            notice=self._notice("sent"),
        )
        self._offer(outgoing, {**metadata, SENDS: str(outgoing.stream_id)})
        # Last: the client's time to open the stream begins when it was told.
        outgoing.hand_to(self._session.start_offer)
        return outgoing

    def receive(
        self, *, extent: Extent | None = None, metadata: Mapping[str, str] = NO_ENTRIES
    ) -> ReceiveTransfer:
        """Answer by taking a model, once the client has announced it; see ``receive_model``.

        Args:
            extent: the bytes of the model that are wanted; None: all.
            metadata: small facts, which the client gets before it sends.

        Raises:
            OpenTimeout: the client does not send, for ``open_timeout``.
            SpecMismatch: it announced another extent.
            Cancelled: the server's token was cancelled.
            StreamlinkError: the client has gone, or called its request off.
            LocalProtocolError: it was answered before.
        """
        self._require_open()
        incoming = ReceiveTransfer(
            self._config,
            clock=self._session.clock,
            stream_id=self._hub.new_stream_id(),
            peer_name=self.peer_name,
            name=f"{self.topic} of {self.peer_name}",
            known=self._known,
            extent=extent,
            notice=self._notice("received"),
        )
        self._offer(incoming, {**metadata, RETURNS: str(incoming.stream_id)})
        self._wait_announced(incoming)
        return incoming

    def reply(self, *, error: str = "", metadata: Mapping[str, str] = NO_ENTRIES) -> None:
        """Answer with facts alone, or with the reason why there is no answer.

        Raises:
            LocalProtocolError: it was answered before.
        """
        if self._is_answered:
            raise LocalProtocolError(f"the request {self.topic!r} was answered before")
        self._session.reply(self._request, error=error, metadata=metadata)
        self._is_answered = True

    # --- meanwhile ------------------------------------------------------------------------

    def progress(self) -> None:
        """Report that the work has moved: the client waits for ``communication_timeout`` again.

        Raises:
            StreamAborted: the client called the request off.
            Cancelled: the server's token was cancelled.
            StreamlinkError: its session has ended.
        """
        self.check()
        self._reports.send()

    def alive(self) -> AbstractContextManager[None]:
        """Within the block, report every few seconds, for work that cannot report its progress."""
        return self._reports.alive()

    def check(self) -> None:
        """Raise ``StreamAborted`` if the request was called off, or why the session has ended.

        Raises:
            Cancelled: the server's token was cancelled.
        """
        self._cancel.check()
        if self._called_off:
            raise StreamAborted(
                AbortCode.CANCELLED, self._called_off, by_peer=True, who=self.peer_name
            )
        if self._session.error is not None:
            raise to_raise(self._session.error)

    @property
    def presence(self) -> Presence:
        """Whether the client is here, for what lives longer than its request."""
        return Presence(self._hub, self._session)

    # --- for the server -------------------------------------------------------------------

    has_begun = False
    """Whether a handler has it; until then it waits for a thread."""

    def report_waiting(self) -> None:
        """Report that it waits for a thread; its client goes on waiting."""
        self._reports.send()

    def call_off(self, reason: str) -> None:
        """Note that the client has called its request off."""
        self._called_off = reason or "called off"
        self._abort(reason)

    def fail(self, error: BaseException) -> None:
        """Report to the client why there is no answer, or why the model ends halfway."""
        reason = abort_reason(error)
        if not isinstance(error, StreamlinkError):
            # Its text may name what is this machine's own, such as a path.
            reason = f"the server's handler raised {type(error).__name__}; its log has the reason"
        if not self._is_answered:
            self.reply(error=reason)
        self._abort(reason)

    def close(self) -> None:
        """Release the stream, once the handler has returned."""
        # A handler that only acts need not answer: its client gets a reply without facts.
        if not self._is_answered:
            self.reply()
        if self._transfer is not None:
            if not is_complete(self._transfer):
                self._abort("the server's handler ended before the transfer was complete")
            self._transfer.withdraw(self._session.withdraw)

    # --- small parts ----------------------------------------------------------------------

    def _require_open(self) -> None:
        self.check()
        if self._is_answered:
            raise LocalProtocolError(f"the request {self.topic!r} was answered before")

    def _notice(self, direction: Direction) -> TransferNotice:
        clock = self._session.clock
        return TransferNotice(self.peer_name, direction, None, self._on_transfer, clock=clock)

    def _offer(self, transfer: SendTransfer | ReceiveTransfer, facts: Mapping[str, str]) -> None:
        self._transfer = transfer
        transfer.hand_to(self._session.offer)
        transfer.hand_to(self._hub.ticker.add)
        # After the offer: a client that has the reply may open the stream at once.
        self.reply(metadata=facts)
        transfer.obey(self._cancel)
        if self._called_off:  # in between; ``call_off`` may not have seen the transfer
            self._abort(self._called_off)

    def _wait_announced(self, incoming: ReceiveTransfer) -> None:
        seconds = self._session.config.timeouts.open_timeout
        while not incoming.wait_announced(seconds):
            if self._session.is_disconnected:  # it cannot announce anything; the session has limits
                continue
            error = OpenTimeout(
                who=self.peer_name,
                stream=f"the stream of its {self.topic!r}",
                seconds=seconds,
                bytes_done=0,
                setting="open_timeout",
            )
            incoming.abort(error.code, str(error))
            raise error

    def _abort(self, reason: str) -> None:
        if self._transfer is not None and not is_complete(self._transfer):
            self._transfer.abort(AbortCode.CANCELLED, reason)
