"""The project in ``examples/appfl``: its server and two clients, as its README says."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.integrations import appfl
from benchmarks.integrations.cases import Case
from benchmarks.integrations.running import CaseFailed, Running, run_case
from tests.support.framework_environments import environment_of

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "appfl"
TRIES = 20


python = environment_of("appfl")


def run(running: Running) -> None:
    """Run the programs to their end.

    Raises:
        CaseFailed: one fails, or the server leaves a model behind.
    """
    port = three_free_ports()
    server = running.start("server", [running.python, EXAMPLE / "server.py", port])
    appfl.until(lambda: answers(port), "the server does not listen")
    programs = [
        running.start(f"site-{number}", [running.python, EXAMPLE / "client.py", number, port])
        for number in (1, 2)
    ]
    for each in (*programs, server):
        running.finish(each, seconds=500)
    for number in (1, 2):
        said = (running.folder / f"site-{number}.log").read_text("utf-8")
        if f"Client{number} is done" not in said:
            raise CaseFailed(f"client {number} has not said that it is done")
    appfl.require_empty_spool(running)


def three_free_ports() -> int:
    """Return the first of three ports that are free now: APPFL's, and the two of the models."""
    for _ in range(TRIES):
        with ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                for above in (1, 2):
                    each = stack.enter_context(socket.socket())
                    each.bind(("127.0.0.1", port + above))
            except (OSError, OverflowError):  # somebody has it
                continue
            return port
    raise AssertionError(f"no three neighbouring ports were free in {TRIES} tries")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_example_ends_well_and_leaves_nothing(python: Path) -> None:
    outcome = run_case(Case("appfl"), run, python, limit_bytes=8_000_000_000, timeout=550)
    assert outcome.ended == "done", outcome.said
    assert not outcome.left_behind
