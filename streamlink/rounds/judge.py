"""What follows a round: its model is evaluated, kept if it is the best, and the job may end.

    round done ──▶ evaluated by the clients ──▶ recorded with the verdict ──▶ best model copied

The ledger has the verdict before the best model is copied. So a server that is killed between the
two does not evaluate again, which could give another verdict: it finds that the copy is not the
model that the ledger calls the best, and copies it before the next round replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from streamlink.config import LimitsConfig
from streamlink.errors import ModelError, RoundError, StoreError
from streamlink.link import Attempt
from streamlink.link.server import Server
from streamlink.model.beside import keeps_beside
from streamlink.model.beside_ends import with_beside
from streamlink.model.copy import copy_model
from streamlink.model.interfaces import ChecksWriting, ModelSource, ModelStore
from streamlink.rounds.evaluate.best import Standing, judged
from streamlink.rounds.evaluate.clients import ClientEvaluation
from streamlink.rounds.evaluate.report import Evaluation, log_evaluation
from streamlink.rounds.events import EventKind
from streamlink.rounds.ledger import Ledger, model_id
from streamlink.rounds.plan import Plan
from streamlink.rounds.report import ClientProgress, RoundReport
from streamlink.stores.fitted import fitted

__all__ = ["Judge"]

logger = logging.getLogger("streamlink.rounds")

_SHOWN = 8  # names of metrics in a message


class Judge:
    """Evaluates the models of a job, keeps the best one, and tells when the job should end.

    Args:
        server: where the clients are.
        store: holds the model.
        plan: the rules of the job.
        ledger: records what was found; None: nothing is recorded.
        best: where the best model is kept; None: nowhere.

    Raises:
        ValueError: ``best`` is given, and no metric says which model is the best.
        RoundError: the ledger has a best model by another metric.
        StoreError: ``best`` cannot be written.
    """

    def __init__(
        self,
        server: Server,
        store: ModelStore,
        plan: Plan,
        ledger: Ledger | None,
        best: ModelStore | None = None,
    ) -> None:
        if best is not None and not plan.rules.best_metric:
            raise ValueError(
                "a store for the best model needs rounds.best_metric (--best-metric): the metric "
                "that says which one it is"
            )
        _require_writable(best)
        self._store, self._plan, self._ledger, self._best = store, plan, ledger, best
        self._clients = ClientEvaluation(server, store, plan)
        self._standing = ledger.standing if ledger is not None else None
        self._require_same_metric()
        if ledger is not None:
            standing = self._standing
            plan.tracker.recall(ledger.reports, str(standing) if standing else "")

    @property
    def progress(self) -> list[ClientProgress]:
        """How far each client is that evaluates a model now; cheap, from any thread."""
        return self._clients.progress

    @property
    def reason_to_stop(self) -> str:
        """Why no round should follow; empty: the job goes on."""
        return self._standing.reason_to_stop(self._plan.rules) if self._standing else ""

    def judge(self, report: RoundReport) -> RoundReport:
        """Have the clients evaluate the model in the store; return the report with the verdict.

        Raises:
            JobAborted: an operator has aborted the job.
            Cancelled: a token was cancelled.
            StoreError: the model cannot be read, or the best one cannot be stored.
        """
        attempt = Attempt(self._plan.job, report.round, report.attempt)
        found = self._clients.run(attempt)
        standing = self._judged(report.round, found)
        is_best = standing is not None and standing.round == report.round
        stopped = standing.reason_to_stop(self._plan.rules) if standing is not None else ""
        report = replace(report, evaluation=found, is_best=is_best, stopped=stopped)
        if self._ledger is not None:
            self._ledger.evaluated(report, standing)
        self._standing = standing
        log_evaluation(report.round, found)
        self._plan.emit(EventKind.EVALUATED, attempt, report=report)
        if is_best:
            self._keep(attempt, report)
        if stopped:
            self._plan.emit(EventKind.STOPPED_EARLY, attempt, detail=stopped, report=report)
        return report

    def catch_up(self, done: Sequence[RoundReport], last: int) -> list[RoundReport]:
        """Do what an earlier server was killed before: evaluate its last model, keep the best.

        Args:
            done: the reports that the ledger has.
            last: number of the last round.

        Returns:
            The reports, with that evaluation. If the report of the round is lost, one that has
            nothing else.
        """
        self._restore()
        number = self.unevaluated(last)
        if number is None:
            return list(done)
        known = done[-1] if done and done[-1].round == number else None
        report = self.judge(known or RoundReport(number, 1, 0.0, {}, {}))
        return [*(done[:-1] if known else done), report]

    def unevaluated(self, last: int) -> int | None:
        """Return the number of the last committed round if its evaluation is missing."""
        ledger = self._ledger
        if ledger is None or not ledger.rounds or ledger.is_over:
            return None
        number = ledger.next_round - 1
        is_due = self._plan.rules.is_evaluated(number, is_last=number == last)
        return number if is_due and ledger.evaluated_round != number else None

    # --- the best model -------------------------------------------------------------------

    def _judged(self, number: int, found: Evaluation) -> Standing | None:
        rules = self._plan.rules
        if not rules.best_metric:
            return self._standing  # an earlier run may have left one, for a later run
        if rules.best_metric not in found.metrics:
            known = ", ".join(sorted(found.metrics)[:_SHOWN]) or "no metric"
            logger.warning(
                "round %d: the evaluation has no %r, so its model is not compared with the best "
                "(best_metric); it has: %s", number, rules.best_metric, known,
            )  # fmt: skip
        digest = self._ledger.run.base if self._ledger is not None else ""
        return judged(self._standing, rules, number, found, digest)

    def _keep(self, attempt: Attempt, report: RoundReport) -> None:
        self._plan.emit(EventKind.BEST_FOUND, attempt, detail=str(self._standing), report=report)
        if self._best is not None:
            self._copy(self._best)
            self._plan.emit(EventKind.BEST_KEPT, attempt, detail=str(self._standing), report=report)

    def _copy(self, best: ModelStore) -> None:
        # A copy, not a hard link: it may be on another disk or of another kind, each block is
        # verified on the way, and what damages the one file later does not damage the other.
        with closing(self._store.open()) as source:
            whole = _with_files(source, best)
            copy_model(whole, fitted(whole.spec, best, best.begin))

    def _restore(self) -> None:
        """Copy the best model if an earlier server was killed after it had recorded the verdict."""
        standing, best, ledger = self._standing, self._best, self._ledger
        if standing is None or best is None or ledger is None or _holds(best, standing.digest):
            return
        if ledger.run.base == standing.digest:
            self._copy(best)
            logger.info("the best model so far, %s, is kept", standing)
        else:
            logger.warning(
                "the best model so far, %s, is not in its store any more; the next better one "
                "is kept again", standing,
            )  # fmt: skip

    def _require_same_metric(self) -> None:
        rules, standing, ledger = self._plan.rules, self._standing, self._ledger
        if standing is None or ledger is None or not rules.best_metric:
            return
        was, now = (standing.metric, standing.mode), (rules.best_metric, rules.best_mode)
        if was != now:
            raise RoundError(
                f"{ledger.path}: the best model so far has {standing} ({standing.mode}), which "
                f"cannot be compared by {' '.join(reversed(now))}; give best_metric and best_mode "
                "as before, or remove this file to begin again with the model that is in the store"
            )


def _require_writable(store: object) -> None:
    if isinstance(store, ChecksWriting):
        store.check_writable()


def _holds(store: ModelStore, digest: str) -> bool:
    try:
        with closing(store.open()) as source:
            return model_id(source) == digest
    except StoreError:  # nothing there yet, or nothing that can be read
        return False


def _with_files(source: ModelSource, best: ModelStore) -> ModelSource:
    """Return ``source`` with its small files, where ``best`` takes them and they are few."""
    if not keeps_beside(best):
        return source
    try:
        return with_beside(source, LimitsConfig())
    except ModelError as error:
        logger.warning("the best model is kept without its small files: %s", error)
        return source
