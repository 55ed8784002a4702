"""``ScatterAndGather``: the server's side of the rounds.

Each round offers the model to every client that is there, gathers their updates, in lockstep or
through a spool, and lets the new model appear at once or not at all.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from streamlink.config import RoundConfig
from streamlink.errors import AbortCode, QuorumNotReached, StreamAborted, StreamlinkError
from streamlink.link import Attempt
from streamlink.link.server import Peer, Server
from streamlink.model.interfaces import ModelStore
from streamlink.rounds.combine import PIECE_BYTES, ContributorFailed
from streamlink.rounds.events import Filter, Happening, RoundEvent
from streamlink.rounds.gather import OutOfTime
from streamlink.rounds.lockstep import Lockstep
from streamlink.rounds.report import RoundReport, Standing, standing_of, tell_round
from streamlink.rounds.scatter import Metadata, Plan
from streamlink.rounds.spooled import SpooledRound
from streamlink.stores.anything import as_store

__all__ = ["ScatterAndGather"]

logger = logging.getLogger("streamlink.rounds")

_CLIENT_BYTES = 4 << 20  # its threads' stacks and gRPC's own bookkeeping, an allowance
_GONE = "its session ended, and it did not come back"
_STORE_BYTES = 64 << 20  # block caches, the partial block, and what the allocator keeps for reuse


def _no_facts(attempt: Attempt, peer: str) -> Mapping[str, str]:
    return {}


def _unheard(event: RoundEvent) -> None:
    pass


class ScatterAndGather:
    """Runs ``config.num_rounds`` rounds of ``config.train_task_name`` over ``server``'s clients.

    Args:
        server: where the clients are.
        store: holds the global model; each round replaces it atomically. Or the path of one.
        config: the rules of a round.
        job: a name for this run; updates of another job are refused.
        spool: a directory for updates that wait for the rule of their round to be met; it takes a
            model per client. None: every round is gathered in lockstep.
        weights: weights by client's name, instead of those the clients give.
        filters_down: applied to the model on its way to each client, the first one first.
        filters_up: applied to each update before it is averaged.
        on_event: told what happens, from the thread that runs the rounds; what it raises fails the
            round, and the old model stands.
        metadata: ``metadata(attempt, peer)`` gives small facts that go with a client's task.

    Raises:
        ModelError: ``store`` is none.
        ValueError: ``gather="spool"`` without a directory.
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
        filters_down: Sequence[Filter] = (),
        filters_up: Sequence[Filter] = (),
        on_event: Callable[[RoundEvent], None] = _unheard,
        metadata: Metadata = _no_facts,
    ) -> None:
        self._server = server
        self._store = as_store(store)
        self._config = config or RoundConfig()
        self._spool = Path(spool) if spool is not None else None
        if self._config.gather == "spool" and self._spool is None:
            raise ValueError("gather is 'spool', and there is no directory for it (spool)")
        self._plan = Plan(
            job, self._config, tuple(filters_down), tuple(filters_up), metadata, on_event, weights
        )
        self._lockstep = Lockstep(server, self._store, self._plan)
        self._spooled: SpooledRound | None = None
        self._has_waited = False

    def run(self) -> list[RoundReport]:
        """Run all rounds and return what each gave.

        Raises:
            QuorumNotReached: fewer than ``min_clients`` whole updates came; the last model stands.
            RoundError: not enough clients came at all.
            StoreError: the model cannot be read or stored.
        """
        config = self._config
        if not self._has_waited:
            self.wait_for_clients()
        last = config.start_round + config.num_rounds - 1
        try:
            return [
                self.run_round(number, is_last=number == last)
                for number in range(config.start_round, last + 1)
            ]
        finally:
            self._lockstep.forget("the job is over")

    def wait_for_clients(self) -> None:
        """Wait for the clients of the first round, as ``wait_for_clients`` says.

        Raises:
            RoundError: fewer than ``min_clients`` came.
        """
        config = self._config
        count = max(config.wait_for_clients, config.min_clients)
        seconds = config.wait_for_clients_seconds
        self._server.wait_for_peers(count, seconds, enough=config.min_clients)
        self._has_waited = True

    def run_round(self, number: int, *, is_last: bool = True) -> RoundReport:
        """Run one round, over as many attempts as it needs.

        Args:
            number: of the round.
            is_last: no round follows at once, so nothing of the new model goes down early.
        """
        began, first = time.monotonic(), Attempt(self._plan.job, number, 1)
        self._plan.tell(Happening.ROUND_STARTED, first)
        try:
            report = self._run_round(number, is_last)
        except BaseException as error:
            self._lockstep.forget(f"round {number} failed")
            self._plan.tell(Happening.ROUND_FAILED, first, detail=str(error))
            raise
        report = replace(report, seconds=time.monotonic() - began)
        tell_round(report)
        self._plan.tell(Happening.ROUND_DONE, Attempt(self._plan.job, number, report.attempt))
        return report

    def standings(self) -> list[Standing]:
        """Return how far each client is in the round that runs; cheap, from any thread."""
        spooled = self._spooled  # it may be over before the next line
        running = spooled.exchanges if spooled is not None else self._lockstep.exchanges
        return [standing_of(exchange) for exchange in list(running)]

    def peak_bytes(self, clients: int) -> int:
        """Return what this job may hold over base with so many clients (bytes), buffers included.

        For each client two streams; beside them what the store reads and writes with, one piece of
        the new model and of each update with the mean's scratch, and what ``duplex_bytes`` grants.
        None of it grows with the model.
        """
        streams = 2 * self._server.config.stream.stream_bytes
        if self._config.duplex_bytes:
            streams += self._server.config.stream.stream_bytes  # of the next round's model
        pieces = (2 + clients) * PIECE_BYTES if self._spool else 2 * PIECE_BYTES
        shared = _STORE_BYTES + pieces + self._config.duplex_bytes
        return clients * (streams + _CLIENT_BYTES) + shared

    # --- the rules ------------------------------------------------------------------------

    def _run_round(self, number: int, is_last: bool) -> RoundReport:
        failures: dict[str, StreamlinkError] = {}
        peers = self._quorum(number, failures)
        if self._spool is not None and self._is_spooled(peers):
            self._lockstep.forget("this round goes through the spool")
            self._spooled = SpooledRound(self._server, self._store, self._plan, self._spool, number)
            try:
                return self._spooled.run(peers)
            finally:
                self._spooled = None
        return self._run_in_lockstep(number, failures, is_last)

    def _is_spooled(self, peers: Sequence[Peer]) -> bool:
        gather = self._config.gather
        return gather == "spool" or (gather == "auto" and len(peers) > self._config.min_clients)

    def _run_in_lockstep(
        self, number: int, failures: dict[str, StreamlinkError], is_last: bool
    ) -> RoundReport:
        began = time.monotonic()
        asked: set[str] = set()
        for attempt in range(1, self._config.max_attempts + 1):
            peers = self._quorum(number, failures)
            asked.update(peer.name for peer in peers)
            belongs = Attempt(self._plan.job, number, attempt)
            try:
                outcome = self._lockstep.run(belongs, peers, began=began, is_last=is_last)
            except ContributorFailed as failed:
                logger.warning("%s: %s", belongs, failed)
                failures.update(_causes(failed))
                self._grace(peers, failures)
                for peer in peers:
                    if (error := failures.get(peer.name)) is not None:
                        self._plan.tell(Happening.CLIENT_DROPPED, belongs, peer.name, str(error))
            except OutOfTime as late:
                raise QuorumNotReached(f"round {number}: {late}", failures) from late
            else:
                left = dict.fromkeys(sorted(asked - outcome.weights.keys()), _GONE)
                missing = {**left, **{name: str(error) for name, error in failures.items()}}
                seconds = time.monotonic() - began
                return RoundReport(
                    number, attempt, seconds, outcome.weights, outcome.metrics, missing,
                    outcome.metadata,
                )  # fmt: skip
        raise QuorumNotReached(
            f"round {number} failed {self._config.max_attempts} times (max_attempts)", failures
        )

    def _quorum(self, number: int, failures: Mapping[str, StreamlinkError]) -> list[Peer]:
        """Return who takes part in the next attempt: all that are here and have not failed."""
        peers = [peer for peer in self._server.peers if peer.name not in failures]
        if len(peers) < self._config.min_clients:
            raise QuorumNotReached(
                f"round {number}: {len(peers)} of {self._config.min_clients} clients left "
                "(min_clients); the last whole model stands",
                failures,
            )
        return peers

    def _grace(self, peers: Sequence[Peer], failures: dict[str, StreamlinkError]) -> None:
        """Wait for those of ``peers`` that dropped out; who comes back is forgiven.

        Whoever is here and failed all the same is not waited for: its task raised, or its stream
        stalled. Here is the session that was asked: another process may have its name by now.
        """
        seconds, settled = self._config.wait_time_after_min_received, set[str]()
        while lost := {each.name for each in peers if not each.is_here} - settled:
            logger.info("waiting up to %g s for %s to come back", seconds, ", ".join(sorted(lost)))
            until = time.monotonic() + seconds
            for name in lost:  # meanwhile more may be lost: they have their grace time then
                left = max(0.0, until - time.monotonic())
                if self._server.wait_for_peer(name, left) is not None:
                    failures.pop(name, None)
                else:
                    error = StreamAborted(AbortCode.SESSION_LOST, _GONE, by_peer=True, who=name)
                    failures.setdefault(name, error)
            settled |= lost


def _causes(failed: ContributorFailed) -> dict[str, StreamlinkError]:
    cause = failed.__cause__
    return {failed.peer: cause if isinstance(cause, StreamlinkError) else failed}
