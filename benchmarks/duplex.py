"""Two clients, a streaming executor, models in memory: payload of both directions, all clients.

A round where the answer to one range leaves while the next range arrives uses both directions of
the link at once. The aggregate rate is every payload byte that crossed, each counted once per
traverse, by the seconds of the rounds; it is compared with plain grpcio carrying one stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import streamlink
from benchmarks.arrays import GiB, Load, tune_allocator
from benchmarks.bulk import link_config
from benchmarks.peers import PLAIN, PLAIN_TUNED, Run, measure
from benchmarks.processes import Usage, Worker, WorkerFailed
from benchmarks.stats import MIN_PAIRS, Result, compare, interleave, summarize
from benchmarks.worker import Port
from streamlink.config import GrpcConfig
from streamlink.stores import MemoryStore

__all__ = ["Rounds", "measure_rounds", "run", "streamlink_client", "streamlink_server"]

CLIENTS = 2
ROUNDS = 3
WARM_UP_ROUNDS = 2  # until both sets of arrays have been touched, as the peers' are
ADDED = 1.0
AT_LEAST = 0.7  # of one plain stream


# ----- streamlink's own part ------------------------------------------------------------------


def streamlink_server(port: Port, load: dict[str, Any], clients: int, rounds: int) -> None:
    """Hold the model in memory and run the rounds.

    Steps: ``Load.from_json``, imports and ``tune_allocator``, ``port.mark_base()``, model,
    ``port.tell("listening", address=…)``, wait for all clients, ``port.tell("ready")``,
    ``port.wait_for("go")``, timed rounds, then ``port.tell("ran", …)`` with the seconds and the
    processor's seconds of these rounds, and ``verified`` from the final model: every element grew
    by the executor's number times rounds.
    """
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    count = plan.total_bytes // plan.tensors // 4
    store = MemoryStore(
        {f"key_{key:02d}": np.full(count, key, np.float32) for key in range(plan.tensors)}
    )
    rules = streamlink.RoundConfig(min_clients=clients)
    room = GrpcConfig(max_clients=max(GrpcConfig().max_clients, clients))
    config = link_config(plan).model_copy(update={"grpc": room})
    with streamlink.Server("127.0.0.1:0", config) as server:
        port.tell("listening", address=f"127.0.0.1:{server.port}")
        job = streamlink.ScatterAndGather(server, store, rules, job="duplex")
        server.wait_for_peers(clients, rules.wait_for_clients_seconds)
        for number in range(WARM_UP_ROUNDS):
            job.run_round(number)
        port.tell("ready")
        port.wait_for("go")
        started_at, used = time.perf_counter(), time.process_time()
        for number in range(rounds):
            job.run_round(WARM_UP_ROUNDS + number)
        seconds, cpu_seconds = time.perf_counter() - started_at, time.process_time() - used
    grown = ADDED * (WARM_UP_ROUNDS + rounds)
    final = list(store.arrays.values())
    verified = all(bool((values == key + grown).all()) for key, values in enumerate(final))
    port.tell("ran", seconds=seconds, cpu_seconds=cpu_seconds, verified=verified)


def streamlink_client(port: Port, load: dict[str, Any], address: str, name: str) -> None:
    """Join as ``name`` with a streaming executor that adds a small number; end with the server.

    Steps: imports and ``tune_allocator``, ``port.mark_base()``, join, serve rounds to the end.
    """
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    executor = streamlink.StreamingExecutor(
        lambda tensor, start, values: values + np.float32(ADDED)
    )
    with streamlink.Client(address, name, executor, link_config(plan)) as client:
        client.run()


# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """Some rounds: payload of both directions and all clients (bytes), seconds, and memory.

    ``cpu_seconds`` are those of the server in these rounds, without its start and its end.
    """

    payload_bytes: int
    seconds: float
    cpu_seconds: float
    server: Usage
    clients: tuple[Usage, ...]

    @property
    def rate(self) -> float:
        """Aggregate payload per second (bytes/s)."""
        return self.payload_bytes / self.seconds

    @property
    def cpu_seconds_per_gb(self) -> float:
        """CPU time of the server per GB of payload, both directions together (seconds)."""
        return self.cpu_seconds / (self.payload_bytes / 1e9)

    def as_json(self) -> dict[str, Any]:
        """Return the rounds as a JSON object."""
        return {
            "seconds": self.seconds,
            "bytes_per_second": self.rate,
            "server_cpu_seconds_per_gb": self.cpu_seconds_per_gb,
            "server": self.server.as_json(),
            "clients": [usage.as_json() for usage in self.clients],
        }


def run(quick: bool) -> Result:
    """Measure rounds and plain streams in turn."""
    load = Load(total_bytes=GiB // 4 if quick else GiB, tensors=64, tuned=True)
    turns: dict[str, Callable[[], Rounds | Run]] = {
        "rounds": lambda: measure_rounds(load),
        PLAIN_TUNED.name: lambda: measure(PLAIN_TUNED, load),
        PLAIN.name: lambda: measure(PLAIN, Load(total_bytes=load.total_bytes)),
    }
    results = interleave(turns, pairs=1 if quick else MIN_PAIRS)
    rates = {name: [found.rate for found in runs] for name, runs in results.items()}
    ratios = {
        name: compare("rounds", rates["rounds"], name, rates[name])
        for name in (PLAIN_TUNED.name, PLAIN.name)
    }
    return Result(
        name="duplex",
        claim=f"{CLIENTS} clients with a streaming executor carry, both directions together, at "
        f"least {AT_LEAST:.2f} x one plain grpcio stream",
        columns=("what", "GB/s, median", "p10..p90", "rounds are", "server's CPU, s per GB"),
        rows=tuple(
            (*_row(name, rates[name], str(ratios.get(name, ""))), _cpu(runs))
            for name, runs in results.items()
        ),
        facts={
            "load": load.as_json(),
            "runs": {name: [found.as_json() for found in runs] for name, runs in results.items()},
        },
        met=None if quick else ratios[PLAIN.name].summary.median >= AT_LEAST,
    )


def measure_rounds(load: Load, clients: int = CLIENTS) -> Rounds:
    """Run the rounds once, in fresh processes.

    Args:
        load: its total_bytes are the model's, for each client and direction.
        clients: how many take part (count).

    Raises:
        WorkerFailed: a process failed, or the final model is wrong.
    """
    facts = {"load": load.as_json()}
    with ExitStack() as workers:
        server = workers.enter_context(
            Worker(
                "benchmarks.duplex:streamlink_server",
                {**facts, "clients": clients, "rounds": ROUNDS},
                name="server",
            )
        )
        address = server.expect("listening")["address"]
        sites = [
            workers.enter_context(
                Worker(
                    "benchmarks.duplex:streamlink_client",
                    {**facts, "address": address, "name": name},
                    name=name,
                )
            )
            for name in (f"site-{number}" for number in range(1, clients + 1))
        ]
        server.expect("ready")
        server.tell("go")
        ran = server.expect("ran")
        if not ran["verified"]:
            raise WorkerFailed("the final model is not what the rounds should give")
        used = server.finish(), tuple(site.finish() for site in sites)
    payload_bytes = 2 * clients * ROUNDS * load.total_bytes
    return Rounds(payload_bytes, ran["seconds"], ran["cpu_seconds"], *used)


def _cpu(runs: Sequence[Rounds | Run]) -> str:
    seen = [each.cpu_seconds_per_gb for each in runs if isinstance(each, Rounds)]
    return f"{median(seen):.2f}" if seen else ""


def _row(name: str, rates: list[float], ratio: str) -> tuple[str, ...]:
    seen = summarize([rate / 1e9 for rate in rates])
    return name, f"{seen.median:.2f}", f"{seen.low:.2f}..{seen.high:.2f}", ratio
