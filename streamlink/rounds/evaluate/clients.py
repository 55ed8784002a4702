"""Asks the clients to evaluate a model: it goes down to each of them, and metrics come back.

Each request is an ``Exchange`` without a model in the answer, so streams, deadlines and cancelling
are those of every other request. A client that fails is left out and named; no other client waits
for it longer than its deadlines, and the round, whose model is committed, stands.
"""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from contextlib import closing, suppress
from typing import TypeGuard

from streamlink.errors import ExchangeFailed, ModelError, StoreError, StreamlinkError
from streamlink.link import Attempt
from streamlink.link.exchange import Exchange
from streamlink.link.peer import Peer
from streamlink.link.server import Server
from streamlink.model.interfaces import ModelStore
from streamlink.rounds.aggregate.mean import weighted_metrics
from streamlink.rounds.evaluate.answer import parse_answer
from streamlink.rounds.evaluate.report import Evaluation
from streamlink.rounds.evaluate.shared import SharedModel
from streamlink.rounds.events import EventKind
from streamlink.rounds.plan import Plan
from streamlink.rounds.report import ClientProgress

__all__ = ["ClientEvaluation"]

logger = logging.getLogger("streamlink.rounds")

_POLL_SECONDS = 1.0  # how soon an operator's order ends the wait


class ClientEvaluation:
    """Evaluates the model in a store at the clients that are connected.

    Args:
        server: where the clients are.
        store: holds the model.
        plan: the rules of the job.
    """

    def __init__(self, server: Server, store: ModelStore, plan: Plan) -> None:
        self._server, self._store, self._plan = server, store, plan
        self._exchanges: list[Exchange] = []

    def run(self, attempt: Attempt) -> Evaluation:
        """Ask all clients, wait for each, and return what they found.

        Args:
            attempt: whose model is in the store.

        Raises:
            JobAborted: an operator has aborted the job.
            Cancelled: a token was cancelled.
            StoreError: the model cannot be read.
        """
        began = self._plan.clock()
        self._exchanges = []
        self._plan.emit(EventKind.EVALUATION_STARTED, attempt)
        found = Evaluation({})
        with closing(self._store.open()) as source:
            shared = SharedModel(source, self._plan.clock)
            try:
                self._ask(attempt, shared)
                for exchange in self._exchanges:
                    self._wait(exchange)
                    self._take(exchange, attempt, found)
                self._plan.stop.check()
            finally:
                for exchange in self._exchanges:
                    exchange.cancel(f"the evaluation of {attempt} is over")
                # Before the source is closed: a thread that sends may still read it.
                shared.join()
                self._exchanges = []
        return self._mean(found, self._plan.clock() - began)

    @property
    def progress(self) -> list[ClientProgress]:
        """How far each client is that was asked; cheap, from any thread."""
        return [_progress_of(each) for each in list(self._exchanges)]

    def _ask(self, attempt: Attempt, model: SharedModel) -> None:
        for peer in self._server.peers():
            self._exchanges.append(self._ask_one(peer, attempt, model))
        asked = ", ".join(each.peer_name for each in self._exchanges)
        logger.info("%s: its model is evaluated by %s", attempt, asked or "nobody")

    def _ask_one(self, peer: Peer, attempt: Attempt, model: SharedModel) -> Exchange:
        rules = self._plan.rules
        return peer.ask(
            rules.evaluate_task_name,
            model.through(lambda source: self._plan.sent_to(peer.name, attempt, source)),
            attempt=attempt,
            metadata=self._plan.facts(attempt, peer.name),
            timeout=rules.evaluate_timeout or None,
        )

    def _wait(self, exchange: Exchange) -> None:
        while not exchange.done():
            self._plan.stop.check()
            with suppress(TimeoutError, CancelledError):
                exchange.exception(_POLL_SECONDS)

    def _take(self, exchange: Exchange, attempt: Attempt, found: Evaluation) -> None:
        name = exchange.peer_name
        try:
            result = exchange.result()
            weight, metrics = parse_answer(name, result.metadata, result.metrics)
            if self._server.is_barred(name):
                raise ModelError(f"{name} is excluded: {self._server.barred.get(name, '')}")
        except ExchangeFailed as failed:
            if _is_ours(failed.cause):
                raise failed.cause from failed
            self._fail(name, failed.cause or failed, attempt, found)
        except ModelError as error:
            self._fail(name, error, attempt, found)
        else:
            found.weights[name] = self._plan.weigh(name, weight)
            found.client_metrics[name] = metrics
            self._plan.emit(EventKind.CLIENT_EVALUATED, attempt, name)

    def _fail(self, name: str, error: BaseException, attempt: Attempt, found: Evaluation) -> None:
        found.failures[name] = str(error)
        self._plan.emit(EventKind.CLIENT_NOT_EVALUATED, attempt, name, str(error))

    def _mean(self, found: Evaluation, seconds: float) -> Evaluation:
        answers = [(weight, found.client_metrics[name]) for name, weight in found.weights.items()]
        is_enough = len(answers) >= self._plan.rules.min_evaluate_clients
        metrics = weighted_metrics(answers) if is_enough else {}
        return Evaluation(metrics, found.client_metrics, found.weights, found.failures, seconds)


def _is_ours(cause: BaseException | None) -> TypeGuard[Exception]:
    """Return whether our own store or filter has failed, whichever client the model was sent to."""
    is_links = isinstance(cause, StreamlinkError) and not isinstance(cause, ModelError | StoreError)
    return isinstance(cause, Exception) and not is_links


def _progress_of(exchange: Exchange) -> ClientProgress:
    far = exchange.progress
    phase = "done" if far.phase == "over" else "streaming"
    return ClientProgress(
        exchange.peer_name, phase, far.sent_bytes, 0, far.sends_bytes,
        is_working=far.phase == "processing",
    )  # fmt: skip
