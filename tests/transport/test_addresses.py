"""What an address may look like, and whether a Unix socket has an owner."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from streamlink import Client, Server, StreamingExecutor
from streamlink.errors import AddressInUse
from streamlink.transport.addresses import (
    host_of,
    is_answered,
    is_unix,
    listening_at,
    named,
    require_address,
    socket_file,
    split_scheme,
)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1:8517", "localhost:0", "[::]:65535", "fl.example.org:1"),
        *("unix:socket", "unix:/tmp/socket", "unix:///tmp/socket", "unix-abstract:name"),
    ],
)
def test_addresses_that_grpc_knows_are_taken(address: str) -> None:
    require_address(address)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        *((each, "not of the form HOST:PORT or unix:PATH") for each in ("", "a", ":1", "a:b")),
        *((each, "not of the form HOST:PORT or unix:PATH") for each in ("a:65536", "a:²")),
        *((each, "names no socket") for each in ("unix:", "unix:///", "unix-abstract:")),
        ("unix:/nowhere/at/all", "there is no directory /nowhere/at"),
        ("unix:/tmp/" + "x" * 103, "is too long for a Unix socket: 108 bytes of at most 107"),
        ("unix-abstract:" + "x" * 108, "is too long for a Unix socket"),
    ],
)
def test_what_is_no_address_is_refused_with_a_reason(address: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        require_address(address)


@pytest.mark.parametrize(
    ("address", "scheme", "rest"),
    [
        ("127.0.0.1:1", "grpc", "127.0.0.1:1"),
        ("grpc://127.0.0.1:1", "grpc", "127.0.0.1:1"),
        ("unix:///tmp/socket", "grpc", "unix:///tmp/socket"),
        ("memory://lab", "memory", "lab"),
        ("memory:80", "grpc", "memory:80"),  # a host of that name
    ],
)
def test_an_address_may_begin_with_the_name_of_its_carrier(
    address: str, scheme: str, rest: str
) -> None:
    require_address(address)
    assert split_scheme(address) == (scheme, rest)


def test_a_carrier_without_ports_is_listened_to_where_it_was_said() -> None:
    assert listening_at("memory://lab", 0) == "memory://lab"
    assert listening_at("grpc://127.0.0.1:0", 80) == "grpc://127.0.0.1:80"


def test_the_scheme_of_grpc_is_not_named_and_that_of_another_carrier_is() -> None:
    assert named("grpc://127.0.0.1:80") == named("127.0.0.1:80") == "127.0.0.1:80"
    assert named("mpi://0") == "mpi://0"


def test_the_file_of_a_socket_is_found_however_it_is_written() -> None:
    assert socket_file("unix:a/b") == Path("a/b")
    assert socket_file("unix:/a/b") == socket_file("unix:///a/b") == Path("/a/b")
    assert socket_file("unix-abstract:a") is None
    assert socket_file("a:1") is None
    assert [is_unix(each) for each in ("unix:a", "unix-abstract:a", "unix:1")] == [True] * 3
    assert not is_unix("localhost:1")


def test_the_port_that_was_taken_stands_in_the_place_of_0() -> None:
    assert listening_at("127.0.0.1:0", 5) == "127.0.0.1:5"
    assert listening_at("[::]:0", 5) == "[::]:5"
    assert listening_at("unix:a", 0) == "unix:a"


def test_a_socket_is_answered_for_as_long_as_somebody_listens(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    assert not is_answered(address)
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert not is_answered(address)  # left over: nobody listens
        listening.listen()
        assert is_answered(address)
    assert not is_answered(address)
    assert not is_answered("127.0.0.1:1")


def test_a_second_server_does_not_take_the_socket_of_the_first(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with Server(address) as first:
        with pytest.raises(AddressInUse, match="is another server running there"):
            Server(address).listen()
        assert (first.address, first.port) == (address, 0)
        with Client(first.address, "site-1", StreamingExecutor(lambda t, s, values: values)):
            assert [peer.name for peer in first.wait_for_peers(1, 60)] == ["site-1"]


def test_a_socket_that_a_killed_server_has_left_is_used_again(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(tmp_path / "socket"))
    with Server(f"unix:{tmp_path}/socket") as server:
        assert server.address == f"unix:{tmp_path}/socket"


@pytest.mark.parametrize(
    ("address", "host"),
    [
        *(("fl.example.org:1", "fl.example.org"), ("[::1]:80", "::1"), ("0.0.0.0:1", "0.0.0.0")),
        *((each, None) for each in ("unix:/tmp/socket", "unix-abstract:name")),
    ],
)
def test_the_host_of_an_address_is_given_and_a_unix_socket_has_none(
    address: str, host: str | None
) -> None:
    assert host_of(address) == host
