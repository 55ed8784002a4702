"""``streamlink train``: a training job with PyTorch, whole on this machine or one role of it."""

from __future__ import annotations

import logging
import subprocess
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import check_name, check_serving, check_store, check_visiting
from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.cli.paths import check_address, holds_model, store_at
from streamlink.cli.train_options import (
    Check,
    Clients,
    Code,
    Config,
    Data,
    DataArg,
    Download,
    Model,
    ModelArg,
    ModelName,
    Optimized,
    OutputDir,
    ReportFd,
    Rounds,
    Seed,
    Set,
    Store,
    TrainArg,
    assembled,
    client_settings,
    given,
    repeated,
    require_torch,
    server_settings,
    with_model,
)
from streamlink.cli.train_simulate import simulate
from streamlink.fleet import Reporter, python_module
from streamlink.link import Server
from streamlink.logs import configure
from streamlink.rounds import RoundReport
from streamlink.training.client import link_config, run_client
from streamlink.training.code import CodeFolder
from streamlink.training.initial import write_initial
from streamlink.training.server import job_config, run_server

__all__ = ["train"]

logger = logging.getLogger("streamlink.command")

train = typer.Typer(
    name="train",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Train a model with PyTorch at several clients, as options or APPFL's YAML files say.",
)

_LISTENS = Annotated[
    str | None,
    typer.Option(
        *("--listen", "--server-uri", "--server_uri"),
        metavar="HOST:PORT",
        help="Where to listen; instead of the file's.",
    ),
]
train.command(name="simulate")(command()(simulate))


@train.command(name="server")
@command()
def server(
    store: Store,
    config: Config = None,
    listen: _LISTENS = None,
    clients: Clients = None,
    rounds: Rounds = None,
    model: Model = None,
    model_arg: ModelArg = None,
    model_name: ModelName = None,
    train_arg: TrainArg = None,
    seed: Seed = 42,
    optimize_memory: Optimized = None,
    code: Code = None,
    download: Download = False,
    output_dir: OutputDir = None,
    set_: Set = None,
    check: Check = False,
    report_fd: ReportFd = None,
    *,
    common: Common,
) -> None:
    """Run a training job: order the clients what to train, and average their updates.

    If the store has no model, the one that the options or the file name is made there.
    """
    settings = server_settings(config, clients, rounds, optimize_memory, output_dir, train_arg)
    settings = with_model(settings, model, model_arg, model_name)
    address = listen or settings.comm.server_uri
    check_address("--listen", address)
    links = assembled(lambda: job_config(settings, list(set_ or ())))
    check_serving(address, links)
    check_store(store_at(store, None))
    CodeFolder(code)
    if settings.order.model is None and not holds_model(store, None):
        raise CommandError(
            f"{store} holds no model, and client_configs.model_configs names none; give --model"
        )
    if check:
        common.passed()
        return
    if settings.optimize_memory and not settings.comm.is_whole:
        tune_allocator()
    reporter = Reporter(report_fd)
    _log_to(common, settings.log.file_of("server"))
    if not holds_model(store, None):
        _make_model(store, config, model, model_arg, model_name, seed, code, download, common)
    reporter.report_base()
    with a_job():
        done = run_server(
            settings, store_at(store, None), listen=address, config=links, cancel=common.cancel,
            begun=partial(_begun, reporter, settings.num_clients),
        )  # fmt: skip
    for each in done:
        typer.echo(_sentence(each))
    reporter.report(rounds_seconds=[round(each.seconds, 3) for each in done])
    reporter.report_usage()


@train.command(name="client")
@command()
def client(
    config: Config = None,
    server: Annotated[
        str | None,
        typer.Option(
            *("--server", "--server-uri", "--server_uri"),
            metavar="HOST:PORT",
            help="Where the server listens; instead of the file's.",
        ),
    ] = None,
    client_idx: Annotated[
        int | None,
        typer.Option(
            *("--client-idx", "--client_idx"),
            min=0,
            help="Which one of the clients that share the file, from 0.",
        ),
    ] = None,
    num_clients: Annotated[
        int | None,
        typer.Option("--num-clients", "--num_clients", min=1, help="How many share the file."),
    ] = None,
    data: Data = None,
    data_arg: DataArg = None,
    device: Annotated[
        str | None, typer.Option(help="Where to train: cpu, cuda, ...; instead of the file's.")
    ] = None,
    max_model_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Largest model that a server may name [default: the memory here]."
        ),
    ] = None,
    optimize_memory: Optimized = None,
    code: Code = None,
    download: Download = False,
    output_dir: OutputDir = None,
    set_: Set = None,
    check: Check = False,
    report_fd: ReportFd = None,
    *,
    common: Common,
) -> None:
    """Take part in a training job until the server ends it."""
    changes = {
        "data": data, "data_arg": data_arg, "device": device, "max_model_bytes": max_model_bytes,
        "output_dir": output_dir,
    }  # fmt: skip
    settings = client_settings(config, client_idx, num_clients, optimize_memory, changes)
    address = server or settings.comm.server_uri
    check_address("--server", address)
    check_name(settings.client_id)
    links = assembled(lambda: link_config(settings, list(set_ or ())))
    check_visiting(address, links)
    folder = CodeFolder(code)
    require_torch()
    from streamlink.training.executor import TrainingExecutor

    reporter = Reporter(report_fd)
    if not check:
        _log_to(common, settings.log.file_of(settings.client_id))
    work = TrainingExecutor(settings, code=folder, downloads=download)
    if check:
        common.passed()
        return
    reporter.report_base()
    with a_job():
        done = run_client(
            settings, work, server=address, config=links, cancel=common.cancel,
            begun=lambda _: logger.info("connected to %s as %s", address, settings.client_id),
        )  # fmt: skip
    logger.info("tasks done: %d", len(done))
    reporter.report(model_bytes=work.model_bytes)
    reporter.report_usage()


@train.command(name="model")
@command()
def model(
    store: Store,
    config: Config = None,
    model: Model = None,
    model_arg: ModelArg = None,
    model_name: ModelName = None,
    seed: Seed = 42,
    code: Code = None,
    download: Download = False,
    *,
    common: Common,
) -> None:
    """Make a model and write it to a store, for a job to begin with."""
    settings = server_settings(config, None, None, None, None)
    named = with_model(settings, model, model_arg, model_name).order.model
    if named is None:
        raise CommandError("no model is named; give --model, or --config with model_configs")
    if holds_model(store, None):
        raise CommandError(f"{store} holds a model already, and nothing is overwritten")
    require_torch()
    place = store_at(store, None)
    check_store(place)
    nbytes = write_initial(named, place, seed=seed, code=CodeFolder(code), downloads=download)
    logger.info("%s: %s, %d bytes", store, named.name, nbytes)


def _make_model(
    store: Path,
    config: Path | None,
    model: str | None,
    model_arg: list[str] | None,
    model_name: str | None,
    seed: int,
    code: Path | None,
    download: bool,
    common: Common,
) -> None:
    """Make the initial model in a process of its own, whose memory goes back to the system."""
    words = [
        "train", "model", "--store", str(store), "--seed", str(seed), *given("--config", config),
        *given("--model", model), *repeated("--model-arg", model_arg),
        *given("--model-name", model_name), *given("--code", code),
        *(["--download"] if download else []), "--log-level", common.log_level,
        *(["--json-logs"] if common.json_logs else []),
    ]  # fmt: skip
    process = subprocess.Popen(python_module(*words))
    with common.cancel.calling(lambda _: process.terminate()):
        code_of_exit = process.wait()
    common.cancel.check()
    if code_of_exit:
        raise JobFailed(f"the initial model was not made (exit code {code_of_exit}); see above")


def _begun(reporter: Reporter, clients: int, listening: Server) -> None:
    logger.info("listening on %s, waiting for %d clients", listening.address, clients)
    reporter.report(port=listening.port)


def _log_to(common: Common, file: str) -> None:
    """Log to the file of the configuration, unless ``--log-file`` names another."""
    if file and common.log_file is None:
        # In the file of a client of ``simulate``, too: its terminal shows warnings only.
        level = "debug" if common.log_level == "debug" else "info"
        configure(level, file, common.json_logs, rich=common.console, screen_level=common.log_level)


def _sentence(report: RoundReport) -> str:
    figures = "".join(f", {name} {value:.4g}" for name, value in sorted(report.metrics.items()))
    return f"round {report.round}: {report.seconds:.2f} s, {len(report.weights)} updates{figures}"
