"""Settings: sizes that become those of a link, and switches for everything at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import JobConfig
from streamlink.errors import StreamlinkError
from streamlink.training.client import for_client, link_config
from streamlink.training.optimized import optimized_client, optimized_server
from streamlink.training.server import job_config
from streamlink.training.settings import (
    ClientSettings,
    CommSettings,
    ServerSettings,
    TrainingError,
)

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


@given(chunk=st.integers(32 * KiB, 64 * GiB), message=st.integers(32 * KiB, 4 * GiB))
def test_every_pair_of_sizes_makes_a_link_within_both(chunk: int, message: int) -> None:
    comm = CommSettings(model_chunk_size=chunk, max_message_size=message)
    config = job_config(ServerSettings(comm=comm))
    assert config.grpc.max_message_bytes == message
    assert config.stream.chunk_bytes < message  # a larger chunk is split over messages
    assert config.stream.stream_bytes <= chunk
    assert config.stream.chunk_bytes <= 2 * MiB


def test_less_is_held_with_smaller_chunks() -> None:
    held = [
        job_config(ServerSettings(comm=CommSettings(model_chunk_size=size))).stream.stream_bytes
        for size in (64 * KiB, 1 * MiB, 4 * MiB, 16 * MiB)
    ]
    assert held == sorted(set(held))


def test_a_file_that_chunks_by_gigabytes_holds_megabytes() -> None:
    comm = CommSettings(model_chunk_size=4 * GiB, max_message_size=100 * MiB)
    assert job_config(ServerSettings(comm=comm)).stream.stream_bytes == 24 * MiB


def test_the_servers_rules_are_those_of_its_settings() -> None:
    rules = job_config(ServerSettings(num_clients=3, num_rounds=7)).rounds
    assert (rules.min_clients, rules.wait_for_clients, rules.num_rounds) == (3, 3, 7)
    assert rules.weights == "equal"
    assert job_config(ServerSettings(client_weights="sample_size")).rounds.weights == "given"


def test_what_is_given_besides_takes_precedence() -> None:
    config = job_config(ServerSettings(), ["stream.chunk_bytes=64KiB", "rounds.train_timeout=5"])
    assert config.stream.chunk_bytes == 64 * KiB
    assert config.rounds.train_timeout == 5


@pytest.mark.parametrize("missing", ["server_certificate", "server_certificate_key"])
def test_encryption_without_a_certificate_is_refused_by_its_row(missing: str) -> None:
    files = {"server_certificate": "c.pem", "server_certificate_key": "k.pem"} | {missing: ""}
    comm = CommSettings.model_validate({"use_ssl": True, **files})
    with pytest.raises(TrainingError, match=f"grpc_configs.use_ssl is True, and {missing} names"):
        job_config(ServerSettings(comm=comm))


def test_a_client_that_encrypts_needs_an_authority() -> None:
    with pytest.raises(TrainingError, match="root_certificate names no file"):
        link_config(ClientSettings(comm=CommSettings(use_ssl=True)))


def test_certificates_are_those_of_the_link() -> None:
    comm = CommSettings(use_ssl=True, server_certificate="c.pem", server_certificate_key="k.pem")
    security = job_config(ServerSettings(comm=comm)).security
    assert (str(security.certificate), str(security.key)) == ("c.pem", "k.pem")
    plain = comm.model_copy(update={"use_ssl": False})
    assert job_config(ServerSettings(comm=plain)).security == JobConfig().security


@pytest.mark.parametrize("is_on", [True, False])
def test_one_switch_turns_everything_on_or_off(is_on: bool) -> None:
    server = optimized_server(optimized_server(ServerSettings(), not is_on), is_on)
    client = optimized_client(optimized_client(ClientSettings(), not is_on), is_on)
    assert server.optimize_memory is is_on
    assert server.order.optimize_memory is is_on
    assert server.order.trainer.optimize_memory is is_on
    assert (client.optimize_memory, client.optimize_trainer) == (is_on, is_on)
    for comm in (server.comm, client.comm):
        assert comm.optimize_memory is comm.use_model_chunking is not comm.is_whole
        assert comm.is_whole is not is_on


def test_no_switch_leaves_everything_as_the_file_says() -> None:
    server, client = ServerSettings(optimize_memory=False), ClientSettings(optimize_trainer=False)
    assert optimized_server(server, None) is server
    assert optimized_client(client, None) is client


def test_clients_of_one_file_differ_in_name_and_data() -> None:
    shared = ClientSettings.model_validate({"data": {"kwargs": {"visualization": True, "n": 5}}})
    first, third = (for_client(shared, index, 3) for index in (0, 2))
    assert (first.client_id, third.client_id) == ("Client1", "Client3")
    assert first.data.kwargs == {"visualization": True, "n": 5, "client_id": 0, "num_clients": 3}
    assert third.data.kwargs == {"visualization": False, "n": 5, "client_id": 2, "num_clients": 3}


def test_a_client_beyond_their_number_is_refused() -> None:
    with pytest.raises(ValueError, match="client 3 of 3: they are counted from 0"):
        for_client(ClientSettings(), 3, 3)


@pytest.mark.parametrize("name", ["a/b", "../up", ""])
def test_a_name_that_would_write_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        ClientSettings(client_id=name)


def test_an_error_about_training_is_one_of_ours() -> None:
    assert issubclass(TrainingError, StreamlinkError)
