"""``ScatterAndGather``: the server's side of the rounds.

Each round offers the model to every connected client, gathers their updates, in lockstep or through
a spool, and commits the new model atomically.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from streamlink.cancel import CancelToken
from streamlink.config import RoundConfig
from streamlink.errors import (
    ModelError,
    RoundError,
)
from streamlink.filters import Filter
from streamlink.link import Attempt
from streamlink.link.peer import Peer
from streamlink.link.server import Server
from streamlink.model.interfaces import ChecksWriting, ModelStore
from streamlink.model.part import part_of, require_part
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.aggregators import aggregator_of
from streamlink.rounds.aggregate.clip import CLIP_BYTES
from streamlink.rounds.aggregate.combiner import PIECE_BYTES
from streamlink.rounds.aggregate.state import StateKeeper, keeper_of, state_bytes
from streamlink.rounds.aggregate.validate import WEIGHTS_ALLOWED, is_weight
from streamlink.rounds.choice import Choice, Everyone, choice_of, chosen_once, require_choosable
from streamlink.rounds.clients import ClientBook
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.job_state import JobState, JobTracker
from streamlink.rounds.judge import Judge
from streamlink.rounds.kept import KeptModels
from streamlink.rounds.ledger import Ledger, Run
from streamlink.rounds.lockstep.round import Lockstep
from streamlink.rounds.lockstep.rule import require_quorum
from streamlink.rounds.plan import Metadata, Plan
from streamlink.rounds.report import (
    ClientProgress,
    RoundReport,
    final_progress,
    log_round,
    progress_of,
)
from streamlink.rounds.schedule import Schedule, Schedules, schedules_of
from streamlink.rounds.spool.recovery import recover
from streamlink.rounds.spool.round import SpooledRound, store_at
from streamlink.rounds.spool.spool import check_spool
from streamlink.rounds.spool.stored import StoredUpdate
from streamlink.rounds.stop import StopSignal
from streamlink.stores.coercion import as_store

__all__ = ["ScatterAndGather"]

logger = logging.getLogger("streamlink.rounds")

_CLIENT_BYTES = 4 << 20  # for each client: stacks of its threads, state of its connection
_STORE_BYTES = 64 << 20  # block caches, the partial block, memory that the allocator keeps


def _no_facts(attempt: Attempt, peer_name: str) -> Mapping[str, str]:
    return {}


def _ignore(event: RoundEvent) -> None:
    pass


class ScatterAndGather:
    """Runs ``config.num_rounds`` rounds of ``config.train_task_name`` over ``server``'s clients.

    Args:
        server: where the clients are.
        store: holds the global model; each round replaces it atomically. A path works, too.
        config: the rules of a round.
        job: a name for this job; updates of another job are refused.
        spool: a directory that stores updates until the rule of their round is met; it needs the
            room of one model for each client. None: every round is gathered in lockstep.
        weights: weights by client's name, instead of those the clients give.
        aggregator: how updates become the new model: one of ``streamlink.aggregators``, or its
            text; None: ``config.aggregator``.
        state: a directory of this job alone for what the aggregator keeps from round to round; each
            slot of it takes the room of up to two models on the disk. With a ledger a resumed job
            continues with it; a job that begins anew removes it.
        choose: ``choose(number, clients)`` returns which of the connected clients a round asks, by
            what is known of each (``streamlink.rounds.ClientRecord``); None: ``config.choose``.
        schedules: facts that tasks get and that change from round to round: name → a function of
            the round's number, from 0 for the first; see ``streamlink.schedules``. None:
            ``config.schedules``.
        filters_down: applied to the model on its way to each client, the first one first.
        filters_up: applied to each update before it is averaged.
        on_event: called with each event, in the thread that runs the rounds; an exception fails
            the round, and the old model stays.
        metadata: ``metadata(attempt, peer_name)`` returns small facts to send with a client's task.
        ledger: a file that records which rounds are done, so that a server that was killed can
            resume the job; or a ``Ledger`` over ``store``. None: nothing is recorded.
        resume: continue after the last round in the ledger, with what is in the spool; if there is
            nothing to resume, begin. It needs a ledger.
        best: a store, or a path, for a copy of the best model so far, by ``config.best_metric``.
        cancel: ends ``run`` and ``wait_for_clients``, as the server's own token does. The spool
            keeps whole updates for ``resume``, as after an interrupt.

    Raises:
        ModelError: ``store`` is no store, a weight is not allowed, or a pattern of ``part`` matches
            no tensor.
        StoreError: store, spool or ledger cannot be written.
        RoundError: the ledger is of another job, or of one that was interrupted while ``resume`` is
            not set; or the model in the store is none that the ledger knows; or the state of its
            last round is missing.
        ValueError: no aggregator or schedule of that name; no directory for ``gather="spool"``, or
            for the state that an aggregator keeps; ``best`` without ``best_metric``; or the job
            waits for more clients than the server admits.
    """

    def __init__(
        self,
        server: Server,
        store: ModelStore | str | os.PathLike[str],
        config: RoundConfig | None = None,
        *,
        job: str = "job",
        spool: str | Path | None = None,
        weights: Mapping[str, float] | None = None,
        aggregator: Aggregator | str | None = None,
        state: str | Path | None = None,
        choose: Choice | None = None,
        schedules: Mapping[str, Schedule] | None = None,
        filters_down: Sequence[Filter] = (),
        filters_up: Sequence[Filter] = (),
        on_event: Callable[[RoundEvent], None] = _ignore,
        metadata: Metadata = _no_facts,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        resume: bool = False,
        best: ModelStore | str | os.PathLike[str] | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._server = server
        self._store = as_store(store)
        if isinstance(self._store, ChecksWriting):
            self._store.check_writable()
        self._config = config or RoundConfig()
        # What cannot work is refused here, not after hours of waiting for clients.
        self._config.require_room(server.config.grpc)
        lossy_down = server.config.stream.lossy_down
        require_part(self._store, self._config.part)
        require_part(self._store, [rule.rpartition("=")[0] for rule in lossy_down])
        for client, weight in (weights or {}).items():
            if not is_weight(weight):
                raise ModelError(f"the weight of {client} is {weight}; {WEIGHTS_ALLOWED}")
        if aggregator is None or isinstance(aggregator, str):
            aggregator = aggregator_of(aggregator or self._config.aggregator)
        if resume and ledger is None:
            raise ValueError("resume needs a ledger, which knows the rounds that are done")
        self._choice = choice_of(self._config.choose) if choose is None else choose
        require_choosable(self._choice, self._config)
        self._recovered: list[StoredUpdate] | None = None
        if ledger is not None and not isinstance(ledger, Ledger):
            ledger = Ledger(ledger, self._store, self._config, job=job, resume=resume)
        self._ledger = ledger
        book = ClientBook(server.clock, ledger.records if ledger is not None else None)
        if ledger is not None:
            ledger.use_aggregator(str(aggregator))
            # Before anything else gets the store: no commit may bypass the ledger.
            self._store = ledger.guard(self._store, lambda: book.expected)
            for client, reason in ledger.barred.items():
                server.bar(client, reason)
        self._spool = Path(spool) if spool is not None else None
        if self._spool is not None:
            check_spool(self._spool)
        if self._config.gather == "spool" and self._spool is None:
            raise ValueError("gather is 'spool', and there is no directory for it (spool)")
        keeper = self._keeper(aggregator, Path(state) if state is not None else None)
        kept_models = None
        if server.config.stream.kept is not None:
            if filters_down:
                raise ValueError("stream.kept keeps the model as clients get it, and filters_down "
                                 "change it for each; omit one of them")  # fmt: skip
            kept_models = KeptModels(server.config.stream, job)
        self._plan = Plan(
            job, self._config, tuple(filters_down), tuple(filters_up), metadata, on_event, weights,
            lossy_down, aggregator,
            schedules_of(self._config.schedules) if schedules is None else Schedules(schedules),
            stop=StopSignal(server.cancel, cancel or CancelToken()),
            tracker=JobTracker(job, server.clock), clock=server.clock, keeper=keeper,
            book=book, kept=kept_models,
        )  # fmt: skip
        self._lockstep = Lockstep(server, self._store, self._plan)
        self._spooled: SpooledRound | None = None
        kept = as_store(best) if best is not None else None
        self._judge = Judge(server, self._store, self._plan, ledger, kept)
        self._ended: Sequence[ClientProgress] = ()
        self._has_waited = False

    def run(self) -> list[RoundReport]:
        """Run all rounds, or those that are left of them, and return their reports.

        Fewer if ``patience`` ends the job; then the last report says so (``stopped``).
        With a ledger also the reports of earlier rounds that it has. A round has no report if the
        server was killed between the commit of its model and that of the ledger.

        Raises:
            QuorumNotReached: fewer than ``min_clients`` updates arrived; the last model stays.
            JobAborted: an operator has aborted the job.
            Cancelled: a token was cancelled.
            RoundError: too few clients connected.
            StoreError: the model cannot be read or stored.
        """
        config = self._config
        self._plan.tracker.expect(config.start_round, config.num_rounds)
        self._wait_if_needed()
        last = config.start_round + config.num_rounds - 1
        first = self._ledger.next_round if self._ledger is not None else config.start_round
        done = self._ledger.reports if self._ledger is not None else []
        try:
            reports = self._judge.catch_up(done, last)
            for number in range(first, last + 1):
                if self._judge.reason_to_stop:
                    break
                reports.append(self.run_round(number, is_last=number == last))
                # A stop is told to the clients at once, whoever is still to come back.
                if not self._judge.reason_to_stop:
                    self._wait_if_needed()
            self._plan.tracker.end("done")
            return reports
        finally:
            # Also after an error: clients that were offered the next round early would wait for it.
            self._lockstep.forget("the job is over")
            if self._plan.kept is not None:
                self._plan.kept.close()

    def wait_for_clients(self) -> None:
        """Wait for the clients of the first round, by the settings ``wait_for_clients...``.

        A job that is resumed waits as long for the clients of the last round; before the round
        after that it waits for those whose updates were recovered. If no round is left it waits for
        at most ``reconnect_timeout``, so that the clients learn that the job is over.

        Raises:
            RoundError: fewer than ``min_clients`` connected.
            JobAborted: an operator has ended the job.
            Cancelled: the token was.
            RuntimeError: the server does not listen.
        """
        config, ledger = self._config, self._ledger
        count, seconds = config.wait_for_clients, config.wait_for_clients_seconds
        enough, named = config.min_clients, set[str]()
        here = {each.peer_name for each in self._recover()}
        if ledger is not None and ledger.is_resumed:
            named = set(ledger.clients)
            last = config.start_round + config.num_rounds - 1
            if ledger.is_finished and self._judge.unevaluated(last) is None:
                seconds = 0.0 if ledger.is_over else self._server.config.timeouts.reconnect_timeout
                count = enough = 0
        self._server.wait_for_peers(
            # Not fewer than the quorum: the first round would only fail.
            max(count, enough), seconds, enough=enough, named=named, counted=here,
            check=self._plan.stop.check,
        )  # fmt: skip
        self._has_waited = True

    def _wait_if_needed(self) -> None:
        if not self._has_waited:
            self.wait_for_clients()

    def run_round(self, number: int, *, is_last: bool = True) -> RoundReport:
        """Run one round, over as many attempts as it needs; evaluate its model if that is due.

        If the report has ``stopped``, the job should end here: ``run`` does.

        Args:
            number: of the round.
            is_last: no round follows at once, so the new model is evaluated if any is, and not sent
                early (duplex).

        Raises:
            QuorumNotReached: fewer than ``min_clients`` whole updates came; the last model stays.
            JobAborted: an operator has ended the job.
            Cancelled: the token was.
            StoreError: the model cannot be read or stored.
            RoundError: a schedule or the choice of clients failed, or no attempt succeeded.
            RuntimeError: the server does not listen.
            Exception: what a filter or ``on_event`` raised.
        """
        with self._server.occupied(f"round {number} runs"):
            return self._whole_round(number, is_last=is_last)

    def _whole_round(self, number: int, *, is_last: bool) -> RoundReport:
        began, first = self._server.clock(), Attempt(self._plan.job, number, 1)
        self._plan.emit(EventKind.ROUND_STARTED, first)
        is_evaluated = self._config.is_evaluated(number, is_last=is_last)
        try:
            if (kept := self._plan.kept) is not None:
                kept.require_current(self._store, self._plan.stop.check)
            # Before anybody is asked: after the commit a schedule that raises could not fail it.
            scheduled = self._plan.scheduled(number)
            # A client that has the next model early would train it before it can evaluate this one.
            report = self._run_round(number, is_last or is_evaluated)
        except BaseException as error:
            self._lockstep.forget(f"round {number} failed")
            self._recovered = None  # the spool of this round may have removed them: look again
            self._plan.emit(EventKind.ROUND_FAILED, first, detail=str(error))
            raise
        seconds = self._server.clock() - began
        report = replace(report, seconds=seconds, scheduled=scheduled)
        # Before the events: what is announced as done must still be done after a restart.
        if self._ledger is not None:
            self._ledger.complete(report)
        self._plan.book.advance()
        # Clients whose updates were recovered were not waited for: the next round waits for them.
        self._has_waited = self._has_waited and not self._recovered
        self._recovered = []
        log_round(report)
        self._plan.tracker.count(report)
        attempt = Attempt(self._plan.job, number, report.attempt)
        self._plan.emit(EventKind.ROUND_DONE, attempt, report=report)
        return self._judge.judge(report) if is_evaluated else report

    def client_progress(self) -> list[ClientProgress]:
        """Return how far each client is in the round that runs; cheap, from any thread.

        Between two rounds, and after the last, that of the clients whose updates counted.
        """
        if evaluating := self._judge.progress:
            return evaluating
        spooled = self._spooled  # read once: the rounds' thread may set it to None
        running = spooled.exchanges if spooled is not None else self._lockstep.exchanges
        return [progress_of(exchange) for exchange in list(running)] or list(self._ended)

    def state(self) -> JobState:
        """Return the state of the job; cheap, from any thread."""
        return self._plan.tracker.state()

    # --- the operator -------------------------------------------------------------------------

    def abort(self, reason: str) -> None:
        """Abort the job, from any thread: ``run`` raises ``JobAborted`` soon, with ``reason``.

        The store keeps the last whole model; one whose commit has begun still counts.
        """
        self._plan.stop.abort(reason)

    def drop(self, client: str, reason: str) -> bool:
        """Exclude a client, from any thread: no update of it counts from now on.

        The rule of the round decides how the round continues. The client's session ends with
        ``reason``, and no client of that name is admitted before ``readmit``: one that a supervisor
        restarts would be back at once otherwise. With a ledger, servers that ``resume`` this job
        exclude it, too.

        Returns:
            False: it was excluded already; the first reason is kept.

        Raises:
            RoundError: no client of that name is or was connected; names those that are.
            StoreError: it is excluded, but the ledger cannot be written: a restart admits it again.
        """
        if self._server.is_barred(client):
            return False
        here = [peer.name for peer in self._server.peers()]
        if client not in here and client not in self.state().lost:
            connected = ", ".join(here) or "none"
            raise RoundError(f"no client {client!r} is or was connected; connected: {connected}")
        why = f"excluded by the operator: {reason}"
        # The server first: the exclusion counts now, even if the ledger cannot be written.
        self._server.bar(client, why)
        if self._ledger is not None:
            self._ledger.bar(client, why)
        return True

    def readmit(self, client: str) -> bool:
        """Admit an excluded client again; it takes part from the next attempt on.

        Returns:
            Whether it was excluded.

        Raises:
            StoreError: it is admitted, but the ledger cannot be written: a restart excludes it.
        """
        # The server first, as in ``drop``: the order counts now, whatever becomes of the ledger.
        was_excluded = self._server.is_barred(client)
        self._server.readmit(client)
        if self._ledger is not None:
            self._ledger.readmit(client)
        return was_excluded

    def peak_bytes(self, clients: int) -> int:
        """Return how much memory this job may need with so many clients (bytes), beyond imports.

        For each client two streams, and ``stream.long_bytes`` for those on long lines; or
        ``stream.memory_bytes`` for all of them. Once: the store's
        buffers, one piece of the new model and of each update, the aggregator's scratch memory and
        a piece of its state, and ``duplex_bytes``. None grows with the model.
        """
        stream = self._server.config.stream
        each = 3 if self._config.duplex_bytes else 2  # one is of the next round's model
        streams = stream.memory_bytes or clients * each * stream.stream_bytes + stream.extra_bytes
        # From a spool each update is read a piece at a time; in lockstep its bytes are those of the
        # stream's window, which is counted already.
        pieces = (2 + clients) * PIECE_BYTES if self._spool else 2 * PIECE_BYTES
        aggregator = self._plan.aggregator
        pieces += aggregator.scratch_bytes(clients) + state_bytes(aggregator)
        if self._config.clip_norm:
            pieces += clients * PIECE_BYTES + CLIP_BYTES
        shared = _STORE_BYTES + pieces + self._config.duplex_bytes
        return streams + clients * _CLIENT_BYTES + shared

    # --- the rules ------------------------------------------------------------------------

    def _run_round(self, number: int, is_last: bool) -> RoundReport:
        recovered = self._recover()
        here, arrived = self._server.peers(), [each.peer_name for each in recovered]
        chosen = self._chosen(number, {*arrived, *(peer.name for peer in here)})
        peers = self._quorum(number, here, chosen, arrived)
        # Before any is asked: a restarted server waits for the clients of this round by name.
        if self._ledger is not None:
            # For all of them, since the rounds after this one choose among them, too.
            self._ledger.begin({*arrived, *(peer.name for peer in here)})
        if self._spool is not None and (recovered or self._is_spooled(peers)):
            # What was offered early is for lockstep; through the spool each client is asked anew.
            self._lockstep.forget("this round goes through the spool")
            self._spooled = SpooledRound(
                self._server, self._store, self._plan, self._spool, number,
                run=self._ledger.run if self._ledger is not None else Run(), recovered=recovered,
            )  # fmt: skip
            try:
                report = self._spooled.run(peers)
                self._ended = final_progress(self._spooled.exchanges, report.weights)
                return report
            finally:
                self._spooled = None
        report = self._lockstep.run_round(number, is_last=is_last, chosen=chosen)
        self._ended = self._lockstep.ended
        return report

    def _keeper(self, aggregator: Aggregator, state: Path | None) -> StateKeeper | None:
        if not aggregator.slots:
            return None
        with closing(self._store.open()) as source:
            part = part_of(source.spec, self._config.part)
        kept = self._ledger
        run, steps = (kept.run.id, kept.rounds) if kept is not None else ("", 0)
        return keeper_of(aggregator, state, part, run=run, steps=steps)

    def _recover(self) -> list[StoredUpdate]:
        """Return the updates of the next round that an earlier server has stored."""
        # Once: every byte of what the spool holds is read.
        if self._recovered is None:
            self._recovered = []
            if self._ledger is not None and self._spool is not None:
                with closing(self._store.open()) as source:
                    part = part_of(source.spec, self._config.part)
                ledger, attempt = self._ledger, Attempt(self._plan.job, self._ledger.next_round, 1)
                self._recovered = recover(
                    self._spool, ledger.run, attempt, part,
                    store_at=store_at, replaced_runs=ledger.replaced_runs,
                    without=self._server.barred,
                )  # fmt: skip
        return self._recovered

    def _is_spooled(self, peers: Sequence[Peer]) -> bool:
        # In auto a spool is worth its disk only where a straggler may be left out at all.
        gather = self._config.gather
        return gather == "spool" or (gather == "auto" and len(peers) > self._config.min_clients)

    def _chosen(self, number: int, names: Collection[str]) -> frozenset[str] | None:
        """Return the clients that round ``number`` asks; None: all, also those that come later."""
        if isinstance(self._choice, Everyone):
            return None
        clients = self._plan.book.of(names)
        return chosen_once(self._choice, self._ledger, number, clients, self._config.min_clients)

    def _quorum(
        self,
        number: int,
        here: Sequence[Peer],
        chosen: frozenset[str] | None,
        arrived: Collection[str],
    ) -> list[Peer]:
        """Return the clients that are asked: those that are chosen, without those in ``arrived``.

        Their updates were recovered: these clients count, and are not asked again.
        """
        asked = [peer for peer in here if chosen is None or peer.name in chosen]
        peers = [peer for peer in asked if peer.name not in arrived]
        require_quorum(number, len(peers), self._config.min_clients, {}, arrived=len(arrived))
        return peers
