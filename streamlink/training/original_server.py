"""The *original* server, for comparison: every update is held, and all are aggregated at once.

Two parts can be switched off, each alone. The *agent* holds the global model in memory, each update
as a model of its own, and a new global model beside them. The *communicator* sends and receives
whole messages; what it holds of a message lives until the client has the next model, as in APPFL,
where one call brings the update and returns the new model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from streamlink import RoundConfig, RoundEvent, RoundReport, Server, copy_model
from streamlink.errors import RoundError
from streamlink.link import Attempt, Exchange, ExchangeResult, Peer
from streamlink.model import ModelSink, ModelSource, ModelSpec, ModelStore
from streamlink.model.spec import require_same
from streamlink.rounds import AveragedModel, EventKind
from streamlink.rounds.aggregate.mean import weighted_metrics
from streamlink.rounds.report import log_round
from streamlink.stores import ArrayModel
from streamlink.stores.memory import empty_arrays
from streamlink.training.order import SAMPLES
from streamlink.training.original import ReceivedMessage, SentMessage, decoded
from streamlink.training.settings import ServerSettings

__all__ = ["OriginalRounds"]


class OriginalRounds:
    """Runs rounds with every client; one that fails ends the job.

    Args:
        server: where the clients are.
        store: has the initial model, and gets the last one.
        settings: which parts are optimised.
        rules: how many rounds and clients, and which weights.
        facts: go with each task.
        job: its name.
        on_event: called with each event.
    """

    def __init__(
        self,
        server: Server,
        store: ModelStore,
        settings: ServerSettings,
        rules: RoundConfig,
        facts: Mapping[str, str],
        job: str,
        on_event: Callable[[RoundEvent], None],
    ) -> None:
        self._server, self._store, self._rules = server, store, rules
        self._facts, self._job, self._on_event = facts, job, on_event
        self._is_direct, self._is_whole = settings.optimize_memory, settings.comm.is_whole
        self._is_copied = not settings.comm.optimize_memory
        self._model: ArrayModel | None = None
        self._step: ModelSource | None = None  # what the round has changed
        self._given: ModelSource | None = None  # a copy of the model, which the clients are given
        # By client: the message that it sent, which lives until it has the next model.
        self._messages: dict[str, ModelSource] = {}

    def run(self) -> list[RoundReport]:
        """Run all rounds.

        Raises:
            RoundError: too few clients came.
            ExchangeFailed: a client failed.
            StreamlinkError: the models cannot be averaged or stored.
        """
        rules = self._rules
        self._server.wait_for_peers(rules.min_clients, rules.wait_for_clients_seconds)
        if not self._is_direct:
            with closing(self._store.open()) as opened:
                self._model = ArrayModel(decoded(opened))
        last = rules.start_round + rules.num_rounds
        return [self._round(number) for number in range(rules.start_round, last)]

    def _round(self, number: int) -> RoundReport:
        if self._model is not None:
            return self._round_with(number, self._model)
        with closing(self._store.open()) as model:
            return self._round_with(number, model)

    def _round_with(self, number: int, model: ModelSource) -> RoundReport:
        began = self._server.clock()
        attempt = Attempt(self._job, number, 1)
        self._on_event(RoundEvent(EventKind.ROUND_STARTED, attempt))
        arrived: dict[str, Any] = {}
        exchanges = {peer.name: self._ask(peer, model, attempt, arrived) for peer in self._peers()}
        try:
            results = {name: each.result() for name, each in exchanges.items()}
        except BaseException:
            for each in exchanges.values():
                each.cancel("the round failed")
            raise
        weights = {name: self._weight(each) for name, each in results.items()}
        self._aggregate(arrived, weights)
        metrics = {name: dict(each.metrics) for name, each in results.items()}
        means = weighted_metrics([(weights[name], metrics[name]) for name in sorted(metrics)])
        facts = {name: each.metadata for name, each in results.items()}
        seconds = self._server.clock() - began
        report = RoundReport(
            number, 1, seconds, weights, means, metadata=facts, client_metrics=metrics
        )
        log_round(report)
        self._on_event(RoundEvent(EventKind.ROUND_DONE, attempt, report=report))
        return report

    def _peers(self) -> list[Peer]:
        peers = self._server.peers()
        if len(peers) < self._rules.min_clients:
            raise RoundError(
                f"{len(peers)} of {self._rules.min_clients} clients are connected; the original "
                "version needs all of them until the end"
            )
        return peers

    def _ask(
        self, peer: Peer, model: ModelSource, attempt: Attempt, arrived: dict[str, Any]
    ) -> Exchange:
        sent = SentMessage(model, is_direct=not self._is_copied) if self._is_whole else None

        def into(spec: ModelSpec) -> ModelSink:
            # It answers, so it has the model (or reads the end of it): APPFL's call, which brought
            # its last update and returned that model, is over, and so is what both messages held.
            require_same(model.spec, spec, "the server", peer.name)
            if sent is not None:
                sent.release()
            self._messages.pop(peer.name, None)
            made: ModelSink
            if self._is_whole:
                made = ReceivedMessage(spec, is_direct=not self._is_copied)
            else:
                made = ArrayModel(empty_arrays(spec))
            arrived[peer.name] = made
            return made

        return peer.ask(
            self._rules.train_task_name,
            sent or model,
            into=into,
            metadata=self._facts,
            attempt=attempt,
        )

    def _weight(self, result: ExchangeResult) -> float:
        if self._rules.weights == "equal":
            return 1.0
        given = result.metadata.get(SAMPLES, "")
        if not (given.isascii() and given.isdigit()):
            raise RoundError(f"a client gave {given[:40]!r} as its number of samples")
        return float(given)

    def _aggregate(self, arrived: Mapping[str, ModelSource], weights: Mapping[str, float]) -> None:
        """Make the new model of all updates; the arithmetic is that of the rounds in lockstep."""
        updates = dict(arrived)
        if self._is_whole:
            if self._is_copied:
                self._messages = dict(arrived)
            if not self._is_direct:
                updates = {name: ArrayModel(decoded(each)) for name, each in arrived.items()}
        mean: ModelSource = AveragedModel(updates, weights)
        if not self._is_direct:
            # Beside the old one, which is only then given up; and what APPFL's aggregator keeps.
            mean = self._model = ArrayModel(decoded(mean))
            self._step, self._given = ArrayModel(decoded(mean)), ArrayModel(decoded(mean))
        # Into a new model, so that one that is being read stays whole.
        copy_model(mean, self._store)
