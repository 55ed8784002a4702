"""``streamlink profile resnet|cifar10|mnist|llm|synthetic|check``: where memory goes in a job."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError, JobFailed, sentence
from streamlink.cli.profile_analyze import require_analysis
from streamlink.cli.train_options import assembled, with_model
from streamlink.config import parse_size
from streamlink.profiling.folder import new_run_folder
from streamlink.profiling.heap.check import check as checks
from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind, Order
from streamlink.profiling.heap.experiments import changed, default_client, default_server
from streamlink.profiling.heap.launch import mpiexec
from streamlink.profiling.heap.roles import run_role
from streamlink.profiling.heap.series import run_series, write_first_model
from streamlink.profiling.heap.variants import versions_of
from streamlink.training.appfl_yaml import read_client, read_server
from streamlink_fl import signals

__all__ = ["check", "experiments"]


_HELP = {
    Kind.RESNET: "ResNet18 on dummy CIFAR-10: the model's transfer and a short training.",
    Kind.CIFAR10: "ResNet18 on CIFAR-10 from a local folder (--data).",
    Kind.MNIST: "A small CNN on MNIST from a local folder (--data).",
    Kind.LLM: "A causal language model that is moved and not trained.",
    Kind.SYNTHETIC: "Float32 numbers of any size, as one tensor or many, that are moved.",
}
_ABOUT = """

    The server and each client run in a process of their own, in the original version (whole
    messages, deep copies, everything at once) and in the optimized one, in turn: once under memray,
    and once without it for times and resident memory. The results are in a new folder, with the
    analysis. --role runs one process of it; several on different machines make a job.
"""


def _experiment(kind: Kind) -> Callable[..., None]:
    @command()
    def run(
        clients: Annotated[
            int | None,
            typer.Option(
                "--clients", "--num-clients", "--num_clients", min=1, help="Number of clients."
            ),
        ] = None,
        rounds: Annotated[int | None, typer.Option(min=1, help="Number of rounds.")] = None,
        carrier: Annotated[str, typer.Option(help="grpc, or mpi.")] = "grpc",
        clients_per_rank: Annotated[
            int, typer.Option(min=1, help="With MPI: clients of each process but the first.")
        ] = 1,
        version: Annotated[
            str | None,
            typer.Option(
                metavar="NAME[,NAME...]",
                help="original, optimized, both; places: each optimization switched alone; chunks: "
                "several chunk sizes; alone: a client's training without transport; configured: as "
                "--config says; or single names, such as no_chunking, only_server, chunk_1MiB.",
            ),
        ] = None,
        use_optimized_version: Annotated[
            bool,
            typer.Option(
                "--use-optimized-version",
                "--use_optimized_version",
                help="The same as --version optimized.",
            ),
        ] = False,
        repeats: Annotated[int, typer.Option(min=1, help="How often each version is run.")] = 1,
        model_size: Annotated[
            str | None,
            typer.Option(metavar="SIZE", help="Of the model, such as 1GB; llm and synthetic only."),
        ] = None,
        tensors: Annotated[
            int, typer.Option(min=1, help="Into how many tensors; synthetic only.")
        ] = 1,
        model_name: Annotated[
            str,
            typer.Option(
                "--model-name", "--model_name", help="tiny, 1gb, a folder, a Hub's name; llm only."
            ),
        ] = "",
        data: Annotated[
            Path | None,
            typer.Option(
                metavar="DIR",
                help="Has CIFAR-10 or MNIST; dummy: random images of CIFAR-10's shape.",
            ),
        ] = None,
        config: Annotated[
            Path | None,
            typer.Option(
                *("--config", "--server-config", "--server_config"),
                metavar="FILE.yaml",
                help="APPFL's file of the server; with --role client that of the client.",
            ),
        ] = None,
        client_config: Annotated[
            Path | None,
            typer.Option(
                "--client-config",
                "--client_config",
                metavar="FILE.yaml",
                help="APPFL's file, which all clients share.",
            ),
        ] = None,
        code: Annotated[
            Path | None,
            typer.Option(metavar="DIR", help="Where Python files that these name are loaded from."),
        ] = None,
        chunk_size: Annotated[
            str | None, typer.Option(metavar="SIZE", help="model_chunk_size of both ends.")
        ] = None,
        max_message_size: Annotated[
            str | None, typer.Option(metavar="SIZE", help="The same of max_message_size.")
        ] = None,
        plain: Annotated[
            bool, typer.Option("--plain", help="Only without memray: times and resident memory.")
        ] = False,
        role: Annotated[
            str | None, typer.Option(help="server or client: run this one process only.")
        ] = None,
        client_idx: Annotated[
            int | None,
            typer.Option("--client-idx", "--client_idx", help="Of --role client, from 0."),
        ] = None,
        server_uri: Annotated[
            str,
            typer.Option(
                "--server-uri", "--server_uri", help="With --role: where the server listens."
            ),
        ] = "127.0.0.1:50051",
        output_dir: Annotated[
            Path,
            typer.Option(
                *("--output-dir", "--output_dir"),
                metavar="DIR",
                help="Each run makes a new folder here; with --role the folder itself.",
            ),
        ] = Path("memory_profiles"),
        timeout: Annotated[float, typer.Option(help="Seconds for each run of a version.")] = 3600.0,
        end_timeout: Annotated[
            float, typer.Option(min=0, help="Seconds until a process that was stopped is killed.")
        ] = 60.0,
        no_plots: Annotated[
            bool, typer.Option("--no-plots", help="Draw no pictures in the analysis.")
        ] = False,
        no_analysis: Annotated[
            bool,
            typer.Option("--no-analysis", help="Do not analyse; profile analyze does it later."),
        ] = False,
        *,
        common: Common,
    ) -> None:
        _require_packages(plain=plain)
        if role == "client" and client_config is None:
            config, client_config = None, config
        with _a_wrong_command():
            experiment = _assembled(
                kind, carrier, clients_per_rank, _size("--model-size", model_size), tensors,
                model_name, data, config, client_config, code,
            )  # fmt: skip
            experiment = changed(
                experiment,
                clients=clients,
                rounds=rounds,
                chunk_bytes=_size("--chunk-size", chunk_size),
                message_bytes=_size("--max-message-size", max_message_size),
            )
            names = _versions(version, use_optimized_version, role)
            if carrier == "mpi":
                mpiexec()
        if role is not None:
            _one_role(experiment, names, role, client_idx, server_uri, output_dir, plain=plain)
            return
        if not (plain or no_analysis):
            require_analysis(plots=not no_plots)
        analyzes = find_spec("memray") is not None and not no_analysis
        folder, failures = _series(
            experiment, names, repeats, output_dir, timeout, end_timeout, plain=plain,
            analyzes=analyzes, plots=not no_plots,
        )  # fmt: skip
        typer.echo(f"results: {folder}")
        if failures:
            raise JobFailed(f"runs that failed: {len(failures)}; the first: {failures[0]}")

    run.__name__ = kind.value
    run.__doc__ = _HELP[kind] + _ABOUT
    return run


def _assembled(
    kind: Kind,
    carrier: str,
    clients_per_rank: int,
    model_bytes: int | None,
    tensors: int,
    model_name: str,
    data: Path | None,
    config: Path | None,
    client_config: Path | None,
    code: Path | None,
) -> Experiment:
    if carrier not in ("grpc", "mpi"):
        raise CommandError(f"--carrier is grpc or mpi, not {carrier!r}")
    server = default_server(kind, model_bytes=model_bytes, tensors=tensors, model_name=model_name)
    if config is not None:
        server = assembled(lambda: read_server(config))
        if server.order.model is None:  # what the files leave open is the experiment's
            own = default_server(kind, model_name=model_name).order.model
            order = server.order.model_copy(update={"model": own})
            server = server.model_copy(update={"order": order})
        server = with_model(server, None, None, model_name or None)
    client = (
        assembled(lambda: read_client(client_config))
        if client_config is not None
        else default_client(kind, data=data)
    )
    chosen: Literal["grpc", "mpi"] = "mpi" if carrier == "mpi" else "grpc"
    return Experiment(
        kind=kind,
        carrier=chosen,
        clients_per_rank=clients_per_rank,
        server=server,
        client=client,
        code=code,
    )


def _series(
    experiment: Experiment,
    names: tuple[str, ...],
    repeats: int,
    parent: Path,
    timeout: float,
    end_timeout: float,
    *,
    plain: bool,
    analyzes: bool,
    plots: bool,
) -> tuple[Path, list[str]]:
    with a_job():
        prefix = "mpi_" if experiment.carrier == "mpi" else ""
        folder = new_run_folder(parent / f"{prefix}{experiment.kind}")
        typer.echo(f"results: {folder}", err=True)
        with signals.Raising():  # the processes of a job end with this one
            failures = run_series(
                folder,
                experiment,
                names,
                repeats=repeats,
                timeout_seconds=timeout,
                end_seconds=end_timeout,
                progress=_show,
                profiled=(False,) if plain else (True, False),
            )
            if analyzes:
                _analyze(folder, plots=plots)
    return folder, failures


def _analyze(folder: Path, *, plots: bool) -> None:
    from streamlink.profiling.heap.analyze import analyze

    def show(line: str) -> None:
        typer.echo(line, err=True)

    found = analyze(folder, folder / "analysis", plots, show)
    typer.echo(f"{found.text}\nreport: {found.page}")


def _one_role(
    experiment: Experiment,
    names: tuple[str, ...],
    role: str,
    client_idx: int | None,
    server_uri: str,
    folder: Path,
    *,
    plain: bool,
) -> None:
    if role not in ("server", "client"):
        raise CommandError(f"--role is server or client, not {role!r}")
    if experiment.carrier == "mpi":
        raise CommandError("--role is for gRPC: with MPI, mpiexec starts all ranks of a run")
    count = experiment.server.num_clients
    if role == "client" and (client_idx is None or not 0 <= client_idx < count):
        raise CommandError(
            f"--role client needs --client-idx 0 to {count - 1}, as --clients {count} says, not "
            f"{client_idx}"
        )
    facts: dict[str, Any] = {"role": role, "clients": (client_idx,) if role == "client" else ()}
    with a_job(), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        if role == "server":
            facts["start"] = folder / f"first-model-{names[0]}"
            stack.callback(partial(shutil.rmtree, facts["start"], ignore_errors=True))
            write_first_model(experiment, facts["start"])
        order = Order(
            experiment=experiment,
            version=names[0],
            profiled=not plain,
            address=server_uri,
            run=folder,
            **facts,
        )
        with signals.Raising():
            run_role(order, lambda **event: _show({"who": role, **event}))
    typer.echo(f"results: {folder}")


@command()
def check(
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Look for CIFAR-10 and MNIST here.")
    ] = None,
    *,
    common: Common,
) -> None:
    """Test what profiling needs: memray, PyTorch, mpiexec, and a folder with data.

    Ends with 1 if something is missing that every experiment needs.
    """
    findings = []
    for each in checks(data):
        state = "ok" if each.is_well else ("missing" if each.is_needed else "not here")
        typer.echo(f"{state:9} {each.what}: {each.text}")
        findings.append(each)
    missing = [each.what for each in findings if each.is_needed and not each.is_well]
    if missing:
        raise JobFailed(f"{', '.join(missing)}: see above")


experiments: Mapping[str, Callable[..., None]] = {kind.value: _experiment(kind) for kind in Kind}
"""The commands, by name."""


def _versions(version: str | None, is_optimized: bool, role: str | None) -> tuple[str, ...]:
    if version is not None and is_optimized:
        raise CommandError("--version and --use-optimized-version say the same; give one of them")
    if is_optimized:
        return ("optimized",)
    # As in the seeds, one process without the flag is the original version.
    names = versions_of(version or ("both" if role is None else "original"))
    if role is not None and len(names) != 1:
        raise CommandError(f"--role runs one version, and --version names {', '.join(names)}")
    return names


def _show(event: Mapping[str, Any]) -> None:
    who = event["who"]
    match event["event"]:
        case "begin":
            typer.echo(event["name"], err=True)
        case "round":
            typer.echo(
                f"  {who}: round {event['number'] + 1} took {event['seconds']:.2f} s, "
                f"{event['rss_bytes'] / 1e6:.0f} MB resident",
                err=True,
            )
        case "failed" if who == "series":
            typer.echo(f"  {event['text']}", err=True)
        case "listening":
            typer.echo(f"  {who} listens on {event['address']}", err=True)


@contextmanager
def _a_wrong_command() -> Iterator[None]:
    """Treat what an experiment refuses in the block as a wrong command (exit code 2)."""
    try:
        yield
    except ExperimentError as error:
        raise CommandError(sentence(error)) from error


def _size(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise CommandError(f"{option} {text!r}: {error}") from error


def _require_packages(*, plain: bool) -> None:
    needed = {"torch": "torch"} if plain else {"torch": "torch", "memray": "memray"}
    for name, extra in needed.items():
        if find_spec(name) is None:
            raise CommandError(f"{name} cannot be found; pip install 'streamlink-fl[{extra}]'")
