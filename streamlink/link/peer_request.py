"""``PeerRequest``: one request to one client, with a model there and a model back."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from dataclasses import replace

from streamlink.cancel import CancelToken
from streamlink.errors import AbortCode, Cancelled, StreamAborted, StreamlinkError
from streamlink.link.facts import own
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.protocol.frames import Reply
from streamlink.protocol.stats import CREDIT, NETWORK, NOTHING, StreamStats
from streamlink.transport.session import PendingReply, Session

__all__ = ["PeerRequest", "is_peers_turn"]


class PeerRequest:
    """One request to one client, with the model that goes with it and the one expected back."""

    def __init__(
        self,
        peer: object,
        session: Session,
        pending: PendingReply,
        outgoing: SendTransfer,
        incoming: ReceiveTransfer,
        cancel: CancelToken | None = None,
    ) -> None:
        self.peer_name = session.peer_name
        self.outgoing = outgoing
        self.incoming = incoming
        self._peer = peer  # only compared: a client that is back is another one
        self._session = session
        self._pending = pending
        self._cancel_reason: str | None = None
        # The reply ends the stage *processing*: from then on the client's stream is due.
        pending.add_done_callback(self._expect_update)
        self._until_closed = ExitStack()
        if cancel is not None:
            self._until_closed.enter_context(cancel.calling(self._cancelled))

    def request_complete(self) -> None:
        """The client has the whole model: the stage *processing* begins."""
        self._session.request_complete(self._pending)

    def reply_began(self) -> None:
        """The first byte of the answer has arrived: the stage *processing* has ended."""
        self._session.reply_began(self._pending)

    def wait_reply(self, seconds: float) -> Reply | None:
        """Return the client's answer; None: not within ``seconds``.

        Raises:
            StreamlinkError: the session ended, or the request ran into its deadline.
            Cancelled: the server's token was cancelled.
        """
        try:
            reply = self._pending.result(timeout=seconds)
            return replace(reply, metadata=own(reply.metadata))
        except CancelledError:
            if self._cancel_reason is None:
                raise
            raise Cancelled(self._cancel_reason) from None
        except StreamlinkError:
            raise  # one of ours may be a TimeoutError, too
        except FutureTimeout:
            return None

    @property
    def failure(self) -> StreamlinkError | None:
        """Why this request has failed, if it has: session, deadline, or the client's task."""
        # For these ``exception()`` would wait, or raise CancelledError.
        if not self._pending.done() or self._pending.cancelled():
            return None
        error = self._pending.exception()
        if error is None and (reason := self._pending.result().error):
            error = StreamAborted(AbortCode.TASK_FAILED, reason, by_peer=True, who=self.peer_name)
        return error if isinstance(error, StreamlinkError) else None

    def is_good_for(self, peer: object) -> bool:
        """Whether the request was sent to ``peer``, and neither it nor its streams have failed."""
        errors = (self.failure, self.outgoing.error, self.incoming.error)
        return peer is self._peer and not any(errors)

    def end(self, code: AbortCode, reason: str) -> None:
        """Cancel the request: both streams are aborted, and its update does not count."""
        # The request first: a reply that comes just now must find nobody.
        self._session.cancel(self._pending, reason)
        for transfer in (self.outgoing, self.incoming):
            transfer.abort(code, reason)
        self.close()

    def close(self) -> None:
        """Release both streams. A transfer that is not complete is aborted, and has failed."""
        self._until_closed.close()
        reason = "the server closed the exchange before the transfer was complete"
        if not self.incoming.is_committed:  # a commit may have to be sent again, over another call
            self.incoming.abort(AbortCode.CANCELLED, reason)
        if self.outgoing.received_bytes < self.outgoing.extent.stop:
            # Else the commit may be on its way behind the reply, which took another call.
            self.outgoing.abort(AbortCode.CANCELLED, reason)
        for transfer in (self.outgoing, self.incoming):
            transfer.hand_to(self._session.withdraw)

    def _expect_update(self, pending: Future[Reply]) -> None:
        if not pending.cancelled() and pending.exception() is None:
            self.incoming.hand_to(self._session.expect)

    def _cancelled(self, reason: str) -> None:
        # First: ``wait_reply`` looks for it as soon as the future is cancelled.
        self._cancel_reason = reason
        for transfer in (self.outgoing, self.incoming):
            transfer.cancel(reason)
        self._session.cancel(self._pending, reason)


def is_peers_turn(down: StreamStats, up: StreamStats) -> bool:
    """Return whether the peer has all that it was sent, and none of its answer waits here.

    Then it works, or what it has done is on its way. ``down`` is sent here, ``up`` received.
    """
    has_what_was_sent = down.stalled_by == CREDIT or 0 < down.extent.stop == down.consumed_bytes
    is_awaited = up.stalled_by in (NOTHING, NETWORK) and not up.is_all_received
    return has_what_was_sent and is_awaited and not (down.in_flight_bytes or up.in_flight_bytes)
