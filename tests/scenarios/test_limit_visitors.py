"""``streamlink limit``, ``status`` and ``abort`` for commands that connect: client, send, fetch.

Each begins with a limit at which the test would never end, so its end is the proof of another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from streamlink import copy_model, open_store
from streamlink.cli import app
from streamlink.stores import SafetensorsStore
from tests.support.commands import Command, streamlink
from tests.support.models import float_spec, pattern_model, save
from tests.support.ports import KeptPort

pytestmark = pytest.mark.processes

SPEC = float_spec(9 << 20)
SLOW = ("--bwlimit", "20K")  # half an hour for 36 MB
WORK = "def train(tensor, start, values):\n    return values + 1\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save(SafetensorsStore(tmp_path / "source"), pattern_model(SPEC))
    return tmp_path / "source"


@pytest.fixture
def address() -> Iterator[str]:
    port = KeptPort()
    yield port.address
    port.close()


def asked(*words: object) -> str:
    """Return what a command prints, which must succeed; it runs in this process."""
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def status(*of: object) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(asked("status", "--json", *of))
    return facts


def test_the_limit_of_a_sender_is_changed_while_it_sends(
    source: Path, tmp_path: Path, address: str
) -> None:
    sending = streamlink("send", "source", address, "--name", "me", *SLOW)
    receiving = streamlink("receive", "target", "--listen", address)
    with Command(receiving, tmp_path) as receiver, Command(sending, tmp_path) as sender:
        receiver.until("← me: a model begins")
        facts = status("--store", source)
        assert (facts["program"], facts["peer_name"]) == ("send", address)
        assert facts["bandwidth"]["up_limit"] == 20 << 10
        assert f"to {address} for " in asked("status", "--store", source)
        assert "the limit is off" in asked("limit", "off", "--store", source)
        assert sender.end() == receiver.end() == 0
    assert not list(tmp_path.glob("*.control"))


def test_the_limit_of_a_fetcher_is_changed_while_it_fetches(
    source: Path, tmp_path: Path, address: str
) -> None:
    serving = streamlink("serve", "source", "--listen", address, "--count", 1)
    fetching = streamlink("fetch", address, "target", "--name", "me", *SLOW)
    with Command(serving, tmp_path) as server, Command(fetching, tmp_path) as fetcher:
        server.until("→ me: the model begins")
        facts = status("--store", tmp_path / "target")
        assert (facts["program"], facts["bandwidth"]["down_limit"]) == ("fetch", 20 << 10)
        asked("limit", "1M:off", "--store", tmp_path / "target")
        assert fetcher.end() == server.end() == 0


def test_a_limit_that_was_set_before_the_connection_holds_over_it(
    source: Path, tmp_path: Path, address: str
) -> None:
    soon = ("--retry", 3600, "--set", "timeouts.connect_timeout=1")
    sending = streamlink("send", "source", address, "--name", "me", *soon)
    receiving = streamlink("receive", "target", "--listen", address)
    with Command(sending, tmp_path) as sender:
        sender.until("retrying")
        assert f"connecting to {address}" in asked("status", "--store", source)
        asked("limit", "20K", "--store", source)
        with Command(receiving, tmp_path) as receiver:
            receiver.until("← me: a model begins")
            assert status("--store", source)["bandwidth"]["bwlimit"] == "20K"
            asked("limit", "off", "--store", source)
            assert sender.end() == receiver.end() == 0


def test_a_sender_is_ended_with_the_reason_of_the_operator(
    source: Path, tmp_path: Path, address: str
) -> None:
    sending = streamlink("send", "source", address, "--name", "me", *SLOW)
    receiving = streamlink("receive", "target", "--listen", address)
    with Command(receiving, tmp_path) as receiver, Command(sending, tmp_path) as sender:
        receiver.until("← me: a model begins")
        asked("abort", "--store", source, "--reason", "the wrong one")
        assert sender.end() == 1
        assert "error: aborted by the operator: the wrong one" in sender.log
        receiver.until("waiting for the next sender")
        receiver.interrupt()
        assert receiver.end() == 130


def test_the_limit_of_a_client_is_changed_in_the_middle_of_a_round(tmp_path: Path) -> None:
    copy_model({"w": np.zeros(9 << 20, np.float32)}, open_store(tmp_path / "model"))
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    job = ("server", "--store", "model", "--listen", "127.0.0.1:0", "--num-rounds", 1)
    site = ("--name", "site-1", "--task", "work.py:train", *SLOW)
    with Command(streamlink(*job, "--min-clients", 1), tmp_path) as server:
        to = server.until(r"listening on (127\.0\.0\.1:\d+)")[1]
        with Command(streamlink("client", "--server", to, *site), tmp_path) as client:
            client.until("connected to")
            control = ("--control", tmp_path / "site-1.client.control")
            facts = status(*control)
            assert (facts["program"], facts["name"], facts["server"]) == ("client", "site-1", to)
            assert facts["bandwidth"]["up_limit"] == 20 << 10
            text = asked("status", *control)
            assert re.search(f"^site-1: .*\nserver {to}; 0 tasks done", text)
            asked("limit", "off", *control)
            assert client.end() == server.end() == 0


def test_a_client_is_ended_and_its_socket_with_it(tmp_path: Path) -> None:
    copy_model({"w": np.zeros(9, np.float32)}, open_store(tmp_path / "model"))
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    job = ("server", "--store", "model", "--listen", "127.0.0.1:0", "--min-clients", 2)
    site = ("--name", "a/b", "--task", "work.py:train")
    with Command(streamlink(*job), tmp_path) as server:
        to = server.until(r"listening on (127\.0\.0\.1:\d+)")[1]
        with Command(streamlink("client", "--server", to, *site), tmp_path) as client:
            client.until("connected to")
            control = ("--control", tmp_path / "a-b.client.control")
            asked("abort", *control, "--reason", "no more")
            assert client.end() == 1
            assert "error: aborted by the operator: no more" in client.log
        asked("abort", "--store", tmp_path / "model")
        assert server.end() == 1
    assert not list(tmp_path.glob("*.control"))
