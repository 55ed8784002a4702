"""``streamlink status`` and ``streamlink abort``: ask and order a process that runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError
from streamlink.cli.paths import ledger_of
from streamlink.cli.services import StoreOf, socket_of
from streamlink.cli.watch import WATCH_SECONDS, how_it_ended, in_place, plain, watched
from streamlink.logs import escape
from streamlink.operate.control import NothingRuns, ask
from streamlink.rounds.ledger import unfinished_job
from streamlink_fl import output

__all__ = ["abort", "status"]

ControlOf = Annotated[
    Path | None, typer.Option("--control", metavar="PATH", help="Its socket, where it has its own.")
]


@command()
def status(
    store: StoreOf = None,
    control: ControlOf = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, sizes in bytes.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again each second, until it ends or Ctrl-C.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Tell how a server or receive on this machine stands.

    Exit code 0: it runs; 1: nothing runs there, or it does not answer. With --watch it is 0 once a
    job that was watched is over, and 1 where it ended before that.
    """
    path = socket_of(store, control)

    def facts() -> dict[str, Any]:
        return _ask(path, {"do": "status"}, store)

    def pause() -> None:
        common.cancel.wait(WATCH_SECONDS)
        common.cancel.check()
        if output.is_lost():
            raise typer.Exit  # nobody watches any more

    with a_job():
        first = facts()
        if not watch:
            _tell(first, as_json)
            return
        console = Console()
        with in_place(console) if console.is_terminal and not as_json else plain(as_json) as show:
            last = watched(first, facts, show, pause)
        typer.echo(how_it_ended(last), err=as_json)


def _tell(facts: Mapping[str, Any], as_json: bool) -> None:
    with plain(as_json) as show:
        show(facts)


@command()
def abort(
    store: StoreOf = None,
    control: ControlOf = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Throw only this client out; the job goes on."),
    ] = None,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Let the client in again that was thrown out.")
    ] = False,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; all who are concerned are told.")
    ] = "",
    *,
    common: Common,
) -> None:
    """End a job or a transfer on this machine, or throw one client out of a job.

    The last whole model stands. The server ends with exit code 1 and the reason.
    """
    path = socket_of(store, control)
    if readmit and client is None:
        raise CommandError("--readmit needs --client NAME")
    what = "abort" if client is None else "readmit" if readmit else "drop"
    question = {"do": what, "client": client or "", "reason": reason}
    with a_job():
        answer = _ask(path, question, store)
    typer.echo(escape(str(answer.get("done", ""))))


def _ask(path: Path, question: Mapping[str, Any], store: Path | None) -> dict[str, Any]:
    """Ask; where nothing runs on the store, say whether a job waits there to go on.

    Raises:
        ControlError: there is no answer; says why.
    """
    try:
        return ask(path, question)
    except NothingRuns as error:
        if store is None or (job := unfinished_job(ledger_of(store))) is None:
            raise
        what = f"job {job!r} is not over, and goes on with streamlink server ... --resume"
        raise NothingRuns(f"{path}: nothing runs here; by {ledger_of(store)} {what}") from error
