"""``streamlink status``, ``limit`` and ``abort``: query and control a process on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError
from streamlink.cli.services import StoreOf, sockets_of
from streamlink.cli.watch import WATCH_SECONDS, how_it_ended, in_place, plain, watched
from streamlink.config.bandwidth import parse_bwlimit
from streamlink.logs import escape
from streamlink.operate.control import NothingRuns, ask
from streamlink_fl import output

__all__ = ["abort", "limit", "status"]

_STATUS = {"do": "status"}

ControlOf = Annotated[
    Path | None,
    typer.Option("--control", metavar="PATH", help="Its socket, if it was started with --control."),
]


@command()
def status(
    store: StoreOf = None,
    control: ControlOf = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on a line; sizes in bytes.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat every second until it ends or Ctrl-C.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Show the status of a server, a client or a transfer on this machine.

    Several serve processes of one model are all shown; --watch wants the --control of one.

    Exit code 0: it runs; 1: no process listens there, or it does not answer. With --watch: 0 if the
    job was completed, 1 if the process ended before that.
    """
    paths = sockets_of(store, control)
    if watch:
        paths = [_only(paths)]

    def facts() -> dict[str, Any]:
        return _ask(paths[0], _STATUS, store)

    def pause() -> None:
        common.cancel.wait(WATCH_SECONDS)
        common.cancel.check()
        if output.is_lost():
            raise typer.Exit  # the reader of stdout has closed it

    with a_job():
        if not watch:
            with plain(as_json) as show:
                for each in [*_running(paths).values()] or [facts()]:
                    show(each)
            return
        first = facts()
        console = Console()
        with in_place(console) if console.is_terminal and not as_json else plain(as_json) as show:
            last = watched(first, facts, show, pause)
        typer.echo(how_it_ended(last), err=as_json)


def _running(paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """Return the status of each process that listens at one of ``paths``.

    All but the first have the number of their process. Such a path may also be the default one of
    another store, such as ``model.1``.
    """
    found = {}
    for path in paths:
        with suppress(NothingRuns):  # it has ended, or was killed and has left its socket
            facts = ask(path, _STATUS)
            if path == paths[0] or path.stem.endswith(f".{facts.get('pid')}"):
                found[path] = facts
    return found


def _only(paths: Sequence[Path]) -> Path:
    """Return the path at which the one process of a store listens, if any does.

    Raises:
        CommandError: there are several processes; names their sockets.
    """
    if len(paths) == 1:
        return paths[0]
    with a_job():
        running = [*_running(paths)]
    if len(running) > 1:
        raise CommandError(
            f"{len(running)} processes use this store; name the socket of one with --control: "
            f"{', '.join(map(str, running))}"
        )
    return running[0] if running else paths[0]


@command()
def abort(
    store: StoreOf = None,
    control: ControlOf = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Exclude only this client; the job continues."),
    ] = None,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Readmit a client that was excluded.")
    ] = False,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason, which is sent to the peers concerned.")
    ] = "",
    *,
    common: Common,
) -> None:
    """End a job or a transfer on this machine, or exclude one client from a job.

    The last whole model stays. The server ends with exit code 1 and the reason.
    """
    path = _only(sockets_of(store, control))
    if readmit and client is None:
        raise CommandError("--readmit needs --client NAME")
    what = "abort" if client is None else "readmit" if readmit else "drop"
    question = {"do": what, "client": client or "", "reason": reason}
    with a_job():
        answer = _ask(path, question, store)
    typer.echo(escape(str(answer.get("done", ""))))


@command()
def limit(
    bwlimit: Annotated[
        str,
        typer.Argument(
            metavar="BWLIMIT",
            help="As for --bwlimit: 10M (MiB per second), 10Mbit, 10M:5M "
            "(sent:received), '08:00,10M 19:00,off', or off.",
        ),
    ],
    store: StoreOf = None,
    control: ControlOf = None,
    *,
    common: Common,
) -> None:
    """Change the bandwidth limit of a server, a client or a transfer on this machine.

    The new limit replaces the one of --bwlimit until the process ends. What a receiver has
    permitted its senders before still arrives: at most one window for each stream.
    """
    try:
        parse_bwlimit(bwlimit)
    except ValueError as error:
        raise CommandError(str(error)) from error
    path = _only(sockets_of(store, control))
    with a_job():
        answer = _ask(path, {"do": "limit", "bwlimit": bwlimit}, store)
    typer.echo(escape(str(answer.get("done", ""))))


def _ask(path: Path, question: Mapping[str, Any], store: Path | None) -> dict[str, Any]:
    """Send a request; if no process uses the store, say what became of the job there.

    Raises:
        ControlError: there is no answer; says why.
    """
    try:
        return ask(path, question)
    except NothingRuns as error:
        # Imported only here: much of the package stands behind them, and a process that answers
        # needs none of it.
        from streamlink.cli.paths import ledger_of
        from streamlink.rounds.ledger_page import recorded_job

        if store is None or (job := recorded_job(ledger_of(store))) is None:
            raise
        where = f"{path}: no process listens here, and by {ledger_of(store)} job {job.name!r} is"
        if job.is_over:
            how = f"all {job.rounds} rounds are done"
            if job.stopped:
                how = f"it stopped early after {job.rounds} rounds: {escape(job.stopped)}"
            raise NothingRuns(f"{where} complete: {how}") from error
        raise NothingRuns(
            f"{where} not over; resume it with streamlink server ... --resume"
        ) from error
