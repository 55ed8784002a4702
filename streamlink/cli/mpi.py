"""``streamlink mpi``: a whole job as the processes that one ``mpiexec`` starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import check_metrics, check_report, check_visiting
from streamlink.cli.command import Common, a_job, command, in_words, only_server_failed
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.cli.job_server import ServerOptions, serve_job
from streamlink.cli.jobs import (
    Best,
    Compress,
    Curves,
    EvaluateOption,
    Events,
    ExecutorOption,
    JobName,
    LedgerFile,
    ReportFile,
    Resume,
    Spool,
    State,
    Store,
    TaskOption,
    Weight,
)
from streamlink.cli.services import Control, Metrics
from streamlink.cli.settings import LINK, ROUNDS
from streamlink.cli.simulate import fitted
from streamlink.cli.user_code import maker_of
from streamlink.clock import running_time
from streamlink.config import JobConfig, SecurityConfig
from streamlink.executors.client import Client
from streamlink.executors.executor import Executor
from streamlink.logs import configure
from streamlink.transport.ranks import Ranks, ranks_of_this_process

__all__ = ["mpi"]

logger = logging.getLogger("streamlink.command")

_SERVER = "mpi://0"


@command(*LINK, *ROUNDS)
def mpi(
    store: Store,
    task: TaskOption = None,
    executor: ExecutorOption = None,
    evaluate: EvaluateOption = None,
    clients_per_rank: Annotated[
        int,
        typer.Option(min=1, help="Number of clients in each process but the first."),
    ] = 1,
    weight: Weight = 1.0,
    compress: Compress = None,
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
    *,
    common: Common,
) -> None:
    """Run a job as the processes of one MPI job.

    Start it with mpiexec, for example: mpiexec -n 3 streamlink mpi --store model --task
    work.py:train. The process of rank 0 is the server, each other one has the clients: site-1,
    site-2, ... Without --min-clients every client is required. Messages travel over MPI; the
    section security is ignored. If one process dies, MPI ends all of them; the store then holds the
    last complete model, and --resume continues the job.
    """
    tune_allocator()
    options = ServerOptions(
        store, compress, job, spool, state, resume, ledger, best, tensorboard, events, control,
        metrics, report,
    )  # fmt: skip
    common = replace(common, config=_plain(common.config))
    check_visiting(_SERVER, common.config)  # first of all, whether there is MPI

    def make() -> Callable[[str], Executor]:
        return maker_of(task, executor, weight, evaluate)

    if common.is_check:
        make()
        _serve(options, common)
        common.passed()
        return
    ranks = _joined(common)
    clients = (ranks.size - 1) * clients_per_rank
    first = (ranks.rank - 1) * clients_per_rank + 1
    names = [f"site-{number}" for number in range(first, first + clients_per_rank)]
    with _taking_part(ranks, common) as begun:
        if ranks.rank == 0:
            config = fitted(common.config, clients, "mpiexec -n, --clients-per-rank")
            _serve(options, replace(common, config=config), begun)
        else:
            _log_apart(common, names)
            _visit(names, make(), common, begun)


def _plain(config: JobConfig) -> JobConfig:
    return config.model_copy(update={"security": SecurityConfig()})


def _joined(common: Common) -> Ranks:
    """Return this process among those of the job, once all of them have begun MPI."""
    ranks, seconds = ranks_of_this_process(running_time), common.config.timeouts.connect_timeout
    if not ranks.wait_joined(seconds, common.cancel):
        common.cancel.check()
        raise CommandError(
            f"not every process of the MPI job has begun within {seconds:g} s; look for the "
            "errors of the others, or raise timeouts.connect_timeout"
        )
    if ranks.size < 2:
        raise CommandError(
            "there is one process, and a job needs a server and a client; start it with mpiexec, "
            "such as: mpiexec -n 3 streamlink mpi --store model --task work.py:train"
        )
    return ranks


@contextmanager
def _taking_part(ranks: Ranks, common: Common) -> Iterator[Callable[[], None]]:
    """Leave MPI with the other processes at the end of the block, or end them too.

    The block calls what it is given once it has begun. If it fails before, the others wait for
    something that will not come, and the whole job is aborted. If it fails later, they know by
    their sessions, and go on or end by the rules of the job.
    """
    begun = running_time.event()
    site = f"rank {ranks.rank}" if ranks.rank else ""
    try:
        with in_words(common.log_level, common.json_logs, site=site, is_child=ranks.rank > 0):
            yield begun.set
    except typer.Exit as end:
        if not begun.is_set():
            ranks.abort(end.exit_code)
        raise
    except BaseException:
        # Here, where it is still seen: the others may have hours of work left.
        logger.exception("%s failed", site or "the server")
        raise
    finally:
        ranks.leave(common.cancel)


def _serve(
    options: ServerOptions, common: Common, begun: Callable[[], object] = lambda: None
) -> None:
    check_metrics(options.metrics)
    check_report(options.report)
    serve_job(_SERVER, options, common, begun=begun)


def _visit(
    names: Sequence[str],
    make: Callable[[str], Executor],
    common: Common,
    begun: Callable[[], object],
) -> None:
    """Take part with clients of these names until the server ends the job."""
    # In this thread, one after the other: it is the user's code, and may raise for a signal.
    work = {name: make(name) for name in names}
    with ExitStack() as stack:
        clients = [
            stack.enter_context(Client(_SERVER, name, each, common.config, cancel=common.cancel))
            for name, each in work.items()
        ]
        begun()
        with ThreadPoolExecutor(len(clients)) as pool:
            for end in [pool.submit(client.run) for client in clients]:
                with _server_failures_ignored(), a_job():
                    end.result()


@contextmanager
def _server_failures_ignored() -> Iterator[None]:
    """Do not fail where only the server did: its own exit code is that of the job.

    ``mpiexec`` returns the bitwise OR of the exit codes of all processes. After Ctrl-C the server
    ends with 130; a client that learned this from the server, and ended with 1, would make it 131.
    """
    try:
        yield
    except JobFailed as error:
        if not only_server_failed(error):
            raise


def _log_apart(common: Common, names: Sequence[str]) -> None:
    """Log less than the server, which shares the terminal and reports the same and more."""
    name = names[0]
    level = "warning" if common.log_level == "info" else common.log_level
    own = common.log_file
    if own is not None:
        own = own.with_stem(f"{own.stem}.{name}")
    site = name if len(names) == 1 else f"{name} to {names[-1]}"
    configure(level, own, common.json_logs, rich=common.console, site=site)
