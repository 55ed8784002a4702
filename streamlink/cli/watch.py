"""``streamlink status --watch``: look again and again, and say how what was watched has ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamlink.cli.status_text import fitting, lines_of
from streamlink.logs import escape
from streamlink.operate.control import ControlError, NothingRuns
from streamlink.rounds.ledger import unfinished_job

__all__ = ["WATCH_SECONDS", "how_it_ended", "in_place", "plain", "watched"]

WATCH_SECONDS = 1.0

Facts = Mapping[str, Any]
Show = Callable[[Facts], None]


def watched(
    first: Facts, ask: Callable[[], Facts], show: Show, pause: Callable[[], object]
) -> Facts:
    """Show ``first`` and what ``ask`` tells from then on; returns the last of it once nothing runs.

    A process that does not answer for a while is asked again: it may be busy, and still be there.
    """
    facts = first
    while True:
        show(facts)
        pause()
        try:
            facts = {**ask(), "silent": ""}
        except NothingRuns:
            return facts
        except ControlError as error:
            facts = {**facts, "now": time.time(), "silent": str(error)}


def how_it_ended(last: Facts) -> str:
    """Return the sentence for what was watched, and has ended.

    Raises:
        ControlError: a job was not over; says how it goes on.
    """
    if last.get("program") != "server":
        far, of = last["received_bytes"], last["receives_bytes"]
        seen = f", last seen at {far} of {of} bytes" if far < of else ""
        return f"the transfer has ended{seen}; its own output says how"
    job, ledger = last["job"], last.get("ledger", "")
    if ledger and unfinished_job(Path(ledger)) is not None:
        raise ControlError(
            f"the server has ended, and job {job!r} is not over: its own log says why; it goes on "
            "with streamlink server ... --resume"
        )
    return escape(f"job {job!r} has ended, with all its rounds")


@contextmanager
def plain(as_json: bool) -> Iterator[Show]:
    """Give what prints each status below the one before."""

    def show(facts: Facts) -> None:
        told = {name: fact for name, fact in facts.items() if name != "silent"}
        for line in [json.dumps(told)] if as_json else lines_of(facts):
            typer.echo(line)

    yield show


@contextmanager
def in_place(console: Console) -> Iterator[Show]:
    """Give what draws each status over the one before."""
    with Live(console=console, auto_refresh=False) as live:

        def show(facts: Facts) -> None:
            width, height = console.size
            # A line is left for the cursor: what fills the screen scrolls it.
            lines = fitting(facts, width=width, height=height - 1)
            live.update(Group(*(Text(line, no_wrap=True) for line in lines)), refresh=True)

        yield show
