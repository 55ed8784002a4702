"""Directories of transformers and PEFT that were moved load as they did where they came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamlink as sl
from streamlink.testing import run_job
from tests.scenarios.link.test_directories import pulled, pushed

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

# Their own libraries warn each other of what will be removed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def copied(source: Path, target: Path) -> str:
    sl.copy_model(source, target)
    return sl.digest_of(target)


ways = pytest.mark.parametrize("move", [pushed, pulled, copied])


def tiny() -> Any:
    torch.manual_seed(7)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def answers(model: Any) -> Any:
    with torch.no_grad():
        return model(torch.arange(12)[None]).logits


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    tiny().save_pretrained(tmp_path / "llama", max_shard_size="20KB")
    return tmp_path / "llama"


@ways
def test_a_model_of_transformers_loads_where_it_arrived(
    llama: Path, tmp_path: Path, move: Callable[[Path, Path], str]
) -> None:
    digest = move(llama, tmp_path / "target")
    assert digest == sl.digest_of(llama)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "target")
    assert torch.equal(answers(loaded), answers(tiny()))
    assert (tmp_path / "target" / "generation_config.json").exists()


def test_the_model_of_a_server_loads_after_its_rounds(llama: Path, tmp_path: Path) -> None:
    store = sl.open_store(tmp_path / "store")
    sl.copy_model(llama, store)
    executor = sl.StreamingExecutor(lambda tensor, start, values: values * 2)
    run_job(store, {"site-1": executor}, sl.RoundConfig(min_clients=1, num_rounds=2))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "store")
    before = tiny().state_dict()
    assert all(torch.equal(each, before[name] * 4) for name, each in loaded.state_dict().items())


@ways
def test_an_adapter_loads_where_it_arrived_and_after_rounds(
    tmp_path: Path, move: Callable[[Path, Path], str]
) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(9)
    config = peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    adapter = peft.get_peft_model(tiny(), config)
    adapter.save_pretrained(tmp_path / "adapter")
    move(tmp_path / "adapter", tmp_path / "target")
    loaded = peft.PeftModel.from_pretrained(tiny(), tmp_path / "target")
    assert torch.equal(answers(loaded), answers(adapter))
    executor = sl.StreamingExecutor(lambda tensor, start, values: values * 2)
    run_job(
        sl.open_store(tmp_path / "target"),
        {"site-1": executor},
        sl.RoundConfig(min_clients=1, num_rounds=1),
    )
    trained = peft.PeftModel.from_pretrained(tiny(), tmp_path / "target").state_dict()
    before = {name: each for name, each in adapter.state_dict().items() if "lora" in name}
    assert before
    assert all(torch.equal(trained[name], each * 2) for name, each in before.items())
