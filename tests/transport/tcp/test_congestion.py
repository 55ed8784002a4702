"""The congestion control of data connections is the one that was asked for, or the system's."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from streamlink.transport.tcp.congestion import Congestion
from tests.support.lane_lab import LaneLab
from tests.support.peers import config

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="no choice here")

LOGGER = logging.getLogger("streamlink.client")


def algorithm(connected: socket.socket) -> str:
    raw = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return raw.rstrip(b"\0").decode()


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with socket.socket() as connection:
        yield connection


def test_it_is_the_one_that_was_asked_for(connection: socket.socket) -> None:
    Congestion("reno", LOGGER).ask(connection)  # every Linux has it, and lets anybody use it
    assert algorithm(connection) == "reno"


def test_without_a_name_it_is_the_systems(connection: socket.socket) -> None:
    with socket.socket() as untouched:
        Congestion("", LOGGER).ask(connection)
        assert algorithm(connection) == algorithm(untouched)


@contextmanager
def within_this_machine(name: str) -> Iterator[socket.socket]:
    """Yield a loopback connection whose congestion control is ``name``, as if by default."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as connected:
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            pytest.skip(f"this system has no {name}")
        connected.connect(listening.getsockname())
        yield connected


@pytest.mark.parametrize(
    ("systems", "asked", "found"),
    [("bbr", "", "reno"), ("cubic", "", "cubic"), ("cubic", "bbr", "bbr")],
)
def test_within_this_machine_nothing_is_paced_unless_that_is_asked_for(
    systems: str, asked: str, found: str
) -> None:
    with within_this_machine(systems) as connected:
        Congestion(asked, LOGGER).ask(connected)
        assert algorithm(connected) == found


def test_a_connection_that_has_ended_is_left_alone(connection: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection.connect(listening.getsockname())
        connection.shutdown(socket.SHUT_RDWR)
        listening.accept()[0].close()
        Congestion("", LOGGER).ask(connection)


def test_one_that_cannot_be_had_is_reported_once(
    connection: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    asking = Congestion("no_such_thing", LOGGER)
    before = algorithm(connection)
    with caplog.at_level(logging.WARNING, "streamlink.client"):
        for _ in range(3):
            asking.ask(connection)
    assert algorithm(connection) == before
    (said,) = caplog.messages
    assert "no_such_thing cannot be had here" in said


def test_both_ends_of_a_data_connection_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    send: Callable[..., int] = socket.socket.sendmsg

    def sendmsg(connected: socket.socket, *args: Any) -> int:
        if connected.family == socket.AF_INET:
            seen.append(algorithm(connected))
        return send(connected, *args)

    monkeypatch.setattr(socket.socket, "sendmsg", sendmsg)
    with LaneLab(config(stream={"congestion_control": "reno"})) as lab:
        lab.move("up").finish()
        lab.move("down").finish()
    assert set(seen) == {"reno"}


def test_a_name_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(ValueError, match="congestion_control"):
        config(stream={"congestion_control": "B B R"})
