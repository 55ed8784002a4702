"""The sending half of a round: it asks each client, and a thread sends the model on its stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from streamlink.errors import (
    AbortCode,
    ModelError,
    StoreError,
    StreamAborted,
    StreamlinkError,
    code_of,
)
from streamlink.extent import Extent
from streamlink.link import Attempt
from streamlink.link.peer import Peer
from streamlink.link.peer_request import PeerRequest
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.interfaces import ModelSource
from streamlink.model.part import part_of, place_in
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.events import EventKind
from streamlink.rounds.plan import Plan

__all__ = ["Scatter", "Send"]

logger = logging.getLogger("streamlink.rounds")

Send = Callable[[SendTransfer, ModelSource], object]
"""``send(transfer, source)`` sends all of ``source``, as ``send_model`` does."""


class Scatter:
    """The requests of one attempt: made one by one, served by a thread each, ended together."""

    def __init__(self, plan: Plan, attempt: Attempt) -> None:
        self.attempt = attempt
        self.exchanges: dict[str, PeerRequest] = {}
        self._plan = plan
        self._senders: list[threading.Thread] = []
        self._has_begun = plan.clock.event()
        self._fault: Exception | None = None

    def offer(
        self,
        peer: Peer,
        source: ModelSource,
        attempt: Attempt | None = None,
        *,
        update_start: int = 0,
        send: Send = send_model,
    ) -> PeerRequest:
        """Ask ``peer`` for an update, and send it the model of ``source``.

        Args:
            peer: the client.
            source: the model.
            attempt: of the request; None: this one.
            update_start: its update is wanted from this byte on; the model is sent from there, too.
            send: sends the model, in a thread of its own.

        Raises:
            ContributorFailed: its session is lost.
        """
        exchange = self._ask(peer, source, attempt or self.attempt, update_start)
        seen = self._plan.sent_to(peer.name, self.attempt, source)
        self._start(exchange, lambda: send(exchange.outgoing, seen))
        return exchange

    def hold(self, interval: float) -> None:
        """Until this attempt begins, notify its clients that they wait for the round before."""

        def pulse() -> None:
            while not self._has_begun.wait(interval):
                # A copy, since the thread of the rounds adds to it.
                for exchange in list(self.exchanges.values()):
                    if exchange.incoming.is_announced:
                        # It answers already, so its work is not late; what it sends waits here
                        # unread.
                        exchange.reply_began()
                        exchange.incoming.hold("busy", "the round before")

        thread = threading.Thread(target=pulse, name="hold-early", daemon=True)
        thread.start()
        self._senders.append(thread)

    def begin(self, peers: Sequence[Peer]) -> None:
        """Begin with ``peers``; end the requests of other clients, and those that have failed."""
        self._has_begun.set()
        # Requests are here already if they were made early (duplex), for clients that may be gone.
        known = {peer.name: peer for peer in peers}
        for name, exchange in list(self.exchanges.items()):
            if name not in known or not exchange.is_good_for(known[name]):
                del self.exchanges[name]
                exchange.end(AbortCode.STALE_ATTEMPT, "it takes no part in this round")

    def end(self, reason: str) -> None:
        """End all requests; nothing of them counts."""
        # Also where it never began: this ends the thread of ``hold``, which ``join`` waits for.
        self._has_begun.set()
        for exchange in self.exchanges.values():
            exchange.end(AbortCode.STALE_ATTEMPT, reason)

    def join(self) -> None:
        """Wait until no thread reads the source any more: then it may be closed."""
        # Without a limit of its own: the streams have deadlines, and a source that is closed while
        # it is read would fail in ways that no error describes.
        for sender in self._senders:
            self._plan.clock.join(sender)

    @property
    def fault(self) -> Exception | None:
        """What failed on this side while sending: our store, or a filter. No client is to blame."""
        return self._fault

    def _ask(
        self, peer: Peer, source: ModelSource, attempt: Attempt, update_start: int = 0
    ) -> PeerRequest:
        rules, metadata = self._plan.rules, self._plan.facts(attempt, peer.name)
        spec, sends, returns = source.spec, None, None
        if update_start:
            part = part_of(spec, rules.part)
            # The update has the tensors of ``part`` only, so its bytes have other places in the
            # model.
            sends = Extent(place_in(spec, part, update_start), spec.nbytes)
            returns = Extent(update_start, part.nbytes)
        try:
            exchange = peer.request(
                rules.train_task_name,
                spec,
                attempt=attempt,
                metadata=metadata,
                part=rules.part,
                sends=sends,
                returns=returns,
                bases=self._plan.kept.bases if self._plan.kept is not None else None,
                is_cancellable=False,
            )
        except StreamlinkError as error:
            raise ContributorFailed(peer.name, error) from error
        # Before the event, whose listener may raise: ``end`` has to find every request.
        self.exchanges[peer.name] = exchange
        self._plan.emit(EventKind.TASK_OFFERED, attempt, peer.name)
        return exchange

    def _start(self, exchange: PeerRequest, send: Callable[[], object]) -> None:
        def run() -> None:
            try:
                send()
                exchange.request_complete()
            except Exception as error:
                # Before the abort, which wakes the gathering: it looks for a fault of ours.
                if not isinstance(error, StreamlinkError) or isinstance(error, _OURS):
                    self._fault = error
                # The gathering waits on the other stream of this client: abort it, with the reason.
                logger.debug("sending to %s ended: %s", exchange.peer_name, error)
                exchange.incoming.abort(code_of(error), _why(error))

        thread = threading.Thread(target=run, name=f"send-{exchange.peer_name}", daemon=True)
        thread.start()
        self._senders.append(thread)


_OURS = (ModelError, StoreError)
"""Errors of our own store or filters, whichever client the model was sent to."""


def _why(error: Exception) -> str:
    """Return why the model was not sent; where the task raised, sending it is not to blame."""
    if isinstance(error, StreamAborted) and error.code is AbortCode.TASK_FAILED:
        return f"its task failed: {error.reason}"
    return f"sending it the model failed: {error}"
