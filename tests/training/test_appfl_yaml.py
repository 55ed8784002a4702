"""APPFL's files: the seeds' text loads, each key is in one table, and none is ignored silently."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import yaml

from streamlink.training.appfl_yaml import CLIENT_TABLE, SERVER_TABLE, read_client, read_server
from streamlink.training.settings import ClientSettings, ServerSettings, TrainingError

CONFIGS = Path(__file__).parent / "configs"
DOCUMENT = Path(__file__).parents[2] / "docs" / "training.md"
MiB = 1 << 20


def server(text: str, folder: Path) -> ServerSettings:
    (folder / "server.yaml").write_text(text)
    return read_server(folder / "server.yaml")


def client(text: str, folder: Path) -> ClientSettings:
    (folder / "client.yaml").write_text(text)
    return read_client(folder / "client.yaml")


def test_the_seeds_resnet_server_is_read_in_full() -> None:
    settings = read_server(CONFIGS / "server_resnet_dummy.yaml")
    trainer, model, comm = settings.order.trainer, settings.order.model, settings.comm
    assert (settings.num_clients, settings.num_rounds, settings.client_weights) == (2, 5, "equal")
    assert trainer.trainer == "VanillaTrainer"
    assert (trainer.mode, trainer.num_local_steps) == ("step", 10)
    assert (trainer.optim, trainer.optim_args) == ("Adam", {"lr": 0.01})
    assert (trainer.loss_fn_path, trainer.loss_fn) == ("./resources/loss/celoss.py", "CELoss")
    assert trainer.do_validation
    assert (trainer.train_batch_size, trainer.val_batch_size) == (16, 16)
    assert model is not None
    assert (model.path, model.name) == ("./resources/model/resnet.py", "ResNet18")
    assert (comm.server_uri, comm.use_ssl) == ("localhost:50051", False)
    assert (comm.use_model_chunking, comm.model_chunk_size) == (True, 10 * MiB)
    assert comm.max_message_size == 10 * MiB
    assert settings.log.file_of("server") == "./output/result_server.log"


def test_the_seeds_resnet_client_is_read_in_full() -> None:
    settings = read_client(CONFIGS / "client_1_resnet_dummy.yaml")
    assert (settings.client_id, settings.device) == ("Client1", "cpu")
    assert settings.data.name == "get_dummy_cifar10"
    assert settings.data.kwargs == {"num_clients": 2, "client_id": 0, "samples_per_client": 64}
    assert settings.log.file_of("Client1") == "./output/result_Client1.log"
    assert settings.comm.model_chunk_size == 10 * MiB


def test_the_seeds_language_model_is_read_in_full() -> None:
    settings = read_server(CONFIGS / "server_llm_dummy.yaml")
    assert settings.order.trainer.trainer == "LLMDummyTrainer"
    assert settings.order.model is not None
    assert settings.order.model.kwargs == {"model_name": "meta-llama/Llama-3.1-8B"}
    assert settings.num_rounds == 3
    comm = read_client(CONFIGS / "client_1_llm_dummy.yaml").comm
    assert (comm.model_chunk_size, comm.max_message_size) == (4 << 30, 100 * MiB)


def test_the_seeds_four_switches_are_read() -> None:
    settings = read_server(CONFIGS / "optimize_memory.yaml")
    assert settings.optimize_memory
    assert settings.comm.optimize_memory
    assert settings.order.optimize_memory
    assert settings.order.trainer.optimize_memory


@pytest.mark.parametrize(
    "place",
    [
        ("server_configs",),
        ("server_configs", "comm_configs", "grpc_configs"),
        ("client_configs",),
        ("client_configs", "train_configs"),
    ],
)
def test_each_switch_switches_its_own_component(place: tuple[str, ...], tmp_path: Path) -> None:
    loaded = yaml.safe_load((CONFIGS / "optimize_memory.yaml").read_text())
    section = loaded
    for name in place:
        section = section[name]
    section["optimize_memory"] = False
    settings = server(yaml.safe_dump(loaded), tmp_path)
    found = {
        ("server_configs",): settings.optimize_memory,
        ("server_configs", "comm_configs", "grpc_configs"): settings.comm.optimize_memory,
        ("client_configs",): settings.order.optimize_memory,
        ("client_configs", "train_configs"): settings.order.trainer.optimize_memory,
    }
    assert [each for each, is_on in found.items() if not is_on] == [place]


def test_a_client_has_switches_of_its_own(tmp_path: Path) -> None:
    settings = client(
        "optimize_memory: false\ntrain_configs: {optimize_memory: false}\n"
        "comm_configs: {grpc_configs: {optimize_memory: false}}",
        tmp_path,
    )
    assert (settings.optimize_memory, settings.optimize_trainer) == (False, False)
    assert settings.comm.is_whole
    assert client("client_id: A", tmp_path).optimize_memory is None


def test_an_empty_file_has_every_default(tmp_path: Path) -> None:
    assert server("", tmp_path) == ServerSettings()
    assert client("", tmp_path) == ClientSettings()


@pytest.mark.parametrize("name", ["num_clients", "scheduler_kwargs", "aggregator_kwargs"])
def test_the_number_of_clients_may_stand_at_three_places(name: str, tmp_path: Path) -> None:
    inner = "7" if name == "num_clients" else "{num_clients: 7}"
    assert server(f"server_configs: {{{name}: {inner}}}", tmp_path).num_clients == 7


def test_two_places_that_differ_are_both_named(tmp_path: Path) -> None:
    text = "server_configs: {num_clients: 2, scheduler_kwargs: {num_clients: 3}}"
    with pytest.raises(TrainingError, match=r"scheduler_kwargs.num_clients is 3, and .*nts"):
        server(text, tmp_path)


def test_what_has_no_meaning_here_is_reported_once_and_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = """
client_configs:
  comm_configs:
    compressor_configs: {enable_compression: True, lossy_compressor: SZ2Compressor}
  train_configs: {num_workers: 4, use_dp: False}
"""
    with caplog.at_level(logging.WARNING, "streamlink.training"):
        server(text, tmp_path)
    (record,) = caplog.records
    said = record.getMessage()
    assert said.count("compressor_configs") == said.count("num_workers") == 1
    assert "use_dp" not in said  # False changes nothing


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("server_configs: {num_global_epoch: 3}", "did you mean server_configs.num_global_epochs"),
        ("client_configs: {num_local_steps: 3}", "train_configs.num_local_steps"),
        ("surver_configs: {}", "there is no key 'surver_configs'"),
        ("client_id: A", "'client_id' is a key of the other role's file"),
        ("experiment_id:", "there is no key 'experiment_id'"),
        ("server_configs: 3", "server_configs is 3, and it has keys of its own"),
        (
            "server_configs: {num_global_epochs: 0}",
            "server_configs.num_global_epochs: input should",
        ),
        ("server_configs: {num_clients: two}", "server_configs.num_clients: input should be"),
        ("server_configs: {scheduler: AsyncScheduler}", "here it is SyncScheduler"),
        ("server_configs: {aggregator: FedAsyncAggregator}", "here it is FedAvgAggregator"),
        ("server_configs: {device: cuda}", "server_configs.device is 'cuda', and here it is cpu"),
        (
            "server_configs: {aggregator_kwargs: {client_weights_mode: random}}",
            "client_weights_mode: input should be 'equal' or 'sample_size', not 'random'",
        ),
        ("client_configs: {train_configs: {trainer: FedProx}}", "train_configs.trainer: input"),
        ("client_configs: {train_configs: {mode: batch}}", "train_configs.mode: input should be"),
        ("client_configs: {train_configs: {use_dp: True}}", "use_dp is True, and here it is False"),
        ("client_configs: {train_configs: {optim_args: 3}}", "train_configs.optim_args: input"),
        (
            "server_configs: {comm_configs: {grpc_configs: {max_message_size: 10 apples}}}",
            "grpc_configs.max_message_size: '10 apples' is not a size",
        ),
        (
            "server_configs: {comm_configs: {grpc_configs: {model_chunk_size: 100}}}",
            "grpc_configs.model_chunk_size: input should be greater",
        ),
        (
            "server_configs: {comm_configs: {grpc_configs: {use_authenticator: True}}}",
            "use_authenticator is True, and here it is False",
        ),
        ("- a list", "expected a mapping of settings"),
        ("a: [", "this is not YAML"),
        ("a: !!python/object/apply:os.system [true]", "this is not YAML"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_file_and_key(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as caught:
        server(text, tmp_path)
    assert words in str(caught.value)
    assert str(tmp_path / "server.yaml") in str(caught.value)


def test_each_key_stands_once_in_its_table() -> None:
    for table in (SERVER_TABLE, CLIENT_TABLE):
        keys = [row.key for row in table]
        assert len(keys) == len(set(keys))
        assert [row.key for row in table if bool(row.ours) == bool(row.why)] == []


def test_each_row_leads_to_a_setting_that_there_is() -> None:
    for table, kind in ((SERVER_TABLE, ServerSettings), (CLIENT_TABLE, ClientSettings)):
        for row in table:
            if row.ours:
                assert kind_at(kind, row.ours), row


def kind_at(kind: type, path: str) -> bool:
    settings = kind(model={}) if kind is ClientSettings else kind(order={"model": {}})
    for name in path.split("."):
        if name not in type(settings).model_fields:
            return False
        settings = getattr(settings, name)
    return True


def test_the_document_lists_each_row_of_the_table() -> None:
    text = DOCUMENT.read_text("utf-8")
    for row in (*SERVER_TABLE, *CLIENT_TABLE):
        assert f"`{row.key.removesuffix('.*')}`" in text, row.key
