"""The sending half of a round: each client is asked, and a thread feeds the model to its stream."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streamlink.config import RoundConfig
from streamlink.errors import AbortCode, RoundError, StreamlinkError
from streamlink.link import Attempt
from streamlink.link.outgoing import OutgoingModel, send_model
from streamlink.link.server import Exchange, Peer
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.rounds.combine import ContributorFailed, Step
from streamlink.rounds.duplex import Tap
from streamlink.rounds.events import (
    Filter,
    Happening,
    ModelFacts,
    RoundEvent,
    filtered,
    functions_of,
)

__all__ = ["Metadata", "Plan", "Scatter"]

logger = logging.getLogger("streamlink.rounds")

Metadata = Callable[[Attempt, str], Mapping[str, str]]
"""``metadata(attempt, peer)`` returns the small facts that go with a client's task."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What all rounds of a job have in common."""

    job: str
    rules: RoundConfig
    filters_down: Sequence[Filter]
    filters_up: Sequence[Filter]
    metadata: Metadata
    on_event: Callable[[RoundEvent], None]
    weights: Mapping[str, float] | None = None

    def weigh(self, peer: str, given: float) -> float:
        """Return the weight that counts for ``peer``, which gave ``given``."""
        if self.rules.weights == "equal":
            return 1.0
        return (self.weights or {}).get(peer, given)

    def tell(self, what: Happening, attempt: Attempt, peer: str = "", detail: str = "") -> None:
        """Tell the embedder what happened; what it raises ends the round."""
        self.on_event(RoundEvent(what, attempt, peer, detail))

    def tell_step(self, step: Step, attempt: Attempt) -> None:
        """Tell the embedder how far the gathering is."""
        for happening in _HAPPENINGS[step]:
            self.tell(happening, attempt)


class Scatter:
    """The requests of one attempt: made one by one, fed by a thread each, ended together."""

    def __init__(self, plan: Plan, belongs: Attempt) -> None:
        self.belongs = belongs
        self.exchanges: dict[str, Exchange] = {}
        self._plan = plan
        self._senders: list[threading.Thread] = []
        self._fault: Exception | None = None

    def offer(self, peer: Peer, source: ModelSource, belongs: Attempt | None = None) -> Exchange:
        """Ask ``peer``, and feed it the model of ``source``.

        Raises:
            ContributorFailed: it is not there any more.
        """
        exchange = self._ask(peer, source, belongs or self.belongs)
        seen = self._filtered(source, peer.name)
        self._start(exchange, lambda: send_model(exchange.outgoing, seen))
        return exchange

    def offer_early(self, peer: Peer, tap: Tap, held_interval: float) -> Exchange:
        """Ask ``peer`` for the next round, and feed it what ``tap`` gives as it is computed.

        Raises:
            ContributorFailed: it is not there any more.
        """
        source = tap.open(peer.name)
        exchange = self._ask(peer, source, self.belongs)
        seen = self._filtered(source, peer.name)

        def supply(offset: int, nbytes: int) -> Payload:
            ready = tap.wait(offset, held_interval)
            if not ready:  # an empty answer lets the word of it leave
                exchange.outgoing.hold("duplex", "the round before")
                return ()
            return seen.read(offset, min(nbytes, ready))

        def send() -> None:
            try:
                _send_drawn(exchange.outgoing, supply)
            finally:
                source.close()

        self._start(exchange, send)
        return exchange

    def keep(self, peers: Sequence[Peer]) -> None:
        """End the requests of everybody else."""
        for name in self.exchanges.keys() - {peer.name for peer in peers}:
            self.exchanges.pop(name).end(AbortCode.STALE_ATTEMPT, "it takes no part in this round")

    def end(self, reason: str) -> None:
        """Give all requests up; nothing of them counts."""
        for exchange in self.exchanges.values():
            exchange.end(AbortCode.STALE_ATTEMPT, reason)

    def join(self) -> None:
        """Wait until nobody reads the source any more: it may be closed then."""
        for sender in self._senders:
            sender.join()

    @property
    def fault(self) -> Exception | None:
        """What went wrong with reading our own store, if that did."""
        return self._fault

    def _ask(self, peer: Peer, source: ModelSource, belongs: Attempt) -> Exchange:
        rules, metadata = self._plan.rules, self._facts(belongs, peer.name)
        try:
            exchange = peer.ask(
                rules.train_task_name,
                source.spec,
                attempt=belongs,
                metadata=metadata,
                part=rules.part,
            )
        except StreamlinkError as error:
            raise ContributorFailed(peer.name, error) from error
        self.exchanges[peer.name] = exchange
        self._plan.tell(Happening.TASK_OFFERED, belongs, peer.name)
        return exchange

    def _facts(self, belongs: Attempt, peer: str) -> Mapping[str, str]:
        facts = self._plan.metadata(belongs, peer)
        for name, value in facts.items():
            if not all(isinstance(text, str) for text in (name, value)):
                raise RoundError(
                    f"the metadata for {peer} has {name!r}: {value!r}; both must be text (str)"
                )
        return facts

    def _filtered(self, source: ModelSource, peer: str) -> ModelSource:
        facts = ModelFacts(self.belongs, peer)
        return filtered(source, functions_of(self._plan.filters_down, facts))

    def _start(self, exchange: Exchange, send: Callable[[], object]) -> None:
        def run() -> None:
            try:
                send()
                exchange.request_complete()
            except Exception as error:
                if isinstance(error, OSError) and not isinstance(
                    error, ConnectionError | TimeoutError
                ):
                    self._fault = error
                # The gather waits on the other stream: end it, with the reason.
                logger.debug("sending to %s ended: %s", exchange.peer, error)
                reason = f"sending it the model failed: {error}"
                exchange.incoming.abort(AbortCode.CANCELLED, reason)

        thread = threading.Thread(target=run, name=f"send-{exchange.peer}", daemon=True)
        thread.start()
        self._senders.append(thread)


_HAPPENINGS = {
    Step.AGGREGATING: (Happening.BEFORE_AGGREGATION,),
    Step.AGGREGATED: (Happening.AFTER_AGGREGATION, Happening.BEFORE_PERSIST),
    Step.PERSISTED: (Happening.AFTER_PERSIST,),
}


def _send_drawn(model: OutgoingModel, supply: Callable[[int, int], Payload]) -> None:
    try:
        model.draw(supply)
        model.finish()
    except BaseException as error:
        model.abort(AbortCode.STALE_ATTEMPT, str(error))
        raise
    finally:
        model.pump.wait_undrawn()
