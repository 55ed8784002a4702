"""``Peer``: a client as the server sees it, and what the server asks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlink.cancel import CancelToken
from streamlink.errors import StreamlinkError
from streamlink.extent import Extent
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer_facts import OnTransfer, TransferNotice
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, Attempt
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session

__all__ = ["Peer"]


class Peer:
    """A client with a session at this server."""

    def __init__(
        self,
        session: Session,
        server: Hub,
        on_transfer: OnTransfer | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self.name = session.peer_name
        self._session = session
        self._server = server
        self._on_transfer = on_transfer
        self._cancel = cancel or CancelToken()
        self.known = KnownSpecs(session.config.limits.max_tensors)
        """Descriptions that this client has sent or been sent."""

    @property
    def is_here(self) -> bool:
        """Whether its session is open."""
        return not (self._session.closed.is_set() or self._session.is_leaving)

    @property
    def error(self) -> StreamlinkError | None:
        """Why its session ended, once it has."""
        return self._session.error

    @property
    def is_disconnected(self) -> bool:
        """Whether its connection is lost and it may still reconnect."""
        return self.is_here and self._session.is_disconnected

    @property
    def is_lost(self) -> bool:
        """Whether its session has ended, or may end soon: its connection is lost."""
        return not self.is_here or self._session.is_ending or self._session.is_disconnected

    def request(
        self,
        topic: str,
        spec: ModelSpec,
        *,
        attempt: Attempt,
        metadata: Mapping[str, str] = NO_ENTRIES,
        part: Sequence[str] = (),
        sends: Extent | None = None,
        returns: Extent | None = None,
        is_cancellable: bool = True,
    ) -> PeerRequest:
        """Offer the client a model of ``spec`` and expect one back, or the ``part`` of it.

        Args:
            topic: the kind of request.
            spec: the model that goes with it.
            attempt: what both models belong to.
            metadata: small facts for the work, at most 1,024 entries.
            part: patterns of the tensors expected back (see ``model.part``); empty: all.
            sends: the bytes of the model that travel; None: all.
            returns: the bytes of the answer that are expected back; None: all. A client that was
                lost and came back continues its update so, where the process before it stopped.
            is_cancellable: whether the server's token ends the exchange at once: what waits in it
                raises ``Cancelled``. A job passes False, because it ends its requests in order.

        Raises:
            StreamlinkError: the session has ended.
            Cancelled: the server's token was cancelled.
        """
        cancel = self._cancel if is_cancellable else None
        if cancel is not None:
            cancel.check()
        config, number = self._session.config, self._server.new_stream_id
        clock, on_transfer = self._session.clock, self._on_transfer
        # Most updates have the tensors of their model: then their description need not be sent.
        self.known.add(spec)
        outgoing = SendTransfer(
            config,
            spec,
            clock=clock,
            stream_id=number(),
            peer_name=self.name,
            name=f"model to {self.name}, {attempt}",
            attempt=attempt,
            extent=sends,
            notice=TransferNotice(self.name, "sent", attempt, on_transfer, clock=clock),
        )
        incoming = ReceiveTransfer(
            config,
            clock=clock,
            stream_id=number(),
            peer_name=self.name,
            name=f"update of {self.name}, {attempt}",
            attempt=attempt,
            known=self.known,
            extent=returns,
            notice=TransferNotice(self.name, "received", attempt, on_transfer, clock=clock),
        )
        for transfer in (outgoing, incoming):
            transfer.hand_to(self._session.offer)
        # After the offers: a client that has the request may open its streams at once.
        pending = self._session.request(
            topic,
            attempt=attempt,
            sends=outgoing.stream_id,
            returns=incoming.stream_id,
            metadata=metadata,
            part=tuple(part),
            extents=(sends, returns),
        )
        for transfer in (outgoing, incoming):
            transfer.hand_to(self._server.ticker.add)
        # Last: the client's time to open the stream begins when it was asked.
        outgoing.hand_to(self._session.start_offer)
        return PeerRequest(self, self._session, pending, outgoing, incoming, cancel)

    def dismiss(self, reason: str) -> None:
        """End this client's session with a goodbye."""
        self._session.leave(reason)
