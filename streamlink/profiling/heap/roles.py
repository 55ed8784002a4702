"""One process of an experiment: ``python -m streamlink.profiling.heap.roles ORDER``.

``ORDER`` is the JSON of an ``Order``. Standard output has a line of JSON for each event: where the
server listens, each round, and why it failed.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import streamlink as sl
from streamlink.fleet import Reporter
from streamlink.profiling.heap.capture import Capture
from streamlink.profiling.heap.experiment import Experiment, Order
from streamlink.profiling.heap.variants import variant
from streamlink.training.client import for_client, link_config, run_client
from streamlink.training.code import CodeFolder
from streamlink.training.server import job_config, run_server

__all__ = ["run_role"]

_DATA_BESIDE = ["stream.data_listen=auto"]  # as streamlink listens by default


def run_role(order: Order, report: Callable[..., object]) -> None:
    """Do what the order says, with the memory of this process watched, and write its record.

    Args:
        order: what to do.
        report: called with the facts of each event.

    Raises:
        StreamlinkError: the job failed here.
        Exception: whatever the training raised.
    """
    switches = variant(order.version)
    experiment = switches.of(order.experiment)
    assert sl.Server  # imported now, so that the base counts the program
    assert sl.Client
    if order.role == "client":
        import torch

        from streamlink.training.executor import TrainingExecutor

        assert TrainingExecutor
        # Clients of one machine share its cores.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // experiment.server.num_clients))
    if switches.server and switches.carrier and switches.chunking:
        sl.tune_allocator()  # as the command line does
    with Capture(order, report) as capture:
        if order.role == "server":
            _serve(order, experiment, capture, report)
        else:
            _take_part(order, experiment, capture)


def _serve(
    order: Order, experiment: Experiment, capture: Capture, report: Callable[..., object]
) -> None:
    assert order.start is not None

    def on_event(event: sl.RoundEvent) -> None:
        if event.report is not None:
            capture.done(event.report.round, event.report.seconds)

    with TemporaryDirectory(prefix="model-", dir=order.run) as folder:
        model = Path(folder) / "global"
        shutil.copytree(order.start, model)
        with closing(sl.open_model(model)) as first:
            capture.model_bytes = first.spec.nbytes
        run_server(
            experiment.server,
            sl.open_store(model),
            listen=order.address,
            config=job_config(experiment.server, _DATA_BESIDE),
            begun=lambda server: report(event="listening", address=server.address),
            on_event=on_event,
        )
        capture.digest = sl.digest_of(model)


def _take_part(order: Order, experiment: Experiment, capture: Capture) -> None:
    with ThreadPoolExecutor(len(order.clients)) as pool:
        runs = [
            pool.submit(_run_client, order, experiment, number, capture) for number in order.clients
        ]
        for run in runs:
            run.result()


def _run_client(order: Order, experiment: Experiment, number: int, capture: Capture) -> None:
    from streamlink.training.executor import TrainingExecutor

    settings = for_client(experiment.client, number, experiment.server.num_clients)
    executor = TrainingExecutor(settings, code=CodeFolder(experiment.code))
    timed = _Timed(executor, capture)
    run_client(settings, timed, server=order.address, config=link_config(settings))


class _Timed:
    """Passes each task on to an executor, and notes how long it took."""

    def __init__(self, executor: Any, capture: Capture) -> None:
        self._executor, self._capture = executor, capture

    def execute(self, task: sl.Task, assignment: Any) -> Any:
        began = time.monotonic()
        outcome = self._executor.execute(task, assignment)
        self._capture.model_bytes = max(self._capture.model_bytes, self._executor.model_bytes)
        self._capture.done(task.round, time.monotonic() - began)
        return outcome


def main() -> int:
    """Run the role that the command line names; returns its exit code."""
    order = Order.model_validate_json(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # A copy: what a library prints does not end our lines.
    reporter = Reporter(os.dup(sys.stdout.fileno()))
    who = _who(order)

    def report(**facts: Any) -> None:
        reporter.report(who=who, **facts)

    try:
        run_role(order, report)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        logging.exception("%s failed", who)
        report(event="failed", text=f"{type(error).__name__}: {error}")
        return 1
    return 0


def _who(order: Order) -> str:
    if order.rank is not None:
        return f"rank {order.rank}"
    return "server" if order.role == "server" else f"client {order.clients[0] + 1}"


if __name__ == "__main__":
    sys.exit(main())
