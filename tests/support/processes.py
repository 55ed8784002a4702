"""A server and clients as processes: what they do, and how a test starts and hears them.

``python -m tests.support.processes server ...`` and ``... client ...`` print facts, one JSON
object a line, as they come to know them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

import streamlink as sl
from streamlink.closing import Closing
from streamlink.fleet import peak_rss_bytes
from streamlink.stores import MemoryStore
from tests.support.forked import Fork
from tests.support.peers import ODD, WAIT, Array, initial, trained

ROOT = Path(__file__).parents[2]
NARROW = sl.LinkConfig(
    stream=sl.StreamConfig(chunk_bytes="1MiB", window_bytes="4MiB"),
    timeouts=sl.TimeoutConfig(connect_timeout=WAIT, reconnect_timeout=1.0, rejoin_timeout=0),
)
"""Windows well below a model, so that a bound on memory means something; a killed client is given
up after a second."""


def tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def serve(store: sl.ModelStore, clients: int, rules: sl.RoundConfig, memory: str = "0") -> None:
    """Run one round for so many clients and tell what came of it.

    ``memory`` is what all streams share; 0: each has its own.
    """
    base = psutil.Process().memory_info().rss
    stream = {**NARROW.stream.model_dump(), "memory_bytes": memory}
    with sl.Server("127.0.0.1:0", sl.LinkConfig(stream=stream, timeouts=NARROW.timeouts)) as server:
        tell(port=server.port)
        server.wait_for_peers(clients, WAIT)
        job = sl.ScatterAndGather(server, store, rules)
        (report,) = job.run()
        tell(
            contributors=sorted(report.weights),
            attempt=report.attempt,
            failures=report.failures,
            peak_over_base=peak_rss_bytes(os.getpid()) - base,
            stated_peak=job.peak_bytes(clients),
        )
    tell(digest=sl.digest_of(store.open()))


def server(clients: str, min_clients: str, place: str, memory: str = "0") -> None:
    """Serve ``ODD`` from memory, or, with a place, what lies in a store there."""
    sl.tune_allocator()
    rules = sl.RoundConfig(
        min_clients=int(min_clients), num_rounds=1, wait_time_after_min_received=0.2
    )
    store = sl.open_store(place, "none") if place else MemoryStore(initial(ODD))
    serve(store, int(clients), rules, memory)


def client(port: str, number: str, stops_at: str) -> None:
    """Take part; stop for good at the first range of tensor ``stops_at``, having told so."""
    function = trained(int(number))

    def stopping(tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        if tensor.name == stops_at:
            tell(stopped=True)
            signal.pause()
        return function(tensor, start, values)

    work = sl.StreamingExecutor(stopping, metrics=dict[str, float])
    with sl.Client(f"127.0.0.1:{port}", f"site-{number}", work) as site:
        tell(rounds=len(site.run()))


def echoes(port: str, count: str) -> None:
    """Take part as several sites in one process; each sends back what it got."""
    sites = [
        sl.Client(
            f"127.0.0.1:{port}", f"site-{n}", sl.StreamingExecutor(lambda t, at, v: v)
        ).start()
        for n in range(int(count))
    ]
    threads = [threading.Thread(target=site.run) for site in sites]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for site in sites:
        site.close()


class Processes(Closing):
    """Processes of a test, and the facts they tell; all are killed at its end."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def start(self, role: str, *arguments: object) -> subprocess.Popen[str]:
        """Start one of this module's roles."""
        command = [sys.executable, "-m", __name__, role, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._running.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def fact(process: subprocess.Popen[str] | Fork, name: str) -> Any:
    """Return the fact ``name`` once the process tells it; fails when it ends without."""
    assert process.stdout is not None
    for line in process.stdout:
        facts = json.loads(line)
        if name in facts:
            return facts if len(facts) > 1 else facts[name]
    raise AssertionError(f"the process ended with {process.wait()} and never told {name}")


ROLES: dict[str, Callable[..., None]] = {"server": server, "client": client, "echoes": echoes}


def main(arguments: Sequence[str]) -> None:
    ROLES[arguments[0]](*arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
