"""``streamlink status`` and ``streamlink abort``: ask and order a process that runs here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.faults import CommandError
from streamlink.cli.operating import StoreOf, socket_of
from streamlink.cli.places import ledger_of
from streamlink.logs import escape
from streamlink.operate.control import NothingRuns, ask
from streamlink.rounds.ledger import unfinished_job

__all__ = ["abort", "status"]

ControlOf = Annotated[
    Path | None, typer.Option("--control", metavar="PATH", help="Its socket, where it has its own.")
]

_WATCH_SECONDS = 1.0
_SHOWN = 5  # rounds and troubles on a terminal; --json has all that are kept


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

    Exit code 0: it runs; 1: nothing runs there, or it does not answer.
    """
    path = socket_of(store, control)
    while True:
        with a_job():
            facts = _ask(path, {"do": "status"}, store)
        if as_json:
            typer.echo(json.dumps(facts))
        else:
            _show(facts)
        if not watch:
            return
        time.sleep(_WATCH_SECONDS)


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


# --- as people read it ------------------------------------------------------------------------


def _show(facts: Mapping[str, Any]) -> None:
    lines = _of_a_job(facts) if facts.get("program") == "server" else _of_a_transfer(facts)
    for line in lines:
        typer.echo(escape(line))
    for line in (*_clients(facts.get("clients", [])), *_past(facts)):
        typer.echo(escape(line))


def _of_a_job(facts: Mapping[str, Any]) -> Iterator[str]:
    number = "no round yet" if facts["round"] is None else f"round {facts['round']}"
    attempt = f", attempt {facts['attempt']}" if facts["attempt"] > 1 else ""
    since = _span(facts["now"] - facts["since"])
    yield f"job {facts['job']!r}: {number}{attempt}, {facts['phase']} for {since}"
    yield f"listens on {facts['listens']}, process {facts['pid']}; {_memory(facts['memory'])}"


def _of_a_transfer(facts: Mapping[str, Any]) -> Iterator[str]:
    since, of = _span(facts["now"] - facts["since"]), facts["receives_bytes"]
    far = f": {_size(facts['received_bytes'])} of {_size(of)}" if of else ""
    rate = f", {_size(facts['receiving_rate'])}/s" if of else ""
    who = f" from {facts['peer']}" if facts["peer"] else ""
    yield f"{facts['phase']}{who} for {since}{far}{rate}"
    again = ", ".join(f"{facts[name]} {name}" for name in ("resumes", "repairs", "damaged"))
    where = f"listens on {facts['listens']}; " if facts.get("listens") else ""
    yield f"{where}{again}; process {facts['pid']}; {_memory(facts['memory'])}"


def _memory(memory: Mapping[str, Any]) -> str:
    over = f"{_size(memory['over_base_bytes'])} above its start"
    most = f", of {_size(memory['peak_bytes'])} allowed" if memory["peak_bytes"] else ""
    return f"memory {_size(memory['resident_bytes'])}, {over}{most}"


def _clients(clients: list[dict[str, Any]]) -> Iterator[str]:
    for each in clients:
        presence = "thrown out" if each["thrown_out"] else each["presence"]
        parts = [presence, *_far(each, "has", "sent", "sends", "sending")]
        parts += [*_far(each, "sent back", "received", "receives", "receiving"), *_waits(each)]
        parts += [
            f"{each[name]} {name}" for name in ("resumes", "repairs", "damaged") if each[name]
        ]
        yield f"{each['name']}: {', '.join(parts)}"


def _far(each: Mapping[str, Any], what: str, done: str, of: str, rate: str) -> Iterator[str]:
    if total := each[f"{of}_bytes"]:
        share = 100 * each[f"{done}_bytes"] // total
        moving = f" at {_size(each[f'{rate}_rate'])}/s" if share < 100 else ""
        yield f"{what} {share}% of {_size(total)}{moving}"


def _waits(each: Mapping[str, Any]) -> Iterator[str]:
    if each["held_for"]:
        yield f"held for {each['held_for']}"
    elif each["works"]:
        yield "at work"
    elif each["stalled_by"]:
        yield f"limited by {each['stalled_by']}"


def _past(facts: Mapping[str, Any]) -> Iterator[str]:
    for each in facts.get("last_rounds", ())[-_SHOWN:]:
        who = ", ".join(each["contributors"])
        yield f"round {each['round']} done in {each['seconds']:.1f} s: {who}"
    for each in facts.get("troubles", ())[-_SHOWN:]:
        ago = _span(facts["now"] - each["at"])
        yield f"{ago} ago, round {each['round']}: {each['peer'] or 'failed'}: {each['reason']}"


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"


def _span(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"
