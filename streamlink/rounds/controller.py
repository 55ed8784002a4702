"""``ScatterAndGather``: the server's side of the rounds.

Each round offers the model to every client that is there, gathers their updates in lockstep, and
lets the new model appear at once or not at all. A round that loses a client starts again without
it, as a new attempt, after a grace time in which the client may come back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamlink.config import RoundConfig
from streamlink.errors import AbortCode, QuorumNotReached, StreamlinkError
from streamlink.link import Attempt
from streamlink.link.outgoing import send_model
from streamlink.link.server import Exchange, Peer, Server
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore
from streamlink.rounds.gather import (
    PIECE_BYTES,
    Contributor,
    ContributorFailed,
    LockstepGather,
    OutOfTime,
)

__all__ = ["RoundReport", "ScatterAndGather", "Standing"]

logger = logging.getLogger("streamlink.rounds")

_CLIENT_BYTES = 4 << 20  # its threads' stacks and gRPC's own bookkeeping, an allowance
_REPLY_SECONDS = 1.0  # a client's reply follows the end of its stream on another connection
_TRACEBACK_LINES, _TRACEBACK_WIDTH = 100, 500  # most of a client's traceback that is logged
_STORE_BYTES = 64 << 20  # block caches, the partial block, and what the allocator keeps for reuse


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What one round gave."""

    round: int
    attempt: int
    seconds: float
    weights: dict[str, float]
    """Contributors and their weights: exactly those whose whole update is in the new model."""
    metrics: dict[str, float]
    failures: dict[str, str] = field(default_factory=dict)
    """Clients that were asked and are not in it, and why."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one client is, for progress bars. Bytes."""

    peer: str
    phase: str
    sent: int
    received: int
    total: int


class ScatterAndGather:
    """Runs ``config.num_rounds`` rounds of ``config.train_task_name`` over ``server``'s clients.

    Args:
        server: where the clients are.
        store: holds the global model; each round replaces it atomically.
        config: the rules of a round.
        job: a name for this run; updates of another job are refused.
    """

    def __init__(
        self,
        server: Server,
        store: ModelStore,
        config: RoundConfig | None = None,
        *,
        job: str = "job",
    ) -> None:
        self._server = server
        self._store = store
        self._config = config or RoundConfig()
        self._job = job
        self._exchanges: list[Exchange] = []
        self._offered_at = 0.0

    def run(self) -> list[RoundReport]:
        """Run all rounds and return what each gave.

        Raises:
            QuorumNotReached: fewer than ``min_clients`` whole updates came; the last model stands.
            RoundError: not enough clients came at all.
            StoreError: the model cannot be read or stored.
        """
        config = self._config
        self._server.wait_for_peers(config.min_clients, config.wait_for_clients_seconds)
        first = config.start_round
        return [self.run_round(number) for number in range(first, first + config.num_rounds)]

    def run_round(self, number: int) -> RoundReport:
        """Run one round, over as many attempts as it needs."""
        began = self._offered_at = time.monotonic()
        failures: dict[str, StreamlinkError] = {}
        for attempt in range(1, self._config.max_attempts + 1):
            peers = self._quorum(number, failures)
            belongs = Attempt(self._job, number, attempt)
            logger.info("%s: offered to %s", belongs, ", ".join(peer.name for peer in peers))
            try:
                gather = self._attempt(belongs, peers)
            except ContributorFailed as failed:
                logger.warning("%s: %s", belongs, failed)
                failures.update(self._causes(failed))
                self._grace(failed.peer, failures)
            except OutOfTime as late:
                raise QuorumNotReached(f"round {number}: {late}", failures) from late
            else:
                seconds = time.monotonic() - began
                return self._report(number, attempt, seconds, gather, failures)
        raise QuorumNotReached(
            f"round {number} failed {self._config.max_attempts} times (max_attempts)", failures
        )

    def standings(self) -> list[Standing]:
        """Return how far each client is in the round that runs; cheap, from any thread."""
        return [_standing(exchange) for exchange in list(self._exchanges)]

    def peak_bytes(self, clients: int) -> int:
        """Return what this job may hold over base with so many clients (bytes), buffers included.

        For each client two streams; beside them what the store reads and writes with, and one piece
        of the new model with the mean's scratch. None of it grows with the model.
        """
        stream = self._server.config.stream.stream_bytes
        return clients * (2 * stream + _CLIENT_BYTES) + _STORE_BYTES + 2 * PIECE_BYTES

    # --- one attempt --------------------------------------------------------------------

    def _attempt(self, belongs: Attempt, peers: Sequence[Peer]) -> LockstepGather:
        source = self._store.open()
        try:
            return self._scatter_and_gather(belongs, peers, source)
        finally:
            self._exchanges = []
            source.close()

    def _scatter_and_gather(
        self, belongs: Attempt, peers: Sequence[Peer], source: ModelSource
    ) -> LockstepGather:
        exchanges: list[Exchange] = []
        senders: list[threading.Thread] = []
        faults: list[Exception] = []
        sink = self._store.begin(source.spec)
        try:
            for peer in peers:  # one by one: those asked before one that fails are told so
                exchanges.append(  # noqa: PERF401
                    _ask(peer, self._config.train_task_name, source, belongs)
                )
            self._exchanges = exchanges
            senders = [_start_sending(exchange, source, faults) for exchange in exchanges]
            gather = self._lockstep(exchanges, source, sink)
            gather.run()
        except BaseException as error:
            self._give_up(exchanges, sink, f"{belongs} is over: {error}", error)
            if faults:
                raise faults[0] from error  # our own store's, not that client's
            raise
        finally:
            # The source is read by these threads: nobody closes it under them.
            for sender in senders:
                sender.join()
        for exchange in exchanges:
            _hear_out(exchange)
            _summarise(exchange, belongs)
            exchange.close()
        return gather

    @staticmethod
    def _give_up(
        exchanges: Sequence[Exchange], sink: ModelSink, reason: str, error: BaseException
    ) -> None:
        try:
            if isinstance(error, ContributorFailed):
                _tell_traceback(exchanges, error.peer)
            for exchange in exchanges:
                exchange.end(AbortCode.STALE_ATTEMPT, reason)
        finally:
            sink.discard()

    def _lockstep(
        self, exchanges: Sequence[Exchange], source: ModelSource, sink: ModelSink
    ) -> LockstepGather:
        timeout = self._config.train_timeout
        contributors = [
            Contributor(
                exchange.peer,
                exchange.incoming,
                on_begin=exchange.reply_began,
                failure=lambda exchange=exchange: exchange.failure,  # type: ignore[misc]
            )
            for exchange in exchanges
        ]
        return LockstepGather(
            source.spec,
            contributors,
            sink,
            held_interval=self._server.config.timeouts.held_interval,
            deadline=self._offered_at + timeout if timeout else None,
            train_timeout=timeout,
        )

    # --- the rules ----------------------------------------------------------------------

    def _quorum(self, number: int, failures: dict[str, StreamlinkError]) -> list[Peer]:
        """Return who takes part in the next attempt: all that are here and have not failed."""
        peers = [peer for peer in self._server.peers if peer.name not in failures]
        if len(peers) < self._config.min_clients:
            raise QuorumNotReached(
                f"round {number}: {len(peers)} of {self._config.min_clients} clients left "
                "(min_clients); the last whole model stands",
                failures,
            )
        return peers

    def _grace(self, name: str, failures: dict[str, StreamlinkError]) -> None:
        """Wait for a client that dropped out; if it comes back, its failure is forgiven."""
        if any(peer.name == name and peer.is_here for peer in self._server.peers):
            return  # it is here and failed all the same: its task raised, or its stream stalled
        seconds = self._config.wait_time_after_min_received
        logger.info("waiting up to %g s for %s to come back", seconds, name)
        if self._server.wait_for_peer(name, seconds) is not None:
            failures.pop(name, None)

    @staticmethod
    def _causes(failed: ContributorFailed) -> dict[str, StreamlinkError]:
        cause = failed.__cause__
        return {failed.peer: cause if isinstance(cause, StreamlinkError) else failed}

    def _report(
        self,
        number: int,
        attempt: int,
        seconds: float,
        gather: LockstepGather,
        failures: dict[str, StreamlinkError],
    ) -> RoundReport:
        missing = {name: str(error) for name, error in failures.items()}
        report = RoundReport(number, attempt, seconds, gather.weights, gather.metrics, missing)
        logger.info(
            "round %d done in %.1f s: %d updates in the new model", number, seconds,
            len(report.weights),
        )  # fmt: skip
        return report


def _ask(peer: Peer, topic: str, source: ModelSource, belongs: Attempt) -> Exchange:
    try:
        return peer.ask(topic, source.spec, attempt=belongs)
    except StreamlinkError as error:
        raise ContributorFailed(peer.name, error) from error


def _start_sending(
    exchange: Exchange, source: ModelSource, faults: list[Exception]
) -> threading.Thread:
    def send() -> None:
        try:
            send_model(exchange.outgoing, source)
            exchange.request_complete()
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
                faults.append(error)  # of reading the store
            # The gather waits on the other stream: end it, with the reason.
            logger.debug("sending to %s ended: %s", exchange.peer, error)
            exchange.incoming.abort(AbortCode.CANCELLED, f"sending it the model failed: {error}")

    thread = threading.Thread(target=send, name=f"send-{exchange.peer}", daemon=True)
    thread.start()
    return thread


def _hear_out(exchange: Exchange) -> None:
    """Wait until the client has heard that its update counts: no goodbye may overtake that."""
    try:
        exchange.wait_reply(_REPLY_SECONDS)
    except StreamlinkError as error:
        logger.debug("%s left before its reply: %s", exchange.peer, error)


def _tell_traceback(exchanges: Sequence[Exchange], peer: str) -> None:
    """Log what the task of ``peer`` raised, as its client tells it right after the stream's end."""
    exchange = next((each for each in exchanges if each.peer == peer), None)
    try:
        reply = exchange.wait_reply(_REPLY_SECONDS) if exchange is not None else None
    except StreamlinkError:
        return  # the client is gone; why is in the round's own error
    if reply is None or not reply.traceback:
        return
    logger.error("%s: the task raised %s", peer, reply.error[:_TRACEBACK_WIDTH])
    # A line each: it came from outside, and a record's line breaks are escaped.
    for line in reply.traceback.splitlines()[-_TRACEBACK_LINES:]:
        logger.error("%s: | %s", peer, line[:_TRACEBACK_WIDTH])


def _summarise(exchange: Exchange, belongs: Attempt) -> None:
    for way, model in (("down", exchange.outgoing), ("up", exchange.incoming)):
        stats, seconds = model.stats, time.monotonic() - model.began_at
        facts = {
            "peer": exchange.peer,
            "direction": way,
            "round": belongs.round,
            "attempt": belongs.attempt,
            "bytes": stats.received_bytes,
            "seconds": round(seconds, 3),
            "rate": f"{stats.received_bytes / max(seconds, 1e-9) / 1e6:.4g}MB/s",
            "chunks": stats.chunks,
            "repairs": stats.repairs,
            "resumes": stats.resumes,
        }
        text = " ".join(f"{name}={fact}" for name, fact in facts.items())
        # The facts as such are for a log that is made of JSON.
        logger.info("transfer done %s", text, extra={"event": "transfer done", "facts": facts})


def _standing(exchange: Exchange) -> Standing:
    down, up = exchange.outgoing.stats, exchange.incoming.stats
    total = exchange.outgoing.spec.nbytes
    phase = "committing" if up.received_bytes == total else "streaming"
    return Standing(exchange.peer, phase, down.received_bytes, up.received_bytes, total)
