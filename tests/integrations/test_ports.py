"""An object server on the first free pair of ports of a range."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamlink.errors import AddressInUse
from streamlink.integrations.ports import listening
from streamlink.objects import ObjectServer


def test_any_free_port_is_taken_where_none_is_named() -> None:
    with listening("127.0.0.1:0", ObjectServer) as server:
        assert server.port > 0


def test_a_pair_whose_lower_port_is_taken_is_skipped() -> None:
    with taken() as first, listening(f"127.0.0.1:{first}-{first + 20}", ObjectServer) as server:
        assert first < server.port < first + 20
        assert (server.port - first) % 2 == 0


def test_the_port_above_the_one_of_sessions_is_in_the_range_too() -> None:
    tried: list[str] = []

    def make(address: str) -> ObjectServer:
        tried.append(address)
        raise AddressInUse(address)

    with pytest.raises(AddressInUse):
        listening("127.0.0.1:8600-8604", make)
    assert tried == ["127.0.0.1:8600", "127.0.0.1:8602"]


@pytest.mark.parametrize("ports", ["{port}", "{port}-{port}"])
def test_one_port_is_no_range_and_is_taken_as_it_is(ports: str) -> None:
    with taken() as port, pytest.raises(AddressInUse):
        listening(f"127.0.0.1:{ports.format(port=port)}", ObjectServer)


@contextmanager
def taken() -> Iterator[int]:
    """Let somebody else have a port."""
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        yield somebody.getsockname()[1]
