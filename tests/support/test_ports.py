"""A kept port: refused while no server listens, and a server's whenever one comes."""

from __future__ import annotations

import gc
import socket

import pytest

import streamlink as sl
from tests.support.ports import KeptPort


def test_nobody_answers_at_a_port_that_is_only_kept() -> None:
    port = KeptPort()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port.number))


def test_a_server_takes_it_and_another_one_after_it() -> None:
    port = KeptPort()
    for _ in range(2):
        with sl.Server(port.address) as server:
            assert server.address == port.address
            for number in (port.number, port.number + 1):
                socket.create_connection(("127.0.0.1", number)).close()


def is_free(number: int) -> bool:
    with socket.socket() as other:  # without SO_REUSEADDR: it is refused beside any other
        try:
            other.bind(("127.0.0.1", number))
        except OSError:
            return False
        return True


def test_two_are_never_the_same_and_one_that_is_gone_is_free() -> None:
    kept = [KeptPort() for _ in range(50)]
    assert len({port.number + above for port in kept for above in (0, 1)}) == 100
    numbers = [port.number + above for port in kept for above in (0, 1)]
    kept.clear()
    gc.collect()
    # Another process may have taken one of them in the meantime.
    assert sum(map(is_free, numbers)) > len(numbers) / 2


def test_the_port_above_is_kept_too() -> None:
    port = KeptPort()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number + 1))
