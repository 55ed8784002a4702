"""What a server may have open, in processes with limits of their own."""

from __future__ import annotations

import pytest

from streamlink.config import LimitsConfig
from streamlink.transport.tcp.listener import MOST_STRANGERS
from tests.support.few_files import run_with_few_files

pytestmark = pytest.mark.processes

LANES = LimitsConfig().max_extra_lanes

ASK = """
import resource
from streamlink.config import GrpcConfig, LimitsConfig, LinkConfig, StreamConfig
from streamlink.errors import TooFewDescriptors
from streamlink.link.server import Server
from streamlink.transport.budget import budget_for

def config(clients, strangers=256):
    limits = LimitsConfig(max_unknown_connections=strangers)
    return LinkConfig(grpc=GrpcConfig(max_clients=clients), limits=limits)

"""


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    said = run_with_few_files(
        ASK + "print(budget_for(config(16)), resource.getrlimit(resource.RLIMIT_NOFILE))",
        soft=128,
        hard=4096,
    )
    assert said == "Budget(connections=320, strangers=256, lanes=32) (4096, 4096)\n"


@pytest.mark.parametrize(("files", "clients"), [(256, 3), (256, 16), (1024, 16), (1024, 64)])
def test_with_few_descriptors_a_server_takes_fewer_strangers_and_keeps_a_reserve(
    files: int, clients: int
) -> None:
    said = run_with_few_files(
        ASK
        + f"""
found = budget_for(config({clients}))
assert found.connections == 4 * {clients} + found.strangers
print(found.strangers, {files} - found.connections)
""",
        soft=files,
    )
    strangers, left = map(int, said.split())
    assert 16 <= strangers <= 256
    assert left >= 32 + 4 * clients


def test_a_crowd_has_room_to_come_back_in_where_its_files_would_take_everything() -> None:
    said = run_with_few_files(
        ASK
        + """
found = budget_for(config(400))
print(found.strangers, 6144 - found.connections - 2 * 400)
""",
        soft=6144,
    )
    strangers, left = map(int, said.split())
    assert strangers == 400 // 4
    assert left >= 32 + 4 * 400


def test_connections_to_the_data_port_are_counted_where_there_is_one() -> None:
    said = run_with_few_files(
        ASK
        + """
beside = config(16)
alone = beside.model_copy(update={"stream": StreamConfig(data_listen="none")})
print(budget_for(alone).strangers - budget_for(beside).strangers)
""",
        soft=600,
    )
    assert int(said) == 16 * 2 + MOST_STRANGERS + LANES


def test_the_lanes_of_all_clients_are_counted_and_bounded() -> None:
    said = run_with_few_files(
        ASK
        + """
many = config(16)
few = many.model_copy(update={"stream": StreamConfig(max_lanes=1)})
more = many.model_copy(update={"limits": LimitsConfig(max_extra_lanes=1000)})
print(*(budget_for(few).strangers - budget_for(each).strangers for each in (many, more)))
""",
        soft=700,
    )
    assert said.split() == [str(LANES), str(16 * 2 * 3)]


def test_where_descriptors_are_few_there_are_no_lanes_rather_than_no_server() -> None:
    said = run_with_few_files(ASK + "print(budget_for(config(16)).lanes)", soft=256)
    assert said == "0\n"


def test_settings_that_cannot_work_are_refused_by_the_name_of_the_limit() -> None:
    said = run_with_few_files(
        ASK
        + """
try:
    Server("127.0.0.1:0", config(100)).listen()
except TooFewDescriptors as error:
    print(error)
""",
        soft=256,
    )
    assert said.startswith("max_clients=100 needs ")
    assert "this process may have 256 (RLIMIT_NOFILE); raise it with `ulimit -n`, or Limit" in said


SHARED = """
from streamlink.transport.budget import with_room

def admitted(memory, **grpc):
    config = LinkConfig(stream={"memory_bytes": memory}, grpc=grpc)
    server = Server("127.0.0.1:0", config)
    assert server.config.grpc.max_clients == with_room(config).grpc.max_clients
    assert server.config.is_max_clients_set == bool(grpc)
    return server.config.grpc.max_clients

"""


def test_unless_set_the_clients_follow_a_shared_memory_and_the_descriptors() -> None:
    said = run_with_few_files(
        ASK
        + SHARED
        + """
print(admitted("8MiB"), admitted("8MiB", max_clients=3), admitted(0))
many = admitted("32GiB")
print(150 < many < 200, budget_for(config(many)).strangers)
with Server("127.0.0.1:0", LinkConfig(stream={"memory_bytes": "32GiB"})):
    print("listens")
""",
        soft=4096,
    )
    assert said == "9 3 16\nTrue 256\nlistens\n"


@pytest.mark.parametrize(
    ("stream", "connections", "lanes"),
    [('data_listen="none"', 0, 0), ("max_lanes=1", 2, 0), ("max_lanes=4", 2, LANES)],
)
def test_clients_that_follow_a_shared_memory_are_as_many_as_have_room_with_their_lanes(
    stream: str, connections: int, lanes: int
) -> None:
    said = run_with_few_files(
        ASK
        + SHARED
        + f"""
config = LinkConfig(stream=StreamConfig(memory_bytes="32GiB", {stream}))
print(with_room(config).grpc.max_clients, budget_for(with_room(config)).strangers)
""",
        soft=4096,
    )
    clients, strangers = map(int, said.split())
    # Four connections to the port of gRPC and 16 files each, beside all strangers and 64 files.
    fixed = 256 + 64 + MOST_STRANGERS * bool(connections) + lanes
    each = 4 + 16 + connections
    assert 0 <= 4096 - fixed - clients * each < each + 64, "64: what the process has open"
    assert strangers == 256


def test_with_few_descriptors_a_shared_memory_admits_no_fewer_clients_than_none() -> None:
    said = run_with_few_files(ASK + SHARED + "print(admitted('1GiB'), admitted(0))", soft=256)
    assert said == "16 16\n"
