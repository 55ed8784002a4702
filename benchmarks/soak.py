"""Half an hour of rounds behind a line that fails at random: memory, threads and files stay flat.

A server and three clients, each a process. The clients of the line that fails are two that live as
long as the run, and one that is killed and started again all the time. One of the two has a single
connection for each model, the others have three lanes. Every new model is compared
with the right one, to the last byte. What is judged of each process that lives: whether resident
memory, threads and descriptors in the last third of the run are what they were in the first, after
a warm-up.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
from rich.progress import track

import streamlink
from benchmarks.cuts import with_lanes
from benchmarks.models import GrowingStore, Layout
from benchmarks.processes import Worker
from benchmarks.relay import Relay
from benchmarks.stats import Result
from benchmarks.worker import Port
from streamlink.errors import QuorumNotReached

__all__ = ["FAULTS", "Seen", "is_flat", "run"]

MIB = 1 << 20
SECONDS, QUICK_SECONDS = 1800.0, 9.0
WARM_UP = 0.2
"""Share of the run that is not judged."""

LAYOUT = Layout(tensors=16, tensor_bytes=MIB // 2)
STEADY = {"steady-1": 0, "steady-2": 3}
"""The clients that live as long as the run, and over how many lanes; 0: the default, one here."""
MORTAL, MORTAL_LANES = "mortal", 3
FAULT_EVERY = (0.5, 4.0)  # seconds, at random between the two
ROUND_SECONDS = 120.0  # a round that takes longer than that has stopped moving
GROWTH = 0.04
"""Most that memory may have grown by (share), or ``GROWTH_BYTES`` if that is more."""
GROWTH_BYTES = 6 * MIB
MORE = 8
"""Most threads or descriptors there may be more at the median (count)."""
KEPT_SAMPLES = 600

CONFIG = {
    "stream": {"chunk_bytes": "256KiB", "window_bytes": "1MiB"},
    "timeouts": {
        "connect_timeout": 120.0,
        "heartbeat_interval": 0.5,
        "session_timeout": 3.0,
        "reconnect_timeout": 15.0,
        "call_timeout": 3.0,
    },
}

Rand = random.Random
Fault = Callable[[Relay, Rand], None]


# --- what happens to the line -------------------------------------------------------------------


def _reset(relay: Relay, rand: Rand) -> None:
    relay.reset()


def _stall(relay: Relay, rand: Rand) -> None:
    relay.stall(rand.choice(("up", "down", "both")))
    time.sleep(rand.uniform(0.1, 1.5))
    relay.resume()


def _black_hole(relay: Relay, rand: Rand) -> None:
    relay.black_hole(rand.choice(("up", "down", "both")))
    time.sleep(rand.uniform(0.1, 1.5))
    relay.resume()


def _half_open(relay: Relay, rand: Rand) -> None:
    relay.half_open(rand.choice(("client", "server")))


def _refuse(relay: Relay, rand: Rand) -> None:
    relay.refuse()
    relay.reset()
    time.sleep(rand.uniform(0.1, 2.0))
    relay.allow()


def _flip(relay: Relay, rand: Rand) -> None:
    relay.flip(rand.choice(("up", "down")), rand.randint(1, 5))


FAULTS: Mapping[str, Fault] = {
    "reset": _reset,
    "stall": _stall,
    "black hole": _black_hole,
    "half open": _half_open,
    "refuse": _refuse,
    "flip": _flip,
}
"""What befalls the line, by name."""


# --- the run --------------------------------------------------------------------------------------


@dataclass
class Seen:
    """One process over time: seconds, and at each what it had."""

    at: list[float] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def look(self, at: float, process: psutil.Process) -> None:
        """Add what the process has now."""
        with process.oneshot():
            rss, threads, files = (
                process.memory_info().rss,
                process.num_threads(),
                process.num_fds(),
            )
        self.at.append(round(at, 1))
        self.rss_bytes.append(rss)
        self.threads.append(threads)
        self.descriptors.append(files)

    def thirds(self, values: Sequence[int]) -> tuple[float, float]:
        """Return the medians of the first and of the last third of ``values`` after the warm-up."""
        judged = values[int(len(values) * WARM_UP) :]
        third = max(1, len(judged) // 3)
        return median(judged[:third]), median(judged[-third:])

    def as_json(self) -> dict[str, Any]:
        """Return some of it, evenly chosen."""
        step = -(-len(self.at) // KEPT_SAMPLES) or 1
        return {name: values[::step] for name, values in asdict(self).items()}


def is_flat(seen: Seen) -> bool:
    """Tell whether a process has in the end what it had after its warm-up."""
    early, late = seen.thirds(seen.rss_bytes)
    is_small = late - early <= max(GROWTH * early, GROWTH_BYTES)
    counts = (seen.thirds(values) for values in (seen.threads, seen.descriptors))
    return is_small and all(last - first <= MORE for first, last in counts)


def run(quick: bool, *, seed: int = 1, minutes: float = SECONDS / 60) -> Result:
    """Run for ``minutes`` (quick: 9 seconds)."""
    seconds = QUICK_SECONDS if quick else minutes * 60
    seen, faults, lives, facts = _soaked(seconds, Rand(seed))
    is_right = facts["wrong_bytes"] == 0 and facts["models"] == facts["rounds"] > 0
    met = is_right and all(is_flat(each) for each in seen.values())
    return Result(
        name="soak",
        claim="rounds behind a line that fails at random go on, each new model is right to the "
        "last byte, and memory, threads and descriptors stay flat after a warm-up",
        columns=("process", "RSS after warm-up, MiB", "RSS at the end, MiB", "threads", "files"),
        rows=tuple(_row(name, each) for name, each in seen.items()),
        facts={
            "seconds": seconds,
            "seed": seed,
            "lanes": {**STEADY, MORTAL: MORTAL_LANES},
            "layout": LAYOUT.as_json(),
            "faults": dict(faults),
            "deaths": lives,
            **facts,
            "processes": {name: each.as_json() for name, each in seen.items()},
        },
        met=None if quick else met,
    )


def _row(name: str, seen: Seen) -> tuple[str, ...]:
    early, late = seen.thirds(seen.rss_bytes)
    spans = (seen.thirds(values) for values in (seen.threads, seen.descriptors))
    counts = (f"{first:.0f} to {last:.0f}" for first, last in spans)
    return (name, f"{early / MIB:.1f}", f"{late / MIB:.1f}", *counts)


def _soaked(
    seconds: float, rand: Rand
) -> tuple[dict[str, Seen], Counter[str], int, dict[str, Any]]:
    over = threading.Event()
    with ExitStack() as stack:
        spool = stack.enter_context(tempfile.TemporaryDirectory(prefix="streamlink-soak-"))
        facts = {"spool": spool}
        server = stack.enter_context(Worker("benchmarks.soak:serve", facts, name="server"))
        host, _, port = server.expect("listening")["address"].rpartition(":")
        relay = stack.enter_context(Relay(host, int(port), with_data_port=True))
        address = f"127.0.0.1:{relay.port}"
        steady = [
            stack.enter_context(_client(name, address, lanes)) for name, lanes in STEADY.items()
        ]
        for each in steady:
            each.expect("joined")
        mortal = _Mortal(address, over, rand.random())
        mortal.start()
        server.tell("go")
        try:
            watched = {"server": server, **dict(zip(STEADY, steady, strict=True))}
            seen, faults = _watch(watched, relay, seconds, rand)
        finally:
            over.set()
            mortal.join()
        server.tell("stop")
        told = server.expect("ran", timeout_seconds=ROUND_SECONDS)
        told["left_over"] = [path.name for path in Path(spool).rglob("*")]
        return seen, faults, mortal.deaths, told


def _client(name: str, address: str, lanes: int) -> Worker:
    facts = {"address": address, "name": name, "lanes": lanes}
    return Worker("benchmarks.soak:client", facts, name=name)


def _watch(
    workers: Mapping[str, Worker], relay: Relay, seconds: float, rand: Rand
) -> tuple[dict[str, Seen], Counter[str]]:
    """Inject faults into the line for ``seconds``, and sample the processes once a second.

    Raises:
        WorkerFailed: one of them has ended.
    """
    processes = {name: psutil.Process(worker.pid) for name, worker in workers.items()}
    seen = {name: Seen() for name in workers}
    faults: Counter[str] = Counter()
    began = time.monotonic()
    due = began + rand.uniform(*FAULT_EVERY)
    for second in track(range(int(seconds)), description="soak"):
        while (left := began + second - time.monotonic()) > 0:
            if due - time.monotonic() < left:
                time.sleep(max(0.0, due - time.monotonic()))
                name = rand.choice(list(FAULTS))
                FAULTS[name](relay, rand)
                faults[name] += 1
                due = time.monotonic() + rand.uniform(*FAULT_EVERY)
            else:
                time.sleep(left)
        for name, process in processes.items():
            workers[name].require_running()  # the memory of a dead process is flat, too
            seen[name].look(time.monotonic() - began, process)
    return seen, faults


class _Mortal(threading.Thread):
    """A client that is killed at random, and started again."""

    def __init__(self, address: str, over: threading.Event, seed: float) -> None:
        super().__init__(name=MORTAL, daemon=True)
        self.deaths = 0
        self._address, self._over, self._rand = address, over, Rand(seed)

    def run(self) -> None:
        while not self._over.is_set():
            with _client(MORTAL, self._address, MORTAL_LANES):  # killed at the end of this block
                self._over.wait(self._rand.uniform(3.0, 15.0))
            self.deaths += 1


# --- what the processes do ----------------------------------------------------------------------


def serve(port: Port, spool: str) -> None:
    """Run rounds until told to stop, and tell what came of them."""
    streamlink.tune_allocator()
    port.mark_base()
    store = GrowingStore(LAYOUT, 1.0)
    rules = streamlink.RoundConfig(
        min_clients=len(STEADY), max_attempts=20, wait_time_after_min_received=2.0
    )
    config = streamlink.LinkConfig.model_validate(CONFIG)
    is_over = threading.Event()
    rounds, failed = 0, Counter[str]()
    with streamlink.Server("127.0.0.1:0", config) as server:
        port.tell("listening", address=f"127.0.0.1:{server.port}")
        server.wait_for_peers(len(STEADY), 60.0)
        port.wait_for("go")
        threading.Thread(target=_until_stop, args=(port, is_over), daemon=True).start()
        job = streamlink.ScatterAndGather(server, store, rules, spool=spool)
        while not is_over.is_set():
            try:
                job.run_round(rounds)
                rounds += 1
            except QuorumNotReached as error:
                failed[str(error)[:200]] += 1
                is_over.wait(0.5)  # those who are away come back
    port.tell(
        "ran",
        rounds=rounds,
        models=store.models,
        wrong_bytes=store.wrong_bytes,
        failed=dict(failed),
    )


def _until_stop(port: Port, is_over: threading.Event) -> None:
    port.wait_for("stop")
    is_over.set()


def client(port: Port, address: str, name: str, lanes: int) -> None:
    """Add 1 to every element of each range, over so many lanes."""
    streamlink.tune_allocator()
    port.mark_base()
    executor = streamlink.StreamingExecutor(lambda tensor, start, values: values + np.float32(1))
    config = with_lanes(streamlink.LinkConfig.model_validate(CONFIG), lanes)
    with streamlink.Client(address, name, executor, config) as here:
        port.tell("joined")
        here.run()
