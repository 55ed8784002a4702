"""``streamlink server`` and ``streamlink client``: the two ends of a job, each a process."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import (
    check_control,
    check_metrics,
    check_name,
    check_report,
    check_visiting,
)
from streamlink.cli.command import Common, a_job, command
from streamlink.cli.job_server import ServerOptions, serve_job
from streamlink.cli.paths import ADDRESS, COMPRESS, check_address
from streamlink.cli.services import Control, Metrics, metrics_endpoint
from streamlink.cli.settings import LINK, ROUNDS, SERVING, VISITING
from streamlink.cli.user_code import maker_of
from streamlink.cli.visits import ClientControl, Orders, named, reachable
from streamlink.cli.work import WatchedWork
from streamlink.executors.client import Client
from streamlink.fleet import Reporter
from streamlink.operate.client import ClientOperator
from streamlink.operate.status import Memory, StartingOperator
from streamlink.progress import show_progress

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
EvaluateOption = Annotated[
    str | None,
    typer.Option(
        "--evaluate",
        metavar="FILE.py:FUNCTION",
        help="function(arrays, task) -> metrics, called with the whole model where the server has "
        "it evaluated (--evaluate-every). With --task.",
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
State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory, of this job alone, for what an aggregator such as fedadam keeps from "
        "round to round. It needs the disk space of up to two models for each slot of that state.",
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
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE.json",
        help="Records the completed rounds, for --resume [default: the store's name and "
        ".rounds.json].",
    ),
]
Best = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Where a copy of the best model so far is kept, by --best-metric: a directory, or an "
        ".slz file.",
    ),
]
Curves = Annotated[
    Path | None,
    typer.Option(
        "--tensorboard",
        metavar="DIR",
        help="Write the metrics of each round and evaluation there, as curves for TensorBoard.",
    ),
]
Events = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.jsonl",
        help="Append each event of the rounds to this file, as JSON on a line.",
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
    state: State = None,
    resume: Resume = False,
    ledger: LedgerFile = None,
    best: Best = None,
    tensorboard: Curves = None,
    events: Events = None,
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
    options = ServerOptions(
        store, compress, job, spool, state, resume, ledger, best, tensorboard, events, control,
        metrics, report,
    )  # fmt: skip
    serve_job(listen, options, common, report_fd=report_fd)
    if common.is_check:
        common.passed()


@command(*LINK, *VISITING)
def client(
    server: Annotated[str, typer.Option(metavar=ADDRESS, help="Where the server listens.")],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="This site's name; no two clients share one.")
    ],
    task: TaskOption = None,
    executor: ExecutorOption = None,
    evaluate: EvaluateOption = None,
    weight: Weight = 1.0,
    control: ClientControl = None,
    metrics: Metrics = None,
    report_fd: ReportFd = None,
    *,
    common: Common,
) -> None:
    """Take part in a job until the server ends it."""
    tune_allocator()
    check_address("--server", server)
    check_name(name)
    check_metrics(metrics)
    make = maker_of(task, executor, weight, evaluate)
    if common.is_check:
        check_control(control)
        check_visiting(server, common.config)
        common.passed()
        return
    reporter = Reporter(report_fd)
    # The user's factory first: the memory that its imports take is not the transfers', and the
    # server need not wait while it loads a model.
    work = WatchedWork(make(name), name)
    reporter.report_base()
    orders, starting, memory = Orders(), StartingOperator(), Memory()
    with (
        reachable(starting.answer, orders, named(name), control, common) as cancel,
        Client(server, name, work, common.config, cancel=cancel) as taking_part,
    ):
        starting.hand_over(
            ClientOperator(
                taking_part,
                server,
                work.headline,
                work.client_progress,
                work.limited_by,
                memory,
                orders.end,
            ).answer
        )
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
