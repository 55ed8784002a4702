"""``streamlink train simulate``: a training job on this machine, with one process for each end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, a_job
from streamlink.cli.simulate import show_usage
from streamlink.cli.train_options import (
    Clients,
    Code,
    Data,
    DataArg,
    Download,
    Model,
    ModelArg,
    ModelName,
    Optimized,
    OutputDir,
    Rounds,
    Seed,
    Set,
    Store,
    TrainArg,
    client_settings,
    given,
    logging_options,
    repeated,
    require_torch,
    server_settings,
    with_model,
)
from streamlink.fleet import Fleet, python_module

__all__ = ["simulate"]


def simulate(
    store: Store,
    server_config: Annotated[
        Path | None,
        typer.Option("--server-config", "--server_config", metavar="FILE.yaml", help="Its file."),
    ] = None,
    client_config: Annotated[
        Path | None,
        typer.Option(
            *("--client-config", "--client_config"),
            metavar="FILE.yaml",
            help="The file that all clients share.",
        ),
    ] = None,
    clients: Clients = None,
    rounds: Rounds = None,
    model: Model = None,
    model_arg: ModelArg = None,
    model_name: ModelName = None,
    train_arg: TrainArg = None,
    data: Data = None,
    data_arg: DataArg = None,
    seed: Seed = 42,
    optimize_memory: Optimized = None,
    code: Code = None,
    download: Download = False,
    output_dir: OutputDir = None,
    set_: Set = None,
    *,
    common: Common,
) -> None:
    """Run a whole training job on this machine, over gRPC: a process for each end.

    The clients are Client1, Client2, ... At the end a table shows the memory and the processor time
    of each process.
    """
    # Checked here, too: a wrong file is reported once, and not by each child.
    settings = server_settings(
        server_config, clients, rounds, optimize_memory, output_dir, train_arg
    )
    with_model(settings, model, model_arg, model_name)
    count = settings.num_clients
    changes = {"data": data, "data_arg": data_arg, "output_dir": output_dir}
    client_settings(client_config, 0, count, optimize_memory, changes)
    require_torch()
    switch = {None: [], True: ["--optimize-memory"], False: ["--no-optimize-memory"]}
    shared = [
        *given("--code", code), *given("--output-dir", output_dir), *switch[optimize_memory],
        *(["--download"] if download else []), *repeated("--set", set_),
    ]  # fmt: skip
    head = [
        "train", "server", "--store", str(store), "--listen", "127.0.0.1:0",
        "--clients", str(count), "--seed", str(seed), *given("--config", server_config),
        *given("--rounds", rounds), *given("--model", model), *repeated("--model-arg", model_arg),
        *given("--model-name", model_name), *repeated("--train-arg", train_arg), *shared,
        *logging_options(common, "server"),
    ]  # fmt: skip

    def client_at(port: int, index: int) -> tuple[str, Sequence[str]]:
        name = f"Client{index + 1}"
        words = [
            "train", "client", "--server", f"127.0.0.1:{port}", "--client-idx", str(index),
            "--num-clients", str(count), *given("--config", client_config), *given("--data", data),
            *repeated("--data-arg", data_arg), *shared,
            *logging_options(common, name),
        ]  # fmt: skip
        return name, python_module(*words)

    fleet = Fleet(cancel=common.cancel)
    with a_job():
        fleet.run(
            python_module(*head), lambda port: [client_at(port, index) for index in range(count)]
        )
    show_usage([member.report() for member in fleet.members])
