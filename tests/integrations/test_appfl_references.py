"""What the APPFL wrappers do with APPFL's calls, with stand-ins that have APPFL's methods.

APPFL itself is in ``test_appfl``; here are what it carries, what is refused, and what happens when
a model is gone. The objects travel over real sessions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import streamlink as sl
from streamlink.certs import make_certificates
from streamlink.errors import ModelError, ObjectRefused, StreamlinkError
from streamlink.integrations.appfl import (
    KEY,
    StreamlinkAggregator,
    StreamlinkClientCommunicator,
    StreamlinkServerAgent,
    link_config,
)
from streamlink.integrations.torch_models import Tensors
from tests.support.appfl_stand_ins import MODEL, Agent, Communicator, joined, same


@pytest.fixture
def server() -> Iterator[StreamlinkServerAgent]:
    with StreamlinkServerAgent(Agent()) as agent:
        yield agent


def test_appfl_carries_references_and_empty_models_while_the_models_travel_beside(
    server: StreamlinkServerAgent,
) -> None:
    with joined(server) as client:
        assert same(client.get_global_model(init_model=True), MODEL)
        model, metadata = client.update_global_model(MODEL, lr=0.5)
        assert same(model, {name: each + 1 for name, each in MODEL.items()})
        assert metadata == {"status": "RUNNING", "local_steps": 7}
        carried = client.carried
    assert [each if not each else each[0] for each in carried] == [{}, {}, {}]
    assert all(len(str(each)) < 1000 for each in carried)


def test_what_was_read_is_released_at_once(server: StreamlinkServerAgent) -> None:
    with joined(server) as client:
        client.update_global_model(MODEL)
        client.get_global_model()
        while len(server.objects):  # the server hears of the last read a moment later
            pass
    assert server.objects.nbytes == 0


def test_a_client_without_the_wrapper_is_served_as_before(server: StreamlinkServerAgent) -> None:
    plain = Communicator(server, "Client2")
    assert same(plain.get_global_model(), MODEL)
    assert same(plain.update_global_model(MODEL)[0], {k: v + 1 for k, v in MODEL.items()})
    assert plain.get_configuration() == {"lr": 0.1}


def test_everything_else_is_passed_on(server: StreamlinkServerAgent) -> None:
    with joined(server) as client:
        assert client.max_message_size == 17
        assert client.invoke_custom_action("close_connection") == {"did": "close_connection"}
    assert server.clients == 1


def test_a_model_is_received_into_the_tensors_of_the_agents_own_model() -> None:
    module, agent = torch.nn.Linear(2, 2), Agent()
    agent.model = {name: torch.full_like(each, 3) for name, each in module.state_dict().items()}
    with StreamlinkServerAgent(agent) as server:
        with joined(server, agent=SimpleNamespace(model=module)) as client:
            found = client.get_global_model()
    assert torch.equal(module.weight, torch.full((2, 2), 3.0))
    assert found["weight"].data_ptr() == module.weight.data_ptr()


def test_a_model_whose_tensors_come_in_another_order_goes_to_those_of_its_names() -> None:
    """APPFL's trainers send parameters first, then buffers; a module has them mixed."""
    module, agent = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3)), Agent()
    named = {name: torch.rand(each.shape) if each.is_floating_point() else torch.tensor(7)
             for name, each in reversed(module.state_dict().items())}  # fmt: skip
    agent.model = named
    with StreamlinkServerAgent(agent) as server:
        with joined(server, agent=SimpleNamespace(model=module)) as client:
            assert same(client.get_global_model(), named)
    assert all(torch.equal(each, named[name]) for name, each in module.state_dict().items())


def test_a_reference_is_good_for_the_client_that_it_was_made_for(
    server: StreamlinkServerAgent,
) -> None:
    class Thief(Communicator):
        def get_global_model(self, **kwargs: Any) -> Any:
            return super().get_global_model(**{**kwargs, KEY: "Client2"})

    thief = StreamlinkClientCommunicator(Thief(server), server.objects.address, {})
    thief.get_configuration()
    with thief, pytest.raises(ObjectRefused, match="Client1"):
        thief.get_global_model()


def test_nobody_joins_under_a_name_without_the_token_of_its_configuration(
    server: StreamlinkServerAgent,
) -> None:
    stranger = joined(server, config=sl.LinkConfig(security=sl.SecurityConfig()))
    with stranger, pytest.raises(StreamlinkError, match="token"):
        stranger.get_global_model()


def test_a_client_asks_again_when_the_objects_of_the_server_were_started_again(
    server: StreamlinkServerAgent,
) -> None:
    class Late(Communicator):
        def get_global_model(self, **kwargs: Any) -> Any:
            found = super().get_global_model(**kwargs)
            if len(self.carried) == 1:
                server.objects.drop(found[1][KEY])
            return found

    client = StreamlinkClientCommunicator(Late(server), server.objects.address, {})
    client.get_configuration()
    with client:
        assert same(client.get_global_model(init_model=True), MODEL)
        assert len(client.carried) == 2


CHUNKS = {"grpc_configs": {"use_model_chunking": True}}


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"comm_configs": CHUNKS}, "use_model_chunking"),
        ({"comm_configs": {"s3_configs": {"enable_s3": True}}}, "s3_configs.enable_s3"),
        ({"comm_configs": {"compressor_configs": {"enable_compression": True}}}, "compress"),
        ({"comm_configs": {"proxystore_configs": {"enable_proxystore": True}}}, "proxystore"),
        ({"aggregator_kwargs": {"use_secure_agg": True}}, "use_secure_agg"),
    ],
)
def test_what_moves_models_by_other_means_is_refused_before_anything_starts(
    configs: Mapping[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        StreamlinkServerAgent(Agent(configs))


def test_a_client_that_is_set_to_chunks_is_refused_at_both_ends(
    server: StreamlinkServerAgent,
) -> None:
    with pytest.raises(ValueError, match="use_model_chunking"):
        StreamlinkClientCommunicator(Communicator(server), "x:1", CHUNKS["grpc_configs"])
    with pytest.raises(ModelError, match="use_model_chunking"):
        server.global_update("Client1", {}, blocking=True, _chunk_idx=0)
    with pytest.raises(ModelError, match="use_model_chunking"):
        server.get_parameters(blocking=True, _request_chunked=True)


def test_a_compressed_local_model_is_refused(server: StreamlinkServerAgent) -> None:
    with joined(server) as client, pytest.raises(TypeError, match="bytes"):
        client.update_global_model(b"compressed")


def test_the_certificates_of_appfl_are_used_where_it_has_tls(tmp_path: Path) -> None:
    names = ("root_certificate", "server_certificate", "server_certificate_key")
    files = {name: str(tmp_path / name) for name in names}
    assert link_config({**files, "use_ssl": False}).security == sl.SecurityConfig()
    theirs = {**files, "use_ssl": True}
    # A file that both sides share may have all of them: each side takes its own.
    assert link_config(theirs).security == sl.SecurityConfig(
        certificate=tmp_path / "server_certificate", key=tmp_path / "server_certificate_key"
    )
    at_client = link_config(theirs, dials="fl.example.org:8443").security
    assert at_client == sl.SecurityConfig(ca=tmp_path / "root_certificate")


@pytest.mark.parametrize(("address", "host"), [("fl.example.org:8443", "fl.example.org"),
                                               ("[::1]:8443", "::1")])  # fmt: skip
def test_without_a_root_certificate_the_public_authorities_vouch_for_the_host(
    address: str, host: str
) -> None:
    security = link_config({"use_ssl": True}, dials=address).security
    assert security == sl.SecurityConfig(server_name=host)


def test_certificates_that_are_given_as_bytes_are_kept_in_memory(
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match="as bytes"):
        link_config({"use_ssl": True, "root_certificate": b"pem"}, dials="x:1")
    make_certificates(tmp_path, ["127.0.0.1"], [])
    read = {name: (tmp_path / name).read_bytes()
            for name in ("server/certificate.pem", "server/key.pem", "ca/ca.pem")}  # fmt: skip
    at_server = {
        "use_ssl": True,
        "server_certificate": read["server/certificate.pem"],
        "server_certificate_key": read["server/key.pem"],
    }
    at_client = {"use_ssl": True, "root_certificate": read["ca/ca.pem"]}
    agent = Agent({"comm_configs": {"grpc_configs": at_server}})
    with StreamlinkServerAgent(agent) as server:
        with joined(server, grpc_configs=at_client) as client:
            assert same(client.get_global_model(), MODEL)
            key = client.private_file("secret")
            assert key.read_text() == "secret"
    assert not key.exists()


# --- the second line -------------------------------------------------------------------------


def aggregator(path: Path, model: Mapping[str, Any] = MODEL, **kwargs: Any) -> StreamlinkAggregator:
    return StreamlinkAggregator(model, {"store": str(path), **kwargs})


def test_the_first_model_is_appfls_own_until_the_store_has_one(tmp_path: Path) -> None:
    assert same(aggregator(tmp_path / "model").get_parameters(), MODEL)
    later = aggregator(tmp_path / "model", {"other": torch.zeros(1)})
    assert same(later.get_parameters(), MODEL)


def test_a_round_averages_into_the_store_with_equal_weights_or_by_samples(tmp_path: Path) -> None:
    updates = {"1": {"a": torch.zeros(4)}, "2": {"a": torch.full((4,), 4.0)}}
    equal = aggregator(tmp_path / "equal")
    assert same(equal.aggregate(updates), {"a": torch.full((4,), 2.0)})
    by_samples = aggregator(tmp_path / "samples", client_weights_mode="sample_size")
    by_samples.set_client_sample_size("1", 3)
    by_samples.set_client_sample_size("2", 1)
    assert same(by_samples.aggregate(updates), {"a": torch.ones(4)})


def test_an_asynchronous_update_moves_the_stored_model_by_alpha(tmp_path: Path) -> None:
    first = {"a": torch.zeros(4)}
    async_one = aggregator(tmp_path / "model", first, alpha=0.25)
    assert same(
        async_one.aggregate("1", {"a": torch.full((4,), 8.0)}), {"a": torch.full((4,), 2.0)}
    )


def test_an_asynchronous_update_counts_by_its_clients_share(tmp_path: Path) -> None:
    first, update = {"a": torch.full((4,), 10.0)}, {"a": torch.zeros(4)}
    equal = aggregator(tmp_path / "equal", first, alpha=0.8, num_clients=4)
    assert same(equal.aggregate("1", update), {"a": torch.full((4,), 8.0)})
    by_samples = aggregator(
        tmp_path / "samples", first, alpha=0.8, num_clients=2, client_weights_mode="sample_size"
    )
    by_samples.set_client_sample_size("1", 1)
    by_samples.set_client_sample_size("2", 3)
    assert same(by_samples.aggregate("2", update), {"a": torch.full((4,), 4.0)})


def test_a_model_that_is_replaced_is_read_to_its_end(tmp_path: Path) -> None:
    second = aggregator(tmp_path / "model")
    before = second.get_parameters()
    second.aggregate({"1": {name: each + 5 for name, each in MODEL.items()}})
    assert same(before, MODEL)


def test_what_the_aggregator_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="store is missing"):
        StreamlinkAggregator(None, {})
    with pytest.raises(ValueError, match="staleness_fn"):
        aggregator(tmp_path / "model", staleness_fn="polynomial")
    with pytest.raises(ValueError, match="not gradients"):
        aggregator(tmp_path / "model", gradient_based=True)


@pytest.mark.processes
def test_the_second_line_answers_with_what_is_stored(tmp_path: Path) -> None:
    class Second(Agent):
        def __init__(self) -> None:
            super().__init__()
            self.aggregator = aggregator(tmp_path / "model")

        def get_parameters(self, **kwargs: Any) -> Any:
            return self.aggregator.get_parameters()

        def global_update(self, client_id: str, local_model: Any, **kwargs: Any) -> Any:
            return self.aggregator.aggregate({client_id: local_model})

    with StreamlinkServerAgent(Second(), spool=tmp_path / "spool") as server:
        with joined(server) as client:
            assert same(client.get_global_model(), MODEL)
            update = {name: each + 2 for name, each in MODEL.items()}
            assert same(client.update_global_model(update)[0], update)
        assert isinstance(Communicator(server).get_global_model(), dict)


# --- tensors ---------------------------------------------------------------------------------

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_of_any_dtype_and_shape_is_read_as_it_is(dtype: torch.dtype) -> None:
    model = {"empty": torch.ones(0, 3), "scalar": torch.ones(()), "matrix": torch.ones(3, 5)}
    model = {name: each.to(dtype) for name, each in model.items()}
    tensors = Tensors(sl.stores.as_model(model))
    assert same(dict(tensors), model)


def test_a_source_is_closed_when_the_last_one_drops_its_tensors() -> None:
    closed = threading.Event()

    class Source:
        spec = sl.stores.as_model(MODEL).spec

        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            return ()

        def close(self) -> None:
            closed.set()

    tensors = Tensors(Source())
    assert not closed.is_set()
    del tensors
    assert closed.is_set()
