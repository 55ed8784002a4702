"""The operator's socket of a command, where another process has one for the same store."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamlink.cli.errors import CommandError
from streamlink.cli.services import control_socket
from streamlink.operate.control import Answer, ask, control_path


def program(name: str, number: int = 1) -> Answer:
    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"program": name, "number": number}

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
