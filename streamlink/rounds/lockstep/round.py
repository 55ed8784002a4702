"""Runs rounds in lockstep: one attempt after another, as ``rule`` decides."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import closing

from streamlink.errors import AbortCode, QuorumNotReached, StreamAborted, StreamlinkError
from streamlink.filters import FilterContext, functions_of
from streamlink.link import Attempt, Update
from streamlink.link.peer import Peer
from streamlink.link.peer_request import PeerRequest
from streamlink.link.server import Server
from streamlink.link.transfer import abort_reason
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore
from streamlink.model.part import part_of
from streamlink.rounds.aggregate.clip import DeclaredNorms
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.gather import Downstream, Gather, GatherRules, TrainTimeout
from streamlink.rounds.events import EventKind
from streamlink.rounds.lockstep.duplex import Duplex
from streamlink.rounds.lockstep.resume import LockstepResume
from streamlink.rounds.lockstep.rule import LockstepRule
from streamlink.rounds.lockstep.source import LiveSource
from streamlink.rounds.plan import Plan
from streamlink.rounds.report import (
    ClientProgress,
    RoundReport,
    final_progress,
    log_traceback,
    wait_for_reply,
)
from streamlink.rounds.resume import answer_of
from streamlink.rounds.scatter import Scatter

__all__ = ["Lockstep"]

logger = logging.getLogger("streamlink.rounds")


class Lockstep:
    """Runs rounds in lockstep."""

    def __init__(self, server: Server, store: ModelStore, plan: Plan) -> None:
        self._server = server
        self._store = store
        self._plan, self._clock = plan, plan.clock
        self._scatter: Scatter | None = None
        self._early = Duplex(plan, server.config.timeouts.held_interval)
        self.ended: Sequence[ClientProgress] = ()
        """How far each client had come whose update counted in the last round."""

    @property
    def exchanges(self) -> Sequence[PeerRequest]:
        """The requests of the attempt that runs."""
        running = self._scatter  # read once: another thread may set it to None
        return list(running.exchanges.values()) if running is not None else []

    def run_round(
        self, number: int, *, is_last: bool, chosen: Collection[str] | None = None
    ) -> RoundReport:
        """Run one round, over as many attempts as it needs.

        Args:
            number: of the round.
            is_last: no round follows, so nothing is sent early.
            chosen: the clients that may be asked; None: all that are connected.

        Raises:
            QuorumNotReached: too few clients are left, ``train_timeout`` passed, or there were
                ``max_attempts`` attempts; the store keeps the last model.
            StoreError: the model cannot be read or stored.
        """
        began = self._clock()
        rule = LockstepRule(self._plan.rules, number, now=began)
        while True:
            here = {
                peer.name: peer
                for peer in self._server.peers()
                if chosen is None or peer.name in chosen
            }
            peers = [here[name] for name in rule.begin(here)]
            attempt = Attempt(self._plan.job, number, rule.attempt)
            try:
                return self._run_attempt(attempt, peers, rule, began, is_last)
            except ContributorFailed as failed:
                logger.debug("%s: %s", attempt, failed)  # the event below has the reason
                cause = failed.__cause__
                error = cause if isinstance(cause, StreamlinkError) else failed
                rule.fail(failed.peer_name, error, was_awaited=failed.was_awaited)
                self._wait_for_lost(peers, rule)
                # After the wait: a client that came back has not dropped out.
                self._tell_dropped(attempt, peers, rule)
            except TrainTimeout as late:
                raise QuorumNotReached(f"round {number}: {late}", rule.failures) from late

    def forget(self, reason: str) -> None:
        """Cancel what was sent early for the next round."""
        self._early.forget(reason)

    # --- between two attempts -----------------------------------------------------------------

    def _wait_for_lost(self, peers: Sequence[Peer], rule: LockstepRule) -> None:
        """Wait for the clients among ``peers`` whose session is lost.

        Not for one that is connected and failed all the same: its task raised, or its stream
        stalled. Each ``Peer`` is the session that was asked: a new process of that name is another.
        """

        def gone() -> list[str]:
            return [peer.name for peer in peers if not peer.is_here]

        while names := rule.lose(gone(), now=self._clock()):  # more may be lost during the wait
            reasons = self._server.barred
            for name in reasons.keys() & set(names):
                reason = reasons[name]
                rule.exclude(name, StreamAborted(AbortCode.CANCELLED, reason, by_peer=False))
            if rule.lost:
                awaited = ", ".join(rule.lost)
                logger.info("waiting up to %g s for %s to come back", rule.grace, awaited)
            # One by one, though their grace times run together: in all it takes no longer than the
            # last.
            while lost := rule.lost:
                self._wait_for_one(lost[0], rule)

    def _wait_for_one(self, name: str, rule: LockstepRule) -> None:
        left, check = rule.grace_left(name, now=self._clock()), self._plan.stop.check
        if self._server.wait_for_peer(name, left, check) is not None:
            rule.come_back(name)
        else:
            rule.expire(name, now=self._clock())

    def _tell_dropped(self, attempt: Attempt, peers: Sequence[Peer], rule: LockstepRule) -> None:
        for peer in peers:
            if (error := rule.failures.get(peer.name)) is not None:
                self._plan.emit(EventKind.CLIENT_DROPPED, attempt, peer.name, str(error))

    # --- one attempt --------------------------------------------------------------------------

    def _run_attempt(
        self,
        attempt: Attempt,
        peers: Sequence[Peer],
        rule: LockstepRule,
        began: float,
        is_last: bool,
    ) -> RoundReport:
        logger.info("%s: offered to %s", attempt, ", ".join(peer.name for peer in peers))
        with closing(self._store.open()) as source:
            scatter = self._scatter = self._early.take(attempt)
            try:
                scatter.begin(peers)
                gather = self._gathered(scatter, peers, source, rule, is_last)
                return self._close(scatter, peers, gather, rule, began)
            finally:
                self._scatter = None
                # Before the source is closed: a thread that sends may still read it.
                scatter.join()

    def _gathered(
        self,
        scatter: Scatter,
        peers: Sequence[Peer],
        source: ModelSource,
        rule: LockstepRule,
        is_last: bool,
    ) -> Gather:
        sink, downstream = self._early.attach(
            self._plan.keeping(self._store.begin(source.spec)), scatter, peers, is_last=is_last
        )
        try:
            for peer in peers:  # one by one: if one fails, those before it are cancelled
                if peer.name not in scatter.exchanges:
                    scatter.offer(peer, source)
            gather = self._gather(scatter, peers, source, sink, downstream, rule)
            gather.run()
        except BaseException as error:
            self._give_up(scatter, sink, error)
            raise
        return gather

    def _gather(
        self,
        scatter: Scatter,
        peers: Sequence[Peer],
        source: ModelSource,
        sink: ModelSink,
        downstream: Downstream | None,
        rule: LockstepRule,
    ) -> Gather:
        rules = self._plan.rules
        norms = DeclaredNorms(rules.clip_norm, source) if rules.clip_norm else None
        return Gather(
            source,
            part_of(source.spec, rules.part),
            [self._contributor(scatter, peer, source, rule, norms) for peer in peers],
            sink,
            GatherRules(
                clock=self._clock,
                held_interval=self._server.config.timeouts.held_interval,
                deadline=rule.deadline,
                train_timeout=rules.train_timeout,
                non_finite=rules.non_finite,
                aggregator=self._plan.aggregator,
                keeper=self._plan.keeper,
                on_whole=lambda gather: self._accept(gather, scatter, rule, norms),
                on_step=lambda step: self._plan.emit_step(step, scatter.attempt),
                downstream=downstream,
                check=self._plan.stop.check,
            ),
        )

    def _accept(
        self, gather: Gather, scatter: Scatter, rule: LockstepRule, norms: DeclaredNorms | None
    ) -> None:
        """Check the updates, which are whole, and note in the ledger that they are committed."""
        if norms is not None:
            norms.verify()
        self._plan.book.expect(
            scatter.attempt.round,
            gather.weights,
            gather.client_metrics,
            rule.missing(gather.weights),
        )

    def _contributor(
        self,
        scatter: Scatter,
        peer: Peer,
        source: ModelSource,
        rule: LockstepRule,
        norms: DeclaredNorms | None,
    ) -> LiveSource:
        def require(update: Update) -> None:
            if norms is not None:
                norms.require(peer.name, update)

        def filters(update: Update) -> list[RangeFunction]:
            context = FilterContext(scatter.attempt, peer.name, update)
            functions = functions_of(self._plan.filters_up, context)
            # The first: filters may add noise, which is not to be shortened.
            return [norms.function(peer.name, update), *functions] if norms else functions

        return LiveSource(
            peer.name,
            answer_of(scatter.exchanges[peer.name]),
            weigh=lambda given: self._plan.weigh(peer.name, given),
            require=require,
            filters=filters,
            resume=LockstepResume(self._server, scatter, source, peer, rule),
        )

    def _give_up(self, scatter: Scatter, sink: ModelSink, error: BaseException) -> None:
        reason = f"{scatter.attempt} is over: {abort_reason(error)}"
        try:
            # Before ``end``, which cancels the request whose reply brings the traceback.
            if isinstance(error, ContributorFailed) and error.peer_name in scatter.exchanges:
                log_traceback(scatter.exchanges[error.peer_name], error.__cause__)
            scatter.end(reason)
        finally:
            sink.discard()
            self.forget(reason)
        scatter.join()  # a client may report our own fault before the sending thread notes it
        if scatter.fault is not None:
            raise scatter.fault from error  # our own store's, not that client's

    def _close(
        self,
        scatter: Scatter,
        peers: Sequence[Peer],
        gather: Gather,
        rule: LockstepRule,
        began: float,
    ) -> RoundReport:
        metadata = {}
        for peer in peers:
            exchange = scatter.exchanges[peer.name]
            metadata[peer.name] = wait_for_reply(exchange)
            exchange.close()
        self.ended = final_progress(scatter.exchanges.values(), gather.weights)
        return RoundReport(
            scatter.attempt.round, scatter.attempt.attempt, self._clock() - began,
            gather.weights, gather.metrics, rule.missing(gather.weights), metadata,
            client_metrics=gather.client_metrics,
        )  # fmt: skip
