"""The operator's socket of a command, where another process has one for the same store."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamlink.cli import app
from streamlink.cli.errors import CommandError
from streamlink.cli.services import control_socket
from streamlink.operate.control import Answer, ControlServer, ask, control_path


def program(name: str, number: int = 1) -> Answer:
    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"program": name, "number": number, "pid": os.getpid()}

    return answer


def test_a_second_server_of_a_model_has_a_socket_of_its_own_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, question = tmp_path / "model", {"do": "status"}
    own = tmp_path / f"model.{os.getpid()}.control"
    caplog.set_level(logging.INFO, "streamlink.command")
    with (
        control_socket(program("serve", 1), store, None, only_reads=True),
        control_socket(program("serve", 2), store, None, only_reads=True),
    ):
        assert ask(control_path(store), question)["number"] == 1
        assert ask(own, question)["number"] == 2
        assert f"streamlink status --control {own} shows this one" in caplog.text
    assert list(tmp_path.glob("*.control")) == []


@pytest.mark.parametrize(("first", "only_reads"), [("serve", False), ("receive", True)])
def test_a_process_that_changes_the_store_stays_the_only_one(
    tmp_path: Path, first: str, only_reads: bool
) -> None:
    with (
        control_socket(program(first), tmp_path / "model", None),
        pytest.raises(CommandError, match="one uses this store already"),
        control_socket(program("serve"), tmp_path / "model", None, only_reads=only_reads),
    ):
        pass


def asked(*words: object) -> tuple[int, str, str]:
    """Return the exit code of a command, what it printed, and what with its errors."""
    result = CliRunner().invoke(app, [*map(str, words)])
    return result.exit_code, result.stdout, result.output


def test_the_status_of_a_store_shows_each_of_its_servers(tmp_path: Path) -> None:
    store = tmp_path / "model"
    (tmp_path / "model.old.control").touch()
    (tmp_path / "other.1.control").touch()
    with (
        ControlServer(control_path(tmp_path / "model.1"), program("serve", 3)),  # another store
        control_socket(program("serve", 1), store, None, only_reads=True),
        control_socket(program("serve", 2), store, None, only_reads=True),
    ):
        code, told, _ = asked("status", "--store", store, "--json")
        assert code == 0
        assert [json.loads(line)["number"] for line in told.splitlines()] == [1, 2]


def test_the_second_server_is_shown_when_the_first_has_ended(tmp_path: Path) -> None:
    store, own = tmp_path / "model", tmp_path / f"model.{os.getpid()}.control"
    leave_socket(tmp_path / "model.1.control")  # of one that was killed
    with ExitStack() as first, ControlServer(own, program("serve", 2)):
        first.enter_context(ControlServer(control_path(store), program("serve", 1)))
        first.close()
        _, told, _ = asked("status", "--store", store, "--json")
        assert json.loads(told)["number"] == 2
        assert asked("abort", "--store", store)[0] == 0


@pytest.mark.parametrize("words", [("abort",), ("status", "--watch")])
def test_a_command_to_one_of_several_servers_asks_which(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    store, orders = tmp_path / "model", list[object]()

    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        orders.append(question["do"])
        return {"program": "serve", "pid": os.getpid()}

    with (
        control_socket(answer, store, None, only_reads=True),
        control_socket(answer, store, None, only_reads=True),
    ):
        code, _, told = asked(*words, "--store", store)
    assert code == 2
    assert "2 processes use this store; name the socket of one with --control" in told
    assert "abort" not in orders


def leave_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
