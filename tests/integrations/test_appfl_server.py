"""Where the APPFL wrappers serve models, for how many clients, and what they leave behind."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import streamlink as sl
import streamlink.integrations.appfl
from benchmarks.integrations.lines import Lines
from streamlink.errors import ObjectLimit, SecurityError, StreamlinkError
from streamlink.integrations.appfl import StreamlinkServerAgent
from streamlink.model import GeneratedModel, ModelSpec, TensorSpec
from streamlink.objects import ObjectServer
from tests.support.appfl_stand_ins import MODEL, Agent, joined, same
from tests.support.code_lines import lines_of_code

SOON = sl.LinkConfig(timeouts={"reconnect_timeout": 1, "rejoin_timeout": 1})
LARGE = {"w": torch.arange(4_000_000, dtype=torch.float32)}


def test_the_integration_is_short() -> None:
    """Lines of code: without those that are empty, comments or docstrings."""
    package = Path(streamlink.integrations.appfl.__file__).parent
    assert sum(lines_of_code(path) for path in package.glob("*.py")) <= 400


def test_as_many_clients_as_appfl_waits_for_are_connected_at_once() -> None:
    with StreamlinkServerAgent(Agent(clients=17)) as server, ExitStack() as stack:
        for number in range(17):
            client = stack.enter_context(joined(server, f"Client{number}"))
            assert same(client.get_global_model(), MODEL)


def test_a_users_number_of_clients_is_kept_and_so_are_appfls_tokens() -> None:
    config = sl.LinkConfig(grpc={"max_clients": 1})
    with StreamlinkServerAgent(Agent(clients=17), config=config) as server, ExitStack() as stack:
        stack.enter_context(joined(server)).get_global_model()
        with pytest.raises(StreamlinkError, match="max_clients=1 sessions"):
            stack.enter_context(joined(server, "Client2")).get_global_model()


def test_a_client_finds_the_pair_of_its_range_that_the_server_has_taken() -> None:
    with ObjectServer() as free:
        first, last = free.port, free.port + 20
    address = f"127.0.0.1:{first}-{last}"
    with (
        StreamlinkServerAgent(Agent(), address) as one,
        StreamlinkServerAgent(Agent(), address) as two,
    ):
        assert first <= one.objects.port < two.objects.port < last
        for server in (one, two):
            with joined(server, address=address) as client:
                assert same(client.get_global_model(), MODEL)


def test_a_client_dials_no_port_beyond_its_range() -> None:
    with StreamlinkServerAgent(Agent()) as server:
        with joined(server, address="127.0.0.1:1-2") as client:
            with pytest.raises(SecurityError, match=r"may dial 127\.0\.0\.1:1-2 only"):
                client.get_global_model()


def test_a_clients_own_timeouts_leave_appfls_tokens_in_place() -> None:
    with StreamlinkServerAgent(Agent()) as server, joined(server, config=SOON) as client:
        assert same(client.get_global_model(), MODEL)


def test_a_line_that_stays_cut_fails_the_clients_call_and_not_the_server() -> None:
    agent = Agent()
    agent.model = LARGE
    with (
        Lines() as lines,
        StreamlinkServerAgent(agent, lines.behind, config=SOON) as server,
        joined(server, address=lines.address, config=SOON) as client,
        joined(server, "Client2", address=lines.behind, config=SOON) as other,
    ):
        lines.cut_after(LARGE["w"].nbytes // 2)
        with pytest.raises(StreamlinkError):
            client.get_global_model()
        assert lines.resets
        assert same(other.get_global_model(), LARGE)


@pytest.mark.processes
def test_the_folder_in_the_spool_goes_with_the_server(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with StreamlinkServerAgent(Agent(clients=2), spool=spool, round_timeout=0.05) as server:
        with joined(server) as client, pytest.raises(StreamlinkError):
            client.update_global_model(MODEL)
        assert len(list(spool.iterdir())) == 1
    assert not list(spool.iterdir())


@pytest.mark.processes
def test_with_a_spool_the_disk_is_the_limit(tmp_path: Path) -> None:
    spec = ModelSpec((TensorSpec("w", "U8", (100 << 30,)),))
    large = GeneratedModel(spec, lambda tensor, start, out: out.fill(0))
    with StreamlinkServerAgent(Agent(), spool=tmp_path) as server:
        for _ in range(26):
            server.objects.put(large, readers=(), digest="")
    with StreamlinkServerAgent(Agent()) as server, pytest.raises(ObjectLimit, match="max_bytes"):
        server.objects.put(large, readers=(), digest="")
