"""The object server of a framework's job: its ports, its room for clients, what clients dial."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from streamlink import LinkConfig
from streamlink.errors import AddressInUse, ConnectFailed, SecurityError
from streamlink.integrations.ports import checked_ports, dialled, listening, started, within
from streamlink.objects import ObjectClient, ObjectServer


def test_any_free_port_is_taken_where_none_is_named() -> None:
    with listening("127.0.0.1:0", ObjectServer, LinkConfig()) as server:
        assert server.port > 0


@pytest.mark.parametrize("number", [0, 1])
def test_a_pair_of_which_either_port_is_taken_is_skipped(number: int) -> None:
    first = free_ports(2)
    address = f"127.0.0.1:{first}-{first + 21}"
    with taken(first + number), listening(address, ObjectServer, LinkConfig()) as server:
        assert first < server.port < first + 20
        assert (server.port - first) % 2 == 0
        assert carrier_of(server, within(address, LinkConfig())) == "tcp"


@pytest.mark.parametrize("own", [0, 1, 2])
def test_a_lone_port_is_taken_where_no_pair_is_whole_and_the_log_says_so(
    own: int, caplog: pytest.LogCaptureFixture
) -> None:
    first = free_ports(3)
    address = f"127.0.0.1:{first}-{first + 2}"
    with ExitStack() as stack:
        for other in {0, 1, 2} - {own}:
            stack.enter_context(taken(first + other))
        server = stack.enter_context(listening(address, ObjectServer, LinkConfig()))
        assert server.port == first + own
        assert carrier_of(server, within(address, LinkConfig())) == "grpc"
    assert f"no two neighbouring ports of {first}-{first + 2} are free" in caplog.text


def test_pairs_come_before_lone_ports_and_none_is_beyond_the_range() -> None:
    tried: list[tuple[str, tuple[str, ...]]] = []

    def make(address: str, config: LinkConfig) -> ObjectServer:
        tried.append((address.rpartition(":")[2], config.stream.data_listen))
        raise AddressInUse(address)

    with pytest.raises(AddressInUse, match="all ports of 8600-8604 are taken"):
        listening("127.0.0.1:8600-8604", make, LinkConfig())
    above = [("tcp://127.0.0.1:8601",), ("tcp://127.0.0.1:8603",)]
    lone = [(str(port), ("none",)) for port in range(8600, 8605)]
    assert tried == [("8600", above[0]), ("8602", above[1]), *lone]


def test_a_server_whose_user_says_where_the_bytes_go_needs_no_pair(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = free_ports(3)
    config = LinkConfig(stream={"data_listen": "none"})
    address = f"127.0.0.1:{first}-{first + 2}"
    with (
        taken(first),
        taken(first + 2),
        listening(address, ObjectServer, config) as server,
    ):
        assert server.port == first + 1
    assert not caplog.records


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="the lower one first"):
        listening("127.0.0.1:8604-8600", ObjectServer, LinkConfig())


@pytest.mark.parametrize("ports", ["{port}", "{port}-{port}"])
def test_one_port_is_no_range_and_is_taken_as_it_is(ports: str) -> None:
    port = free_ports(1)
    with taken(port), pytest.raises(AddressInUse):
        listening(f"127.0.0.1:{ports.format(port=port)}", ObjectServer, LinkConfig())


def test_a_pair_of_ports_carries_the_bytes_at_the_upper_one() -> None:
    first = free_ports(2)
    address = f"127.0.0.1:{first}-{first + 1}"
    with listening(address, ObjectServer, LinkConfig()) as server:
        assert server.port == first
        assert not is_free(first + 1)
        assert carrier_of(server, within(address, LinkConfig())) == "tcp"


@pytest.mark.parametrize("ports", ["{first}", "{first}-{first}"])
def test_a_server_at_one_port_opens_no_other(ports: str) -> None:
    first = free_ports(2)
    address = f"127.0.0.1:{ports.format(first=first)}"
    with listening(address, ObjectServer, LinkConfig()) as server:
        assert server.port == first
        assert is_free(first + 1)


def test_a_server_at_one_port_listens_where_the_user_says_too() -> None:
    first = free_ports(2)
    config = LinkConfig(stream={"data_listen": "auto"})
    with listening(f"127.0.0.1:{first}", ObjectServer, config):
        assert not is_free(first + 1)


def test_a_client_that_may_dial_one_port_leaves_the_one_above_alone() -> None:
    with ObjectServer() as server:
        assert carrier_of(server, LinkConfig()) == "tcp"
        assert carrier_of(server, within(server.address, LinkConfig())) == "grpc"


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("fl.example.org", "fl.example.org:8443"),
        ("fl.example.org:8000-9000", "fl.example.org:8443"),
        ("[::1]:8000-9000", "[::1]:8443"),
        ("gate:99", "gate:99"),
    ],
)
def test_a_client_dials_what_is_configured_there(server: str, address: str) -> None:
    assert dialled(server, 8443) == address


def test_a_client_dials_no_port_beyond_its_range() -> None:
    with pytest.raises(SecurityError, match="may dial gate:1-2 only"):
        dialled("gate:1-2", 8443)


@pytest.mark.parametrize("unset", ["", "streamlink-server"])
def test_a_client_that_dialled_this_machine_for_want_of_a_setting_names_it(unset: str) -> None:
    config = LinkConfig(timeouts={"connect_timeout": 0.5})
    client = ObjectClient(f"127.0.0.1:{free_ports(1)}", name="site-1", config=config)
    with pytest.raises(ConnectFailed) as failed:
        started(client, unset)
    assert ("streamlink-server is not set here" in str(failed.value)) is bool(unset)


def test_a_client_that_finds_its_server_is_started() -> None:
    with ObjectServer() as server, ObjectClient(server.address, name="site-1") as client:
        assert started(client, "streamlink-server") is client


@pytest.mark.parametrize(
    ("settings", "clients", "admitted"),
    [
        ({}, 100, 100),
        ({}, 2, 16),
        ({"grpc": {"max_clients": 3}}, 100, 3),
        ({"stream": {"memory_bytes": "8MiB"}}, 100, 9),
    ],
)
def test_a_server_has_room_for_its_clients_unless_the_user_says_for_how_many(
    settings: dict[str, object], clients: int, admitted: int
) -> None:
    made: list[LinkConfig] = []

    def make(address: str, config: LinkConfig) -> ObjectServer:
        made.append(config)
        return ObjectServer(address, config=config)

    listening("127.0.0.1:0", make, LinkConfig.model_validate(settings), clients).close()
    assert [each.grpc.max_clients for each in made] == [admitted]


FEW_FILES = """
import resource, sys
from streamlink import LinkConfig
from streamlink.errors import TooFewDescriptors
from streamlink.integrations.ports import listening
from streamlink.objects import ObjectServer

limit, clients = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

def make(address, config):
    made.append(config.grpc.max_clients)
    return ObjectServer(address, config=config)

made = []
try:
    listening("127.0.0.1:0", make, LinkConfig(), clients).close()
except TooFewDescriptors:
    made.append("refused")
print(*made)
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("limit", "clients", "tried"),
    [(1024, 64, "64"), (1024, 200, "200 100 50"), (128, 64, "64 32 16 refused")],
)
def test_with_few_file_descriptors_a_server_admits_fewer_clients(
    limit: int, clients: int, tried: str
) -> None:
    words = [sys.executable, "-c", FEW_FILES, str(limit), str(clients)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == tried


def carrier_of(server: ObjectServer, config: LinkConfig) -> str:
    """Return what carries an object from ``server`` to a client with these settings."""
    model = {"w": np.arange(1000, dtype=np.float32)}
    seen: list[str] = []
    reference = server.put(model)
    with ObjectClient(
        server.address,
        name="site-1",
        config=config,
        on_transfer=lambda facts: seen.append(facts.carrier),
    ) as client:
        client.get(reference, {"w": np.zeros(1000, np.float32)})
    return seen[0]


def free_ports(count: int) -> int:
    """Return the first of ``count`` neighbouring ports that are free now."""
    for _ in range(100):
        first = random.randrange(20_000, 30_000)  # below those that the system hands out
        if all(is_free(first + number) for number in range(count)):
            return first
    raise AssertionError(f"no {count} neighbouring ports are free here")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Let somebody else have a port."""
    with socket.create_server(("127.0.0.1", port)):
        yield


@pytest.mark.parametrize("ports", ["0", "8443", "8443-8443", "8443-8452"])
def test_a_port_and_a_range_can_be_set(ports: str) -> None:
    assert checked_ports(ports) == ports


@pytest.mark.parametrize("ports", ["", "84a3-8452", "8452-8443", "8443-", "0-9", "1-65536", "a:1"])
def test_what_is_no_range_is_refused_by_what_can_be_written(ports: str) -> None:
    with pytest.raises(ValueError, match="write it as 8443-8452"):
        checked_ports(ports)
