"""Rounds in lockstep: one attempt at a time, and what of the next round goes down early."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from streamlink.link import Attempt
from streamlink.link.faults import abort_reason
from streamlink.link.server import Exchange, Peer, Server
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore
from streamlink.model.part import part_of
from streamlink.rounds.combine import ContributorFailed, Step
from streamlink.rounds.comeback import Comeback, answer_to
from streamlink.rounds.contributor import Contributor
from streamlink.rounds.duplex import Tap
from streamlink.rounds.events import ModelFacts, functions_of
from streamlink.rounds.gather import GatherRules, LockstepGather
from streamlink.rounds.report import Standing, ended, hear_out, tell_traceback
from streamlink.rounds.scatter import Plan, Scatter

__all__ = ["Lockstep", "Outcome"]

logger = logging.getLogger("streamlink.rounds")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt gave that made a new model."""

    weights: dict[str, float]
    metrics: dict[str, float]
    client_metrics: dict[str, dict[str, float]]
    metadata: dict[str, Mapping[str, str]]
    standings: Sequence[Standing]


class Lockstep:
    """Runs attempts in lockstep; keeps what the next round was given of its model already."""

    def __init__(self, server: Server, store: ModelStore, plan: Plan) -> None:
        self._server = server
        self._store = store
        self._plan = plan
        self._scatter: Scatter | None = None
        self._early: Scatter | None = None
        self._round = 0
        self._returns: Counter[str] = Counter()  # how often each client came back in this round

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """The requests of the attempt that runs."""
        running = self._scatter  # it may be over before the next line
        return list(running.exchanges.values()) if running is not None else []

    def run(
        self, belongs: Attempt, peers: Sequence[Peer], *, began: float, is_last: bool
    ) -> Outcome:
        """Run one attempt with ``peers``.

        Args:
            belongs: which one.
            peers: who takes part, in the order of accumulation.
            began: when the round did (``running_time``).
            is_last: nothing goes down early.

        Raises:
            ContributorFailed: a client failed; there is no new model.
            OutOfTime: ``train_timeout`` passed.
        """
        logger.info("%s: offered to %s", belongs, ", ".join(peer.name for peer in peers))
        if belongs.round != self._round:
            self._round = belongs.round
            self._returns.clear()
        with closing(self._store.open()) as source:
            scatter = self._scatter = self._begin(belongs)
            try:
                scatter.begin(peers)
                return self._attempt(scatter, peers, source, began, is_last)
            finally:
                self._scatter = None
                scatter.join()

    def forget(self, reason: str) -> None:
        """Give up what the next round was given already."""
        early, self._early = self._early, None
        if early is not None:
            early.end(reason)
            early.join()

    def _begin(self, belongs: Attempt) -> Scatter:
        early = self._early
        if early is not None and early.belongs == belongs:
            self._early = None
            return early
        self.forget("another attempt was begun")
        return Scatter(self._plan, belongs)

    def _attempt(
        self,
        scatter: Scatter,
        peers: Sequence[Peer],
        source: ModelSource,
        began: float,
        is_last: bool,
    ) -> Outcome:
        tap: Tap | None = None
        sink: ModelSink = self._store.begin(source.spec)
        if self._plan.rules.duplex_bytes and source.spec.nbytes and not is_last:
            sink = tap = Tap(sink, self._plan.rules.duplex_bytes)
        try:
            for peer in peers:  # one by one: those asked before one that fails are told so
                if peer.name not in scatter.exchanges:
                    scatter.offer(peer, source)
            gather = self._gather(scatter, peers, source, sink, tap, began)
            gather.run()
        except BaseException as error:
            self._give_up(scatter, sink, error)
            raise
        return self._close(scatter, peers, gather)

    def _gather(
        self,
        scatter: Scatter,
        peers: Sequence[Peer],
        source: ModelSource,
        sink: ModelSink,
        tap: Tap | None,
        began: float,
    ) -> LockstepGather:
        rules, belongs = self._plan.rules, scatter.belongs

        def on_step(step: Step) -> None:
            self._plan.tell_step(step, belongs)
            if step is Step.AGGREGATING and tap is not None:
                self._offer_next(scatter, peers, tap)

        return LockstepGather(
            source,
            part_of(source.spec, rules.part),
            [self._contributor(scatter, peer, source) for peer in peers],
            sink,
            GatherRules(
                held_interval=self._server.config.timeouts.held_interval,
                deadline=began + rules.train_timeout if rules.train_timeout else None,
                train_timeout=rules.train_timeout,
                non_finite=rules.non_finite,
                on_step=on_step,
                outlet=tap,
                check=self._plan.orders.check,
            ),
        )

    def _contributor(self, scatter: Scatter, peer: Peer, source: ModelSource) -> Contributor:
        rules = self._plan.rules
        return Contributor(
            peer.name,
            answer_to(scatter.exchanges[peer.name]),
            weigh=lambda given: self._plan.weigh(peer.name, given),
            filters=lambda update: functions_of(
                self._plan.filters_up, ModelFacts(scatter.belongs, peer.name, update)
            ),
            way_back=Comeback(
                self._server,
                scatter,
                source,
                peer,
                returns=self._returns,
                most=rules.max_attempts,
                seconds=rules.wait_time_after_min_received,
            ),
        )

    def _offer_next(self, scatter: Scatter, peers: Sequence[Peer], tap: Tap) -> None:
        """Offer the next round's task to those who have room for its model already."""
        belongs = scatter.belongs
        early = Scatter(self._plan, Attempt(belongs.job, belongs.round + 1, 1))
        self._early = early
        early.hold(self._server.config.timeouts.held_interval)
        for peer in peers:
            if not scatter.exchanges[peer.name].incoming.update.takes_next:
                continue
            try:
                early.offer_early(peer, tap, self._server.config.timeouts.held_interval)
            except ContributorFailed as failed:  # this round will notice by itself
                logger.debug("%s: not offered to %s: %s", early.belongs, peer.name, failed)

    def _give_up(self, scatter: Scatter, sink: ModelSink, error: BaseException) -> None:
        reason = f"{scatter.belongs} is over: {abort_reason(error)}"
        try:
            if isinstance(error, ContributorFailed) and error.peer in scatter.exchanges:
                tell_traceback(scatter.exchanges[error.peer])
            scatter.end(reason)
        finally:
            sink.discard()
            self.forget(reason)
        scatter.join()  # clients may hear of our own fault before it is noted here
        if scatter.fault is not None:
            raise scatter.fault from error  # our own store's, not that client's

    def _close(self, scatter: Scatter, peers: Sequence[Peer], gather: LockstepGather) -> Outcome:
        metadata = {}
        for peer in peers:
            exchange = scatter.exchanges[peer.name]
            metadata[peer.name] = hear_out(exchange)
            exchange.close()
        standings = ended(scatter.exchanges.values(), gather.weights)
        return Outcome(gather.weights, gather.metrics, gather.client_metrics, metadata, standings)
