"""``streamlink simulate``: a whole job on this machine, with one process for each end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from streamlink.cli.checks import (
    check_best,
    check_curves,
    check_events,
    check_job,
    check_offers,
    check_report,
    check_serving,
)
from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError
from streamlink.cli.jobs import (
    Best,
    Compress,
    Curves,
    EvaluateOption,
    Events,
    ExecutorOption,
    JobName,
    ReportFile,
    Resume,
    Spool,
    State,
    Store,
    TaskOption,
    Weight,
)
from streamlink.cli.paths import ledger_of, store_with_a_model
from streamlink.cli.settings import LINK, ROUNDS, spelled
from streamlink.cli.user_code import maker_of
from streamlink.config import GrpcConfig, JobConfig, SecurityConfig
from streamlink.fleet import Fleet, Member, python_module
from streamlink.rounds.ledger import Ledger

__all__ = ["fitted", "show_usage", "simulate"]

_LISTEN = "127.0.0.1:0"


@command(*LINK, *ROUNDS)
def simulate(
    store: Store,
    task: TaskOption = None,
    executor: ExecutorOption = None,
    evaluate: EvaluateOption = None,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients: site-1, site-2, ...")] = 2,
    weight: Weight = 1.0,
    compress: Compress = None,
    job: JobName = "job",
    spool: Spool = None,
    state: State = None,
    resume: Resume = False,
    best: Best = None,
    tensorboard: Curves = None,
    events: Events = None,
    report: ReportFile = None,
    *,
    common: Common,
) -> None:
    """Run a whole job on this machine.

    The server and each client run in their own process; at the end a table shows the memory and CPU
    time of each. Without --min-clients every client is required. Ctrl-C ends all of them; the store
    then holds the last complete model. The connections are plain text on the loopback interface;
    the section security is ignored.
    """
    config = fitted(common.config, clients, "--clients")
    make = maker_of(task, executor, weight, evaluate)  # reported once, here, and not by each client
    check_report(report)
    place = store_with_a_model(store, compress)
    check_job(place, config, spool, state)
    # Here, and not only in the child that serves: a wrong setting is no failed job.
    check_offers(config)
    check_serving(_LISTEN, config)
    check_best(best, store, config.rounds)
    check_curves(tensorboard)
    check_events(events)
    if common.is_check:
        Ledger(ledger_of(store), place, config.rounds, job=job, resume=resume)
        common.passed()
        return
    # A factory that fails should fail here, once, and not in each client behind the server's start.
    make("site-1")
    server = ["server", "--store", str(store), "--listen", _LISTEN, "--job", job]
    if compress is not None:
        server += ["--compress", compress]
    if spool is not None:
        server += ["--spool", str(spool)]
    if state is not None:
        server += ["--state", str(state)]
    if best is not None:
        server += ["--best", str(best)]
    if tensorboard is not None:
        server += ["--tensorboard", str(tensorboard)]
    if events is not None:
        server += ["--events", str(events)]
    if resume:
        server.append("--resume")
    work = ["--task", task] if task is not None else ["--executor", str(executor)]
    if evaluate is not None:
        work += ["--evaluate", evaluate]
    # As options and not as a file: the children get what was decided here, whatever happens to the
    # file meanwhile.
    settings = spelled(config)
    fleet = Fleet(cancel=common.cancel)
    with a_job():
        head = fleet.run(
            python_module(*server, *settings, *_logging(common, "server")),
            lambda port: [
                (
                    name,
                    python_module(
                        "client", "--server", f"127.0.0.1:{port}", "--name", name, *work,
                        "--weight", str(weight), "--control", "none", *settings,
                        *_logging(common, name),
                    ),
                )
                for name in (f"site-{number + 1}" for number in range(clients))
            ],
        )  # fmt: skip
    show_usage([member.report() for member in fleet.members])
    if report is not None:
        text = json.dumps(_report(head, fleet.members, clients), indent=1)
        report.write_text(text + "\n", encoding="utf-8")


def fitted(config: JobConfig, clients: int, option: str) -> JobConfig:
    """Return the settings made to fit so many clients, where the user did not say otherwise.

    Raises:
        CommandError: they do not fit; names the option that says how many clients there are.
    """
    rounds, grpc = config.rounds, config.grpc
    if "min_clients" not in rounds.model_fields_set:
        rounds = rounds.model_copy(update={"min_clients": clients})
    if "wait_for_clients" not in rounds.model_fields_set:
        rounds = rounds.model_copy(update={"wait_for_clients": clients})
    if not config.is_max_clients_set:
        most = max(_most_clients(config, clients, option), clients, rounds.awaited_clients)
        grpc = grpc.model_copy(update={"max_clients": most})
    if rounds.min_clients > clients:
        raise CommandError(
            f"rounds.min_clients is {rounds.min_clients}, but there are only {clients} clients "
            f"({option})"
        )
    if clients > grpc.max_clients:
        raise CommandError(
            f"grpc.max_clients is {grpc.max_clients}, and there are {clients} clients ({option})"
        )
    # Between our own processes there are no certificates.
    plain = SecurityConfig()
    return config.model_copy(update={"rounds": rounds, "grpc": grpc, "security": plain})


def _most_clients(config: JobConfig, clients: int, option: str) -> int:
    most, memory = config.grpc.max_clients, config.stream.memory_bytes
    if not memory:
        return most
    if clients > most:
        raise CommandError(
            f"stream.memory_bytes ({memory}) is enough for {most} clients, and there are {clients} "
            f"({option}); set it to {(clients + 1) * config.client_bytes} or more"
        )
    # As many as without it: what else it has room for would cost descriptors.
    return min(most, GrpcConfig().max_clients)


def _logging(common: Common, name: str) -> list[str]:
    # The clients' lines would disturb the server's progress bars, which show the same.
    level = "warning" if name != "server" and common.log_level == "info" else common.log_level
    options = ["--log-level", level]
    if common.log_file is not None:
        own = common.log_file  # the server's; each client has one beside it
        if name != "server":
            own = own.with_stem(f"{own.stem}.{name}")
        options += ["--log-file", str(own)]
    return [*options, "--json-logs"] if common.json_logs else options


def _report(head: Member, members: list[Member], clients: int) -> dict[str, Any]:
    facts = {name: fact for name, fact in head.facts.items() if name not in ("port", "has_ended")}
    return {**facts, "clients": clients, "processes": [member.report() for member in members]}


def show_usage(reports: Iterable[Mapping[str, Any]]) -> None:
    """Print what each process took, as a table that is as wide as it has to be.

    A narrow terminal folds its lines; no figure is cut.
    """
    table, console = _table(reports), Console()
    anything = console.options.update(max_width=1 << 16)
    table.width = Measurement.get(console, anything, table).maximum
    console.print(table, crop=False)


def _table(reports: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("process")
    for heading in ("base MiB", "peak MiB", "over base", "CPU s"):
        table.add_column(heading, justify="right")
    for each in reports:
        base, peak = each["base_rss_bytes"] / 2**20, each["peak_rss_bytes"] / 2**20
        row = (f"{base:.0f}", f"{peak:.0f}", f"{peak - base:.0f}", f"{each['cpu_seconds']:.1f}")
        table.add_row(each["name"], *row)
    return table
