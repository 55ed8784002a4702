"""A command is imported when it is looked up; the group knows the names of all."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.main import get_command

from streamlink.cli import app
from streamlink.cli.lazy import LazyGroup
from tests.support.commands import environment

# Each takes a part of a second, and a command that asks or writes a file needs none of them.
HEAVY = {"google.protobuf", "grpc", "numpy", "streamlink.public", "streamlink.rounds"}

LOOK_UP = """
import sys
from streamlink.cli.commands import app
from typer.main import get_command
command = get_command(app).commands[sys.argv[1]]
print(*sys.modules)
"""


def modules_of(command: str) -> set[str]:
    """Return what is imported when ``command`` is looked up, by a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, command],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_every_name_in_the_table_is_the_name_of_a_command() -> None:
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    context = typer.Context(group, info_name="streamlink")
    assert group.list_commands(context) == list(group.modules)
    for name in group.modules:
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command is group.get_command(context, name)  # made once


def test_a_name_that_is_not_in_the_table_is_no_command() -> None:
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    assert group.get_command(typer.Context(group), "srever") is None


@pytest.mark.processes
@pytest.mark.parametrize("command", ["certs", "init"])
def test_a_command_without_a_model_imports_nothing_that_takes_time(command: str) -> None:
    found = modules_of(command)
    assert f"streamlink.cli.{command}" in found
    assert not found & (HEAVY | {"streamlink.cli.jobs", "streamlink.cli.profile"})
