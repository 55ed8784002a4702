"""Runs a round through the spool: the first updates count, and the rule leaves out stragglers."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from streamlink.errors import (
    AbortCode,
    Cancelled,
    QuorumNotReached,
    StreamAborted,
    StreamlinkError,
)
from streamlink.filters import FilterContext, functions_of
from streamlink.link import Attempt
from streamlink.link.peer import Peer
from streamlink.link.peer_request import PeerRequest
from streamlink.link.server import Server
from streamlink.link.transfer import abort_reason
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSource, ModelStore
from streamlink.model.part import part_of
from streamlink.rounds.aggregate.clip import DeclaredNorms, clipped_to, norm_of
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.gather import Gather, GatherRules
from streamlink.rounds.events import EventKind
from streamlink.rounds.ledger import Run
from streamlink.rounds.plan import Plan
from streamlink.rounds.report import RoundReport, log_traceback, wait_for_reply
from streamlink.rounds.resume import answer_of, ask_for_rest, is_lost
from streamlink.rounds.scatter import Scatter
from streamlink.rounds.spool.rule import SpoolRule
from streamlink.rounds.spool.source import StoredSource
from streamlink.rounds.spool.spool import Spool
from streamlink.rounds.spool.stored import StoredUpdate
from streamlink.stores.safetensors import SafetensorsStore

__all__ = ["SpooledRound", "store_at"]

logger = logging.getLogger("streamlink.rounds")

_POLL_SECONDS = 1.0  # how often the server looks whether a lost client is back


class SpooledRound:
    """Runs one round: asks the clients, stores their updates, and aggregates what is stored."""

    def __init__(
        self,
        server: Server,
        store: ModelStore,
        plan: Plan,
        directory: Path,
        number: int,
        *,
        run: Run = Run(),
        recovered: Sequence[StoredUpdate] = (),
    ) -> None:
        self._server = server
        self._store = store
        self._plan, self._clock = plan, plan.clock
        self._directory = directory
        self._attempt = Attempt(plan.job, number, 1)
        self._run = run
        self._recovered = recovered
        self._scatter = Scatter(plan, self._attempt)
        self._attempts: dict[str, int] = {}  # an update that is resumed stays in its attempt
        self._asked: Counter[str] = Counter()  # how often, for ``max_attempts``
        self._peers: dict[str, Peer] = {}
        self._failures: dict[str, StreamlinkError] = {}
        self._norms: dict[str, float] = {}
        self._metadata: dict[str, Mapping[str, str]] = {}

    @property
    def exchanges(self) -> Sequence[PeerRequest]:
        """The requests that are made."""
        return list(self._scatter.exchanges.values())

    def run(self, peers: Sequence[Peer]) -> RoundReport:
        """Run it with ``peers``, and with recovered updates, whose clients are not asked.

        Raises:
            QuorumNotReached: too few updates arrived; the store keeps the last model.
            StoreError: this side's disk failed.
        """
        began = self._clock()
        names = [peer.name for peer in peers]
        rule = SpoolRule(self._plan.rules, names, now=self._clock())
        with closing(self._store.open()) as source:
            part = part_of(source.spec, self._plan.rules.part)
            spool = Spool(
                self._directory, source.spec, part, self._attempt,
                store_at=store_at, clock=self._clock, clients=len(peers),
                run=self._run, recovered=self._recovered,
                take_first=self._plan.rules.take_first,
                expiry=self._server.config.timeouts.partial_expiry,
            )  # fmt: skip
            is_interrupted = False
            try:
                self._take_recovered(rule)
                self._gather(peers, source, spool, rule)
                return self._combine(source, spool, rule, began)
            except BaseException as error:
                # Only then can a later run use what is stored: any other error ends the round.
                is_interrupted = isinstance(error, Cancelled) or not isinstance(error, Exception)
                self._scatter.end(f"{self._attempt} is over: {abort_reason(error)}")
                self._blame_ourselves(error)
                raise
            finally:
                spool.close(keeps_whole=is_interrupted and bool(self._run.id))
                self._scatter.join()

    def _blame_ourselves(self, error: BaseException) -> None:
        """Raise the fault of our own store instead, where that is why the updates failed."""
        if isinstance(error, QuorumNotReached):
            self._scatter.join()  # a client may report it before the sending thread notes it
            if self._scatter.fault is not None:
                raise self._scatter.fault from error

    # --- gathering ------------------------------------------------------------------------

    def _take_recovered(self, rule: SpoolRule) -> None:
        for update in self._recovered:
            rule.arrive(update.peer_name, now=self._clock())
            self._plan.emit(EventKind.UPDATE_ARRIVED, self._attempt, update.peer_name, "recovered")

    def _gather(
        self, peers: Sequence[Peer], source: ModelSource, spool: Spool, rule: SpoolRule
    ) -> None:
        logger.info("%s: offered to %s", self._attempt, ", ".join(peer.name for peer in peers))
        # A resumed round may have all that it counts: nobody trains for nothing then.
        for peer in () if rule.is_full else peers:
            self._ask(peer, source, spool, rule)
        while (left := rule.seconds_left(now=self._clock())) > 0:
            spool.wait(min(left, _POLL_SECONDS))
            if spool.fault is not None:
                raise spool.fault
            self._plan.stop.check()
            if self._scatter.fault is not None:
                raise self._scatter.fault
            self._note(spool, rule)
            self._ask_those_back(source, spool, rule)
        self._note(spool, rule)  # an update that arrived during the decision is not late
        for name in sorted(rule.asked):
            self._leave_out(name, spool, rule)

    def _ask(self, peer: Peer, source: ModelSource, spool: Spool, rule: SpoolRule) -> None:
        self._peers[peer.name] = peer
        self._asked[peer.name] += 1
        partial = spool.partial(peer.name)
        number = self._attempts.get(peer.name, 0) + (1 if partial is None else 0)
        self._attempts[peer.name] = number
        attempt = Attempt(self._attempt.job, self._attempt.round, number)
        try:
            if partial is None:
                spool.start(peer.name, answer_of(self._scatter.offer(peer, source, attempt)))
            else:
                partial.resume(ask_for_rest(self._scatter, peer, source, partial, attempt))
        except ContributorFailed as failed:
            cause = failed.__cause__
            error = cause if isinstance(cause, StreamlinkError) else failed
            self._drop(peer.name, error, spool, rule)

    def _note(self, spool: Spool, rule: SpoolRule) -> None:
        """Pass on to the rule what has arrived and what has failed since the last call."""
        now = self._clock()
        for name in spool.arrived.keys() & rule.asked:
            rule.arrive(name, now=now)
            self._plan.emit(EventKind.UPDATE_ARRIVED, self._attempt, name)
        for name, error in spool.failed.items():
            if name in rule.asked:
                self._drop(name, error, spool, rule)
        for name in (rule.arrived | rule.away(now=now)) & self._server.barred.keys():
            self._forget(name, self._excluded(name), spool, rule)

    def _forget(self, name: str, error: StreamlinkError, spool: Spool, rule: SpoolRule) -> None:
        """Leave out a client whose update is stored, wholly or in part."""
        rule.forget(name)
        spool.drop(name)
        self._drop(name, error, spool, rule)

    def _excluded(self, name: str) -> StreamAborted:
        # No reason: an operator has readmitted it since. What it had sent stays out of this round.
        reason = self._server.barred.get(name, "excluded by the operator")
        return StreamAborted(AbortCode.CANCELLED, reason, by_peer=False)

    def _drop(self, name: str, error: StreamlinkError, spool: Spool, rule: SpoolRule) -> None:
        logger.debug("%s: the update of %s failed: %s", self._attempt, name, error)
        exchange = self._scatter.exchanges.pop(name, None)
        if exchange is not None:
            # Before ``end``, which cancels the request whose reply brings the traceback.
            log_traceback(exchange, error)
            exchange.end(AbortCode.STALE_ATTEMPT, f"its update failed: {error}")
        peer = self._peers.get(name)  # None: its update was recovered, so it was not asked
        may_return = peer is not None and is_lost(peer, error)
        if not may_return:
            spool.drop(name)
            # A client that could not resume, for whatever reason, may still begin again.
            may_return = exchange is not None and exchange.incoming.is_rest
        is_last_try = self._asked[name] >= self._plan.rules.max_attempts
        is_gone = may_return and not is_last_try and not self._server.is_barred(name)
        rule.drop(name, is_gone=is_gone, now=self._clock())
        self._failures[name] = error
        self._plan.emit(EventKind.CLIENT_DROPPED, self._attempt, name, str(error))

    def _ask_those_back(self, source: ModelSource, spool: Spool, rule: SpoolRule) -> None:
        away = rule.away(now=self._clock())
        for peer in self._server.peers():
            # A session that has just ended is still in the list.
            if peer.name in away and not peer.is_lost:
                logger.info("%s: %s is connected, and is asked again", self._attempt, peer.name)
                rule.ask_again(peer.name)
                self._failures.pop(peer.name, None)
                self._ask(peer, source, spool, rule)

    def _leave_out(self, name: str, spool: Spool, rule: SpoolRule) -> None:
        """Leave out a client that is late, unless its update has just been stored."""
        why = self._why_late(name, rule)
        if not spool.leave_out(name, f"{self._attempt} continues without it: {why}"):
            rule.arrive(name, now=self._clock())
            self._plan.emit(EventKind.UPDATE_ARRIVED, self._attempt, name)
            return
        exchange = self._scatter.exchanges.pop(name, None)
        if exchange is not None:
            exchange.end(AbortCode.STALE_ATTEMPT, f"{self._attempt} continues without it: {why}")
        logger.warning("%s continues without %s: %s", self._attempt, name, why)
        self._failures[name] = QuorumNotReached(why)
        self._plan.emit(EventKind.CLIENT_DROPPED, self._attempt, name, why)

    def _why_late(self, name: str, rule: SpoolRule) -> str:
        """Return how far a late update had come, and what ended the round."""
        ended, exchange = rule.why_over(now=self._clock()), self._scatter.exchanges.get(name)
        if exchange is None or not exchange.incoming.is_announced:
            return f"no update of it came before {ended}"
        stats = exchange.incoming.stats
        return (
            f"its update came too late: {stats.received_bytes} of {stats.total_bytes} bytes were "
            f"here when {ended}"
        )

    # --- combining ------------------------------------------------------------------------

    def _combine(
        self, source: ModelSource, spool: Spool, rule: SpoolRule, began: float
    ) -> RoundReport:
        gather = None
        # It ends: each turn has one update less, and with too few of them the round fails.
        while gather is None:
            self._require_enough(rule)
            try:
                gather = self._combined(source, spool)
            except ContributorFailed as failed:  # such as NaN in it: aggregate the others again
                self._forget(failed.peer_name, failed, spool, rule)
        for name in spool.arrived:
            self._close(name)
        seconds = self._clock() - began
        recovered = {each.peer_name for each in self._recovered} & gather.weights.keys()
        return RoundReport(
            self._attempt.round, max(self._attempts.values(), default=1), seconds, gather.weights,
            gather.metrics, self._missing(), self._metadata, tuple(sorted(recovered)),
            gather.client_metrics,
        )  # fmt: skip

    def _missing(self) -> dict[str, str]:
        return {name: str(error) for name, error in self._failures.items()}

    def _combined(self, source: ModelSource, spool: Spool) -> Gather:
        arrived = spool.arrived.items()
        norms = DeclaredNorms(self._plan.rules.clip_norm, source)
        updates = [self._contributor(name, update, source, norms) for name, update in arrived]
        sink = self._plan.keeping(self._store.begin(source.spec))
        rules = GatherRules(
            clock=self._clock,
            non_finite=self._plan.rules.non_finite,
            aggregator=self._plan.aggregator,
            keeper=self._plan.keeper,
            on_whole=lambda gather: self._accept(gather, norms),
            on_step=lambda step: self._plan.emit_step(step, self._attempt),
            check=lambda: self._check(updates),
        )
        part = part_of(source.spec, self._plan.rules.part)
        gather = Gather(source, part, updates, sink, rules)
        try:
            gather.run()
        except BaseException:
            sink.discard()
            raise
        return gather

    def _accept(self, gather: Gather, norms: DeclaredNorms) -> None:
        """Check the updates, which are used up, and note in the ledger that they are committed."""
        norms.verify()
        self._plan.book.expect(
            self._attempt.round, gather.weights, gather.client_metrics, self._missing()
        )

    def _check(self, updates: Sequence[StoredSource]) -> None:
        """Raise if an operator has aborted the job, or excluded a client whose update is used."""
        self._plan.stop.check()
        for update in updates:
            if self._server.is_barred(update.peer_name):
                raise ContributorFailed(update.peer_name, self._excluded(update.peer_name))

    def _contributor(
        self, name: str, update: StoredUpdate, base: ModelSource, norms: DeclaredNorms
    ) -> StoredSource:
        facts = FilterContext(self._attempt, name, update.update)
        filters = functions_of(self._plan.filters_up, facts)
        if self._plan.rules.clip_norm:
            # The first: filters may add noise, which is not to be shortened.
            filters = [*self._clipping(name, update, base, norms), *filters]
        return StoredSource(
            update, filters=filters, weigh=lambda given: self._plan.weigh(name, given)
        )

    def _clipping(
        self, name: str, update: StoredUpdate, base: ModelSource, norms: DeclaredNorms
    ) -> Sequence[RangeFunction]:
        """Return the function that shortens an update, if it moves the model too far."""
        bound, kind = self._plan.rules.clip_norm, update.update.kind
        if update.update.norm is not None:
            return (norms.function(name, update.update),)
        if name not in self._norms:  # an attempt with one update less needs it again
            with closing(update.store.open()) as stored:
                self._norms[name] = norm_of(stored, base, kind, self._plan.stop.check)
        norm = self._norms[name]
        # One that is not finite is left to ``non_finite``.
        if not bound < norm < math.inf:
            return ()
        logger.info("%s: clipped the update of %s: its norm was %g", self._attempt, name, norm)
        return (clipped_to(bound, norm, base, kind),)

    def _require_enough(self, rule: SpoolRule) -> None:
        if rule.is_enough:
            return
        why = "train_timeout passed" if rule.is_late(now=self._clock()) else "the others failed"
        raise QuorumNotReached(
            f"round {self._attempt.round}: {len(rule.arrived)} of {self._plan.rules.min_clients} "
            f"updates came (min_clients), and {why}; the last whole model stays",
            self._failures,
        )

    def _close(self, name: str) -> None:
        exchange = self._scatter.exchanges.get(name)
        if exchange is None:  # its update was recovered; the facts it sent beside it are lost
            return
        self._metadata[name] = wait_for_reply(exchange)
        exchange.close()


def store_at(path: Path) -> SafetensorsStore:
    """Return the store of an update in a directory of the spool."""
    return SafetensorsStore(path, cache_blocks=2)  # read once, from front to back
