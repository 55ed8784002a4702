"""An object server on the first free port of a range."""

from __future__ import annotations

import socket

import pytest

from streamlink.errors import AddressInUse
from streamlink.integrations.ports import listening
from streamlink.objects import ObjectServer


def test_any_free_port_is_taken_where_none_is_named() -> None:
    with listening("127.0.0.1:0", ObjectServer) as server:
        assert server.port > 0


def test_a_taken_port_is_skipped() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        with listening(f"127.0.0.1:{first}-{first + 20}", ObjectServer) as server:
            assert first < server.port <= first + 20


def test_a_range_without_a_free_port_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse):
            listening(f"127.0.0.1:{port}-{port}", ObjectServer)
