"""One job of some rounds on this machine: a server, its clients, and a shaped line before any.

Each is a process of its own, the relays too (``lines``). The bodies of the server and of a client
that streams are here; other clients are where they are measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import streamlink
from benchmarks.lines import Line, opened
from benchmarks.models import GrowingStore, Layout
from benchmarks.processes import Usage, Worker, WorkerFailed
from benchmarks.worker import Port
from streamlink.config import GrpcConfig
from streamlink.model import RangeFunction
from streamlink.stores import SafetensorsStore

__all__ = ["Job", "Ran", "Site", "client", "run_job", "serve", "stream"]

STARTED_AT_ONCE = 8  # processes; more would only wait for each other's imports
JOIN_SECONDS = 300.0
RUN_SECONDS = 3600.0


@dataclass(frozen=True)
class Job:
    """What the server runs.

    Attributes:
        layout: of the model.
        grows: what each round's mean adds to the trained elements.
        clients: the round does not begin before so many are there (count).
        rules: of the rounds, by the names of ``RoundConfig``.
        is_spooled: whether there is a directory for updates.
        memory_bytes: of the server, for the models of all clients together; 0: each stream has a
            window of its own.
    """

    layout: Layout
    grows: float
    clients: int
    rules: Mapping[str, Any]
    is_spooled: bool = False
    memory_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Job:
        """Return the job that :meth:`as_json` described."""
        return cls(**{**facts, "layout": Layout(**facts["layout"])})


@dataclass(frozen=True)
class Site:
    """One client: its name, its body and the body's own facts, and the line it is behind."""

    name: str
    body: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    line: Line | None = None


@dataclass(frozen=True)
class Ran:
    """What became of a job.

    Attributes:
        rounds: of each, its number, seconds, weights and failures.
        done_at: when each round was done, after the start of the first (seconds).
        peak_bytes: what the server may hold over base with these clients (bytes).
        server: what it used, from its base to its end. clients: what each used, by name.
        cpu_seconds: those of the server in the rounds: without its clients' joining, and its end.
    """

    rounds: tuple[dict[str, Any], ...]
    done_at: tuple[float, ...]
    peak_bytes: int
    server: Usage
    clients: dict[str, Usage]
    cpu_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """From the start of the first round to the end of the last."""
        return self.done_at[-1]

    @property
    def steady_seconds(self) -> tuple[float, ...]:
        """From one round's end to the next one's, without the first round and the last."""
        return tuple(later - sooner for sooner, later in pairwise(self.done_at[:-1]))

    @property
    def is_within_budget(self) -> bool:
        """Whether the server stayed under base + ``peak_bytes``."""
        return self.server.over_base_bytes <= self.peak_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Ran:
        """Return what :meth:`as_json` described."""
        clients = {name: Usage(**each) for name, each in facts["clients"].items()}
        return cls(
            tuple(facts["rounds"]),
            tuple(facts["done_at"]),
            facts["peak_bytes"],
            Usage(**facts["server"]),
            clients,
            facts.get("cpu_seconds", 0.0),  # reports of before have none
        )


def run_job(job: Job, sites: Sequence[Site], folder: Path | None = None) -> Ran:
    """Run the job once, in fresh processes.

    Args:
        job: what the server runs.
        sites: the clients.
        folder: has the model, in ``model``, and gets the state of an aggregator, in ``state``; the
            caller checks what became of the model. None: the model is computed, and checked here.

    Raises:
        WorkerFailed: a process failed, or a model is not what the rounds should give.
    """
    with ExitStack() as workers:
        # Ours, not the server's: a process that is ended cannot clean up.
        spool = workers.enter_context(tempfile.TemporaryDirectory(prefix="streamlink-benchmark-"))
        facts = {
            "job": job.as_json(),
            "spool": spool if job.is_spooled else None,
            "folder": str(folder) if folder else None,
        }
        server = workers.enter_context(Worker("benchmarks.jobs:serve", facts, name="server"))
        address = server.expect("listening")["address"]
        clients = _joined(sites, address, workers)
        server.expect("ready")
        server.tell("go")
        ran = server.expect("ran", timeout_seconds=RUN_SECONDS)
        if not folder and (ran["wrong_bytes"] or ran["models"] != len(ran["rounds"])):
            raise WorkerFailed(f"{ran['models']} new models, {ran['wrong_bytes']} bytes are wrong")
        return Ran(
            tuple(ran["rounds"]),
            tuple(ran["done_at"]),
            ran["peak_bytes"],
            server.finish(),
            {site.name: client.finish() for site, client in zip(sites, clients, strict=True)},
            ran["cpu_seconds"],
        )


def _joined(sites: Sequence[Site], address: str, workers: ExitStack) -> list[Worker]:
    clients: list[Worker] = []
    for first in range(0, len(sites), STARTED_AT_ONCE):
        for site in sites[first : first + STARTED_AT_ONCE]:
            near = opened(site.line, address, workers) if site.line else address
            facts = {**site.facts, "address": near, "name": site.name}
            clients.append(workers.enter_context(Worker(site.body, facts, name=site.name)))
        for client in clients[first:]:
            client.expect("joined", timeout_seconds=JOIN_SECONDS)
    return clients


# --- what the processes do ----------------------------------------------------------------------


def serve(
    port: Port, job: dict[str, Any], spool: str | None = None, folder: str | None = None
) -> None:
    """Run the rounds when all clients are there and the word is given, and tell what came of it."""
    plan, done_at = Job.from_json(job), [0.0]
    rules = streamlink.RoundConfig(**plan.rules)
    streamlink.tune_allocator()
    port.mark_base()
    computed = GrowingStore(plan.layout, plan.grows)
    store = SafetensorsStore(Path(folder, "model")) if folder else computed
    state = Path(folder, "state") if folder else None
    config = streamlink.LinkConfig(
        stream=streamlink.StreamConfig(memory_bytes=plan.memory_bytes),
        grpc=GrpcConfig(max_clients=max(16, plan.clients)),
    )

    def on_event(event: streamlink.RoundEvent) -> None:
        if event.kind is streamlink.rounds.EventKind.ROUND_DONE:
            done_at.append(time.perf_counter())

    with streamlink.Server("127.0.0.1:0", config) as server:
        rounds = streamlink.ScatterAndGather(
            server, store, rules, spool=spool, state=state, on_event=on_event
        )
        port.tell("listening", address=f"127.0.0.1:{server.port}")
        server.wait_for_peers(plan.clients, JOIN_SECONDS)
        port.tell("ready")
        port.wait_for("go")
        done_at[0], used = time.perf_counter(), time.process_time()
        reports = rounds.run()
        used = time.process_time() - used
        peak_bytes = rounds.peak_bytes(plan.clients)
    port.tell(
        "ran",
        rounds=[_told(report) for report in reports],
        done_at=[at - done_at[0] for at in done_at[1:]],
        peak_bytes=peak_bytes,
        cpu_seconds=used,
        models=computed.models,
        wrong_bytes=computed.wrong_bytes,
    )


def client(port: Port, address: str, name: str, added: float) -> None:
    """Serve rounds with a streaming executor that adds a number to every element."""
    stream(port, address, name, lambda tensor, start, values: values + np.float32(added))


def stream(port: Port, address: str, name: str, function: RangeFunction) -> None:
    """Serve rounds with a streaming executor of this function."""
    streamlink.tune_allocator()
    port.mark_base()
    with streamlink.Client(address, name, streamlink.StreamingExecutor(function)) as here:
        port.tell("joined")
        here.run()


def _told(report: streamlink.RoundReport) -> dict[str, Any]:
    return {
        "round": report.round,
        "seconds": report.seconds,
        "weights": report.weights,
        "failures": report.failures,
    }
