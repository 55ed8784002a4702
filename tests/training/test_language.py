"""Language models: shapes of ours, folders, and names that are not on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("transformers") is None:
    pytest.skip("needs streamlink-fl[llm]", allow_module_level=True)

import torch

from streamlink.training.language import load_llm
from streamlink.training.models import state_bytes
from streamlink.training.settings import TrainingError

pytestmark = pytest.mark.slow  # transformers takes seconds to import


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test of this file asks the network, whoever runs it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_shape_of_ours_answers_with_a_row_for_each_token() -> None:
    module = load_llm("tiny", config={"vocab_size": 50})
    assert module(torch.zeros(2, 7, dtype=torch.long)).logits.shape == (2, 7, 50)


def test_a_shape_can_be_changed() -> None:
    small, deep = load_llm("tiny"), load_llm("tiny", config={"num_hidden_layers": 4})
    assert state_bytes(deep) > state_bytes(small)


def test_weights_have_the_dtype_that_was_asked_for() -> None:
    kinds = {each.dtype for each in load_llm("tiny", dtype="bfloat16").parameters()}
    assert kinds == {torch.bfloat16}


def test_a_folder_gives_its_weights_or_only_its_shape(tmp_path: Path) -> None:
    load_llm("tiny").save_pretrained(tmp_path / "model")
    folder = str(tmp_path / "model")
    stored, again = load_llm(folder), load_llm(folder)
    drawn = load_llm(folder, is_initial=False)
    for name, tensor in stored.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    assert state_bytes(drawn) == state_bytes(stored)
    name = "model.embed_tokens.weight"
    assert not torch.equal(drawn.state_dict()[name], stored.state_dict()[name])


def test_the_shape_alone_needs_no_weights(tmp_path: Path) -> None:
    load_llm("tiny").config.save_pretrained(tmp_path)
    assert state_bytes(load_llm(str(tmp_path), is_initial=False)) > 0
    with pytest.raises(TrainingError, match="no such model in that folder"):
        load_llm(str(tmp_path))


@pytest.mark.parametrize("is_initial", [True, False])
def test_a_name_that_is_not_on_this_machine_is_not_fetched_unasked(is_initial: bool) -> None:
    with pytest.raises(TrainingError, match=r"Llama-3.1-8B': no such model on this .*--download"):
        load_llm("meta-llama/Llama-3.1-8B", is_initial=is_initial)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dtype": "float33"}, "dtype 'float33' is none of PyTorch"),
        ({"config": {"num_hidden_layers": 10**9}}, "num_hidden_layers is 1000000000"),
        ({"model_name": "some/model", "config": {"vocab_size": 3}}, "config is for the shapes"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(TrainingError) as caught:
        load_llm(**arguments)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_pickled_checkpoint_is_not_loaded(tmp_path: Path) -> None:
    load_llm("tiny").config.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(TrainingError, match="a model with safetensors"):
        load_llm(str(tmp_path))
