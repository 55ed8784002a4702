"""The operator's socket of commands that connect: in nobody's way, and never a reason to fail."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from streamlink.cancel import CancelToken
from streamlink.cli.command import Common
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.cli.services import guest_socket
from streamlink.cli.visits import Orders, beside_model, named, reachable
from streamlink.config import JobConfig
from streamlink.errors import Cancelled
from streamlink.link import bandwidth_facts, change_bandwidth
from streamlink.operate.control import ControlServer, ask, control_paths
from streamlink.transport.bandwidth import forget_bandwidth


@pytest.fixture(autouse=True)
def one_bandwidth() -> None:
    # Not that of this process: other tests may have left a server that is still closing.
    forget_bandwidth()


def program(question: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"program": "send", "pid": os.getpid()}


def common(token: CancelToken | None = None) -> Common:
    return Common(JobConfig(), Console(), cancel=token or CancelToken())


def test_a_command_that_moves_a_model_leaves_the_models_own_socket_to_others(
    tmp_path: Path,
) -> None:
    model = tmp_path / "model"
    own = beside_model(model)
    assert own.name == f"model.{os.getpid()}.control"
    with guest_socket(program, own, None), ControlServer(tmp_path / "model.control", program):
        assert own in control_paths(model)
        assert ask(own, {"do": "status"})["program"] == "send"
    assert list(tmp_path.iterdir()) == []


def test_a_client_is_reached_by_its_name_whatever_that_has_in_it() -> None:
    assert named("site-1") == Path("site-1.client.control")
    assert named("a/b") == Path("a-b.client.control")
    assert named("..") == Path("...client.control")


def test_where_another_process_has_the_default_one_the_second_has_its_number(
    tmp_path: Path,
) -> None:
    default = tmp_path / "site-1.client.control"
    with guest_socket(program, default, None), guest_socket(program, default, None):
        second = tmp_path / f"site-1.client.{os.getpid()}.control"
        assert ask(second, {"do": "status"})["program"] == "send"


def test_a_default_socket_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    with guest_socket(program, tmp_path / "absent" / "model.control", None):
        assert list(tmp_path.iterdir()) == []


def test_one_that_the_user_gave_and_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    given = str(tmp_path / "absent" / "socket")
    with (
        pytest.raises(CommandError, match="absent"),
        guest_socket(program, tmp_path / "model.control", given),
    ):
        pass


def test_none_means_none(tmp_path: Path) -> None:
    with guest_socket(program, tmp_path / "model.control", "none"):
        assert list(tmp_path.iterdir()) == []


# --- ending ---------------------------------------------------------------------------------


def test_what_the_operator_ends_fails_with_the_reason(tmp_path: Path) -> None:
    orders = Orders()
    orders.end("wrong data")
    with (
        pytest.raises(JobFailed, match="aborted by the operator: wrong data"),
        reachable(program, orders, tmp_path / "s", None, common()) as cancel,
    ):
        cancel.check()


def test_an_interruption_by_the_user_stays_one(tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel("SIGINT")
    with (
        pytest.raises(Cancelled),
        reachable(program, Orders(), tmp_path / "s", None, common(token)) as cancel,
    ):
        cancel.check()


def test_a_limit_can_be_set_before_anything_is_connected(tmp_path: Path) -> None:
    with reachable(program, Orders(), tmp_path / "s", None, common()):
        change_bandwidth("8Mbit")
        assert bandwidth_facts().limit.up == 1e6
    assert bandwidth_facts().limit.up is None
