"""``streamlink server`` and ``streamlink client``: the two ends of a job, each a process."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import (
    check_control,
    check_job,
    check_metrics,
    check_offers,
    check_report,
    check_serving,
    check_visiting,
)
from streamlink.cli.command import Common, a_job, command
from streamlink.cli.paths import (
    ADDRESS,
    COMPRESS,
    check_address,
    ledger_of,
    model_digest,
    store_with_a_model,
    stored_bytes,
)
from streamlink.cli.services import (
    Control,
    Metrics,
    control_socket,
    metrics_endpoint,
    security_summary,
)
from streamlink.cli.settings import LINK, ROUNDS, SERVING, VISITING
from streamlink.cli.user_code import maker_of
from streamlink.cli.work import WatchedWork
from streamlink.config import RoundConfig
from streamlink.executors.client import Client
from streamlink.fleet import Reporter
from streamlink.link.server import Server
from streamlink.logs import summary
from streamlink.model.interfaces import ModelStore
from streamlink.operate.status import JobOperator, Memory, StartingOperator
from streamlink.progress import show_progress
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.ledger import Ledger
from streamlink.rounds.report import RoundReport
from streamlink.transport.addresses import listening_at

__all__ = ["client", "server"]

logger = logging.getLogger("streamlink.command")

Store = Annotated[
    Path,
    typer.Option(
        metavar="PATH", help="Where the global model lives: a directory, or an .slz file for zstd."
    ),
]
Compress = Annotated[
    str | None,
    typer.Option(
        metavar=COMPRESS,
        help="How it is stored: safetensors or one compressed file [default: as it is now].",
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="FILE.py:FUNCTION",
        help="function(tensor, start, values) -> values, applied to each range as it arrives.",
    ),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="FILE.py:FACTORY",
        help="factory(name) -> Executor, called once. Instead of --task.",
    ),
]
Weight = Annotated[
    float,
    typer.Option(
        metavar="W", help="Weight of the updates in the mean, such as the number of samples."
    ),
]
JobName = Annotated[
    str, typer.Option(metavar="NAME", help="Name of the job; updates of another job are refused.")
]
Spool = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory in which updates are stored until enough have arrived, so that a round can "
        "end without stragglers. It needs the disk space of one model for each client; updates "
        "are removed after each round.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Resume a job that was interrupted, after the last completed round, with the updates "
        "in the spool. If there is nothing to resume, begin.",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option(metavar="FILE.json", help="Write a report of the job to this file.")
]
ReportFd = Annotated[int | None, typer.Option("--report-fd", hidden=True)]


@command(*LINK, *SERVING, *ROUNDS)
def server(
    store: Store,
    compress: Compress = None,
    listen: Annotated[
        str,
        typer.Option(
            metavar=ADDRESS,
            help="Where to listen; port 0 takes a free one, unix:PATH a socket of this machine.",
        ),
    ] = "127.0.0.1:8517",
    job: JobName = "job",
    spool: Spool = None,
    resume: Resume = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Records the completed rounds, for --resume [default: the store's name and "
            ".rounds.json].",
        ),
    ] = None,
    control: Control = None,
    metrics: Metrics = None,
    report: ReportFile = None,
    report_fd: ReportFd = None,
    *,
    common: Common,
) -> None:
    """Run a job: send the model to the clients and average their updates.

    The store must hold an initial model. Each round replaces it atomically. A server that was
    killed can be resumed with --resume; its clients reconnect by themselves.
    """
    tune_allocator()
    check_address("--listen", listen)
    check_metrics(metrics)
    check_report(report)
    place, rules = store_with_a_model(store, compress), common.config.rounds
    check_job(place, common.config, spool)
    check_offers(common.config)
    if common.is_check:
        check_control(control)
        check_serving(listen, common.config)
        Ledger(ledger or ledger_of(store), place, rules, job=job, resume=resume)
        common.passed()
        return
    reporter = Reporter(report_fd)
    starting = StartingOperator()
    with ExitStack() as watching:
        # First of all: a second server of the same store must end before it changes anything.
        watching.enter_context(control_socket(starting.answer, store, control))
        kept = Ledger(ledger or ledger_of(store), place, rules, job=job, resume=resume)
        reporter.report_base()
        # Before the first channel: what the process grows from here on, the transfers take.
        memory = Memory()
        # A stack of its own: the server closes first, while the operator's socket still answers.
        serving = watching.enter_context(ExitStack())
        listening = serving.enter_context(Server(listen, common.config, cancel=common.cancel))
        rounds = ScatterAndGather(listening, place, rules, job=job, spool=spool, ledger=kept)
        starting.hand_over(JobOperator(listening, rounds, memory, kept.path).answer)
        reporter.report(port=listening.port)
        way, waits = security_summary(common.config.security), _waits(rules, kept)
        logger.info("listening on %s (%s)%s", listening_at(listen, listening.port), way, waits)
        serving.enter_context(metrics_endpoint(metrics, listening, rounds))
        with a_job():
            rounds.wait_for_clients()
        began = time.monotonic()  # after the wait: it depends on people who start the clients
        with a_job(), show_progress(rounds.client_progress, common.console, headline=rounds.state):
            done = rounds.run()
        seconds = time.monotonic() - began
        moved = listening.wire_bytes
        serving.close()
        kept.close()  # before the socket: ``status --watch`` then reads the result in the ledger
    facts = _closing(place, done, kept.rounds, seconds, moved)
    summary(logger, "job done", **facts)
    typer.echo(_sentence(facts))
    told = {**facts, "reports": [asdict(each) for each in done]}
    reporter.report(**told, rounds_seconds=[round(each.seconds, 2) for each in done])
    reporter.report(contributors=[sorted(each.weights) for each in done])
    reporter.report_usage()
    # Last: a disk that is full by now costs the report, and not what the parent is told.
    if report is not None:
        report.write_text(json.dumps(told, indent=1, default=dict) + "\n", encoding="utf-8")


@command(*LINK, *VISITING)
def client(
    server: Annotated[str, typer.Option(metavar=ADDRESS, help="Where the server listens.")],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="This site's name; no two clients share one.")
    ],
    task: TaskOption = None,
    executor: ExecutorOption = None,
    weight: Weight = 1.0,
    metrics: Metrics = None,
    report_fd: ReportFd = None,
    *,
    common: Common,
) -> None:
    """Take part in a job until the server ends it."""
    tune_allocator()
    check_address("--server", server)
    check_metrics(metrics)
    make = maker_of(task, executor, weight)
    if common.is_check:
        check_visiting(server, common.config)
        common.passed()
        return
    reporter = Reporter(report_fd)
    # The user's factory first: the memory that its imports take is not the transfers', and the
    # server need not wait while it loads a model.
    work = WatchedWork(make(name), name)
    reporter.report_base()
    with Client(server, name, work, common.config, cancel=common.cancel) as taking_part:
        logger.info("connected to %s as %s", server, name)
        # In a fleet the terminal belongs to the server's bars.
        bars = (
            show_progress(work.client_progress, common.console, headline=work.headline)
            if report_fd is None
            else nullcontext()
        )
        with metrics_endpoint(metrics, taking_part), a_job(), bars:
            taking_part.run()
    logger.info("tasks done: %d", taking_part.tasks_done)
    reporter.report_usage()


def _waits(rules: RoundConfig, kept: Ledger) -> str:
    """Return the words for whom a server waits before its first round."""
    count = max(rules.wait_for_clients, rules.min_clients)
    number = "1 client" if count == 1 else f"{count} clients"
    seconds = rules.wait_for_clients_seconds
    return "" if kept.is_finished else f", waiting for {number} for up to {seconds:g} s"


def _closing(
    place: ModelStore,
    done: Sequence[RoundReport],
    rounds: int,
    seconds: float,
    moved: tuple[int, int],
) -> dict[str, Any]:
    """Return what there is to say of a job that is done."""
    with a_job():
        model = place.open()
    try:
        return {
            "rounds": rounds,
            "seconds": round(seconds, 2),
            "wire_bytes_sent": moved[0],
            "wire_bytes_received": moved[1],
            "updates": sum(len(each.weights) for each in done),
            "dropped": sum(len(each.failures) for each in done),
            "model_bytes": model.spec.nbytes,
            "stored_bytes": stored_bytes(model),
            "final_digest": model_digest(model) or "",
        }
    finally:
        model.close()


def _sentence(facts: dict[str, Any]) -> str:
    moved = facts["wire_bytes_sent"] + facts["wire_bytes_received"]
    rounds = "1 round" if facts["rounds"] == 1 else f"{facts['rounds']} rounds"
    return (
        f"{rounds} in {facts['seconds']:.1f} s, {facts['updates']} updates, "
        f"{moved / 1e6:.1f} MB on the wire; model {facts['final_digest'][:16]}"
    )
