"""``Peer``: a client as the server sees it, and what the server asks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamlink.cancel import CancelToken
from streamlink.errors import StreamlinkError
from streamlink.extent import Extent
from streamlink.link.bases import Bases
from streamlink.link.crew import Crew
from streamlink.link.exchange import Exchange, Opened
from streamlink.link.facts import to_metadata
from streamlink.link.filled import Filled
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer_facts import OnTransfer, TransferNotice
from streamlink.model.part import part_of
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, NO_METRICS, Attempt, Request
from streamlink.stores.coercion import SourceLike, TargetLike, as_sink, as_source
from streamlink.transport.facts import require_sendable
from streamlink.transport.hub import Hub
from streamlink.transport.session import PendingReply, Session

__all__ = ["Peer"]


_FILLED = Filled()  # of the process: two servers could be given the same arrays


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
        # Two streams each, in a quarter of ``max_streams``: the rest is for what the client asks,
        # and for streams that are ending.
        most = max(1, session.config.limits.max_streams // 8)
        self._crew = Crew(f"exchange-{self.name}", most=most, most_each=most)
        self.known = KnownSpecs(session.config.limits.max_tensors)
        """Descriptions that this client has sent or been sent."""
        self._doubted: set[str] = set()

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
        bases: Bases | None = None,
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
            bases: kept versions of the model, this one among them; None: there are none. An update
                may be a difference from one, and is never kept itself, whatever the client says.
            is_cancellable: whether the server's token ends the exchange at once: what waits in it
                raises ``Cancelled``. A job passes False, because it ends its requests in order.

        Raises:
            StreamlinkError: the session has ended.
            Cancelled: the server's token was cancelled.
        """
        cancel = self._cancel if is_cancellable else None
        if cancel is not None:
            cancel.check()
        if bases is not None:
            bases = replace(bases, doubted=self._doubted)
        outgoing = self._outgoing(spec, f"model to {self.name}, {attempt}", attempt, sends, bases)
        if bases is not None:
            bases = bases.for_part(spec, part_of(spec, part))
        incoming = self._incoming(f"update of {self.name}, {attempt}", attempt, returns, bases)
        pending = self._send_request(
            Request(
                0,
                topic,
                attempt,
                metadata=metadata,
                part=tuple(part),
                sends_extent=sends,
                returns_extent=returns,
            ),
            outgoing,
            incoming,
        )
        return PeerRequest(self, self._session, pending, outgoing, incoming, cancel)

    def ask(
        self,
        topic: str,
        model: SourceLike | None = None,
        *,
        into: TargetLike | None = None,
        metadata: Mapping[str, str] = NO_ENTRIES,
        metrics: Mapping[str, float] = NO_METRICS,
        timeout: float | None = None,
        attempt: Attempt = Attempt(),
    ) -> Exchange:
        """Ask the client, and return at once a future of what it answers.

        The exchange moves both models itself. A few with one client run at the same time (an eighth
        of ``limits.max_streams``), others wait for their turn. An answer into arrays or a module
        changes them while it arrives; after a failure they may be part old and part new.

        Args:
            topic: the kind of request.
            model: what is sent; it must not change meanwhile. See ``SourceLike``. None: nothing.
            into: where the client's model goes, such as a dict of arrays, a store, or a function
                that gets the ``ModelSpec`` of the answer and returns a sink. See ``TargetLike``.
                None: no model is wanted back.
            metadata: small facts for the client, at most 1,024 entries with those of ``metrics``.
            metrics: numbers for the client.
            timeout: how long the whole exchange may take (seconds); None: as long as it makes
                progress, see ``communication_timeout``.
            attempt: job, round and attempt that it belongs to, if it is part of a job.

        Returns:
            The future. It fails with ``ExchangeFailed``, whatever the cause.

        Raises:
            ModelError: ``model`` cannot be read, or no model can go into ``into``, such as arrays
                that another exchange still fills.
            StoreError: there is no model at the path, or no store can be there.
            LocalProtocolError: a fact in ``metadata`` or the topic is no text, or there is too much
                of it.
            ValueError: a name in ``metadata`` begins with ``streamlink.``, or a metric is not a
                finite number.
            Cancelled: the server's token was cancelled.
        """
        self._cancel.check()
        # Here, in the caller's thread: what can never be sent raises at once, at the line to mend.
        facts = to_metadata(metadata, metrics)
        require_sendable(facts, topic=topic)
        sink_for = None if into is None else as_sink(into)
        give_back = _FILLED.take(into)
        try:
            source = None if model is None else as_source(model)
        except BaseException:
            give_back()
            raise

        def open_it(spec: ModelSpec | None, has_answer: bool) -> Opened:
            return self._open_exchange(topic, attempt, facts, spec, has_answer)

        def release() -> None:
            give_back()
            if source is not None and source is not model:  # the user's own stays open
                source.close()

        exchange = Exchange(
            self.name,
            topic,
            source,
            sink_for,
            open_it,
            clock=self._session.clock,
            cancel=self._cancel,
            release=release,
            timeout=timeout,
        )
        try:
            self._crew.give(self.name, exchange.run)
        except BaseException:  # no thread: nobody gets it, so nobody else would release the model
            exchange.cancel()
            raise
        return exchange

    def _open_exchange(
        self,
        topic: str,
        attempt: Attempt,
        facts: Mapping[str, str],
        spec: ModelSpec | None,
        has_answer: bool,
    ) -> Opened:
        outgoing = incoming = None
        if spec is not None:
            outgoing = self._outgoing(spec, f"model of {topic!r} to {self.name}", attempt, None)
        if has_answer:
            incoming = self._incoming(f"answer of {self.name} to {topic!r}", attempt, None)
        request = Request(0, topic, attempt, metadata=facts)
        pending = self._send_request(request, outgoing, incoming)
        return Opened(self._session, pending, outgoing, incoming)

    def _outgoing(
        self,
        spec: ModelSpec,
        name: str,
        attempt: Attempt,
        extent: Extent | None,
        bases: Bases | None = None,
    ) -> SendTransfer:
        # Most answers have the tensors of their model: then their description need not be sent.
        self.known.add(spec)
        clock = self._session.clock
        return SendTransfer(
            self._session.config,
            spec,
            clock=clock,
            stream_id=self._server.new_stream_id(),
            peer_name=self.name,
            name=name,
            attempt=attempt,
            extent=extent,
            lossy=self._session.config.stream.lossy_down,
            bases=bases,
            is_kept=bases is not None,
            notice=TransferNotice(self.name, "sent", attempt, self._on_transfer, clock=clock),
        )

    def _incoming(
        self, name: str, attempt: Attempt, extent: Extent | None, bases: Bases | None = None
    ) -> ReceiveTransfer:
        clock = self._session.clock
        return ReceiveTransfer(
            self._session.config,
            clock=clock,
            stream_id=self._server.new_stream_id(),
            peer_name=self.name,
            name=name,
            attempt=attempt,
            known=self.known,
            extent=extent,
            bases=bases,
            notice=TransferNotice(self.name, "received", attempt, self._on_transfer, clock=clock),
        )

    def _send_request(
        self, request: Request, outgoing: SendTransfer | None, incoming: ReceiveTransfer | None
    ) -> PendingReply:
        """Offer the streams, and send what the client opens them for."""
        transfers = [each for each in (outgoing, incoming) if each is not None]
        for transfer in transfers:
            transfer.hand_to(self._session.offer)
        # After the offers: a client that has the request may open its streams at once.
        try:
            pending = self._session.request(
                request.topic,
                attempt=request.attempt,
                sends=0 if outgoing is None else outgoing.stream_id,
                returns=0 if incoming is None else incoming.stream_id,
                metadata=request.metadata,
                part=request.part,
                extents=(request.sends_extent, request.returns_extent),
            )
        except BaseException:
            for transfer in transfers:
                transfer.withdraw(self._session.withdraw)
            raise
        for transfer in transfers:
            transfer.hand_to(self._server.ticker.add)
        # Last: the client's time to open the stream begins when it was asked. The answer's stream
        # has no such limit: the client opens it when it has something to send, and *processing* is
        # watched until then.
        if outgoing is not None:
            outgoing.hand_to(self._session.start_offer)
        return pending

    def dismiss(self, reason: str) -> None:
        """End this client's session with a goodbye."""
        self._session.leave(reason)
