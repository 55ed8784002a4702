"""``streamlink status --watch``: show the status every second, and at the end how it ended."""

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

__all__ = ["WATCH_SECONDS", "how_it_ended", "in_place", "plain", "watched"]

WATCH_SECONDS = 1.0

Facts = Mapping[str, Any]
Show = Callable[[Facts], None]


def watched(
    first: Facts, ask: Callable[[], Facts], show: Show, pause: Callable[[], object]
) -> Facts:
    """Show ``first``, then each answer of ``ask``; return the last one when the process has ended.

    A process that does not answer is asked again: it may only be busy.
    """
    facts = first
    while True:
        show(facts)
        pause()
        try:
            facts = {**ask(), "no_answer": ""}
        # The one sure sign that the process has ended: nobody listens. A silence proves nothing.
        except NothingRuns:
            return facts
        except ControlError as error:
            facts = {**facts, "now": time.time(), "no_answer": str(error)}


def how_it_ended(last: Facts) -> str:
    """Return the final sentence about a process that has ended.

    Raises:
        ControlError: its job was not over; says how to resume it.
    """
    if last.get("program") == "serve":
        seen = f"last seen after {last['served']} fetches"
        return f"the serving has ended, {seen}; see the output of its process for the result"
    if last.get("program") == "client":
        seen = f"last seen after {last['tasks_done']} tasks"
        return f"the client has ended, {seen}; see the output of its process for the result"
    if last.get("program") != "server":
        has, all_of = ("sent", "send") if last.get("program") == "send" else ("received", "receive")
        far, of = last[f"{has}_bytes"], last[f"{all_of}_total_bytes"]
        seen = f", last seen at {far} of {of} bytes" if far < of else ""
        return f"the transfer has ended{seen}; see the output of its process for the result"
    from streamlink.rounds.ledger_page import recorded_job  # with much of the package behind it

    job, ledger = last["job"], last.get("ledger", "")
    # The process cannot be asked any more, and its exit code is known to its parent only. The
    # ledger on the disk outlives it.
    found = recorded_job(Path(ledger)) if ledger else None
    if found is not None and not found.is_over:
        raise ControlError(
            f"the server has ended, and job {job!r} is not over: see its log for the reason; "
            "resume it with streamlink server ... --resume"
        )
    if found is not None and found.stopped:
        return escape(f"job {job!r} has stopped early after {found.rounds} rounds: {found.stopped}")
    return escape(f"job {job!r} has ended: all its rounds are done")


@contextmanager
def plain(as_json: bool) -> Iterator[Show]:
    """Yield a function that prints each status below the previous one."""

    def show(facts: Facts) -> None:
        told = {name: fact for name, fact in facts.items() if name != "no_answer"}
        for line in [json.dumps(told)] if as_json else lines_of(facts):
            typer.echo(line)

    yield show


@contextmanager
def in_place(console: Console) -> Iterator[Show]:
    """Yield a function that draws each status over the previous one."""
    with Live(console=console, auto_refresh=False) as live:

        def show(facts: Facts) -> None:
            width, height = console.size
            # One line stays free for the cursor: a full screen would scroll.
            lines = fitting(facts, width=width, height=height - 1)
            live.update(Group(*(Text(line, no_wrap=True) for line in lines)), refresh=True)

        yield show
