"""One process of an experiment: ``python -m streamlink.profiling.heap.roles ORDER``.

``ORDER`` is the JSON of an ``Order``. Standard output has a line of JSON for each event: where the
server listens, each round, and why it failed.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import sys
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
from streamlink.profiling.heap.variants import ALONE, variant
from streamlink.profiling.memory import resident_bytes
from streamlink.training.client import for_client, link_config, run_client
from streamlink.training.code import CodeFolder
from streamlink.training.server import job_config, run_server
from streamlink.training.settings import ModelSettings

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
    for name in ("Server", "Client", "ScatterAndGather"):
        getattr(sl, name)  # imported now, so that the base counts the program
    if order.role == "client":
        import torch

        importlib.import_module("streamlink.training.executor")
        _make_small(experiment)
        # Clients of one machine share its cores.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // experiment.server.num_clients))
    if switches.server and switches.carrier and switches.chunking:
        sl.tune_allocator()  # as the command line does
    with Capture(order) as capture:
        if order.role == "server":
            _serve(order, experiment, capture, report)
        elif order.version == ALONE:
            _train_alone(order, experiment, capture)
        else:
            _take_part(order, experiment, capture)


def _make_small(experiment: Experiment) -> None:
    """Make a tiny language model and drop it: what its library loads for it is part of the base."""
    from streamlink.training.models import load_model

    model = experiment.server.order.model
    if model is not None and model.name == "llm" and not model.path:
        load_model(ModelSettings(name="llm"))


def _serve(
    order: Order, experiment: Experiment, capture: Capture, report: Callable[..., object]
) -> None:
    assert order.start is not None

    def on_event(event: sl.RoundEvent) -> None:
        if event.report is not None:
            capture.done(event.report.round, event.report.seconds)
            report(
                event="round",
                number=event.report.round,
                seconds=event.report.seconds,
                rss_bytes=resident_bytes(),
            )

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
    cancel = sl.CancelToken()
    with ThreadPoolExecutor(len(order.clients)) as pool:
        runs = [
            pool.submit(_run_client, order, experiment, number, capture, cancel)
            for number in order.clients
        ]
        try:
            for run in runs:
                run.result()
        except BaseException as error:  # a signal, too: else the others would wait for the server
            cancel.cancel(f"this process ends: {type(error).__name__}")
            raise


def _train_alone(order: Order, experiment: Experiment, capture: Capture) -> None:
    """Do the work of one client in all rounds, on a model that comes from nowhere."""
    from streamlink.training.data import load_data
    from streamlink.training.models import load_model, state_bytes
    from streamlink.training.trainer import Trainer

    code = CodeFolder(experiment.code)
    settings = for_client(experiment.client, order.clients[0], experiment.server.num_clients)
    train, validation = load_data(settings.data, code=code)
    trainer = Trainer(experiment.server.order.trainer, train, validation, code=code)
    module = load_model(experiment.server.order.model or ModelSettings(), code=code)
    capture.model_bytes = state_bytes(module)
    for number in range(experiment.server.num_rounds):
        trainer.run(module, number)


def _run_client(
    order: Order, experiment: Experiment, number: int, capture: Capture, cancel: sl.CancelToken
) -> None:
    from streamlink.training.executor import TrainingExecutor

    settings = for_client(experiment.client, number, experiment.server.num_clients)
    executor = TrainingExecutor(settings, code=CodeFolder(experiment.code))
    config = link_config(settings)
    run_client(settings, executor, server=order.address, config=config, cancel=cancel)
    capture.model_bytes = executor.model_bytes


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
