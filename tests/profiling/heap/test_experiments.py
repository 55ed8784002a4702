"""Settings of the experiments: sizes, and options that are refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind
from streamlink.profiling.heap.experiments import (
    changed,
    default_client,
    default_server,
    llama_config,
)


def parameters(config: dict[str, int]) -> int:
    """Return the parameters of a Llama of that configuration, counted matrix by matrix."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = width // config["num_attention_heads"]
    narrow = head * config["num_key_value_heads"]
    layer = 2 * width * width + 2 * width * narrow + 3 * width * inner + 2 * width
    ends = 2 * config["vocab_size"] * width + width
    return ends + config["num_hidden_layers"] * layer


@given(st.integers(1 << 21, 1 << 34))
def test_a_language_model_is_never_larger_than_asked_for_and_not_much_smaller(nbytes: int) -> None:
    size = 4 * parameters(llama_config(nbytes))
    assert size <= nbytes
    assert size > nbytes / 3


def test_a_gigabyte_is_met_within_a_tenth() -> None:
    assert 0.9e9 < 4 * parameters(llama_config(10**9)) <= 1e9


def job(kind: Kind = Kind.SYNTHETIC) -> Experiment:
    return Experiment(kind=kind, server=default_server(kind), client=default_client(kind))


def test_changes_are_made_at_both_ends() -> None:
    other = changed(job(), clients=3, rounds=7, chunk_bytes=1 << 20, message_bytes=1 << 22)
    assert (other.server.num_clients, other.server.num_rounds) == (3, 7)
    for comm in (other.server.comm, other.client.comm):
        assert (comm.model_chunk_size, comm.max_message_size) == (1 << 20, 1 << 22)


def test_without_changes_it_is_the_same() -> None:
    assert changed(job()) == job()


def test_a_value_that_is_not_allowed_is_named() -> None:
    with pytest.raises(ExperimentError, match=r"model_chunk_size = 5: .*greater"):
        changed(job(), chunk_bytes=5)


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        (Kind.RESNET, {"model_bytes": 5}, "--model-size"),
        (Kind.LLM, {"tensors": 2}, "--tensors"),
        (Kind.MNIST, {"model_name": "tiny"}, "--model-name"),
    ],
)
def test_an_option_of_another_experiment_is_refused(
    kind: Kind, options: dict[str, Any], word: str
) -> None:
    with pytest.raises(ExperimentError, match=f"{word} is no option of {kind}"):
        default_server(kind, **options)


@pytest.mark.parametrize("kind", [Kind.CIFAR10, Kind.MNIST])
def test_data_is_never_downloaded_and_dummy_data_is_used_only_when_asked_for(kind: Kind) -> None:
    with pytest.raises(ExperimentError, match="--data DIR"):
        default_client(kind)
    assert default_client(kind, data=Path("here")).data.name == kind.value


def test_dummy_images_stand_for_cifar10_when_asked_for() -> None:
    assert default_client(Kind.CIFAR10, data=Path("dummy")).data.name == "dummy_cifar10"
    with pytest.raises(ExperimentError, match="no dummy images of MNIST"):
        default_client(Kind.MNIST, data=Path("dummy"))
