"""Modules: received into their own parameters, tied weights, autograd, torn targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from streamlink.errors import ModelError, StoreError, TornModel
from streamlink.model.copy import copy_model
from streamlink.stores.safetensors import SafetensorsStore
from streamlink.stores.torch.model import TorchModel
from tests.support.models import content, fill, random_bytes
from tests.support.torch_tensors import STAGING, Tensor, both_ways, bytes_of, model_of, staged

# --- modules ----------------------------------------------------------------


class Net(torch.nn.Module):
    """A tied embedding, a batch norm with its counter, and a buffer that does not travel."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 7)
        self.head.weight = self.embed.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.embed(tokens)))


@both_ways
def test_a_module_is_received_into_its_own_parameters(
    tmp_path: Path, way: Callable[[Tensor], bool]
) -> None:
    ours, theirs = Net(), Net()
    theirs(torch.arange(7))  # so that the batch norm has counted
    store = SafetensorsStore(tmp_path)
    source = model_of(theirs, way)
    copy_model(source, store.begin(source.spec))
    weight = ours.embed.weight
    copy_model(store.open(), model_of(ours, way))
    assert ours.embed.weight is weight
    assert ours.norm.num_batches_tracked == 1
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)
    assert torch.equal(ours.eval()(torch.arange(7)), theirs.eval()(torch.arange(7)))


def test_tied_weights_travel_once_under_the_first_name() -> None:
    model = model_of(Net())
    names = [tensor.name for tensor in model.spec.tensors]
    assert model.tied == {"head.weight": "embed.weight"}
    assert "head.weight" not in names
    assert "scratch" not in names
    assert names[-1] == "head.bias"


def test_empty_tensors_are_not_tied() -> None:
    assert model_of({"a": torch.zeros(0), "b": torch.zeros(0)}).tied == {}


def test_a_parameter_keeps_its_gradient_and_can_be_trained_on() -> None:
    net = Net()
    net(torch.arange(7)).sum().backward()
    copy_model(model_of(Net()), model_of(net))
    assert net.embed.weight.grad is not None
    assert net.embed.weight.is_leaf
    net(torch.arange(7)).sum().backward()


@both_ways
@pytest.mark.parametrize("begins_before", [True, False])
def test_autograd_notices_that_values_were_replaced(
    way: Callable[[Tensor], bool], begins_before: bool
) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    model, new = model_of({"w": weight}, way), memoryview(bytes(8))
    if begins_before:
        model.write(0, new[:4])
    result = (weight * weight).sum()
    model.write(0, new)
    model.commit()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@both_ways
def test_inference_tensors_are_filled(way: Callable[[Tensor], bool]) -> None:
    with torch.inference_mode():
        tensor = torch.zeros(2, 3).t()
    model = model_of({"w": tensor}, way)
    fill(model, bytes_of(torch.ones(3, 2)), [5])
    model.commit()
    assert torch.equal(tensor, torch.ones(3, 2))


@pytest.mark.parametrize(
    "move",
    [
        lambda net: net.half(),
        lambda net: net.load_state_dict(Net().state_dict(), assign=True),
        lambda net: setattr(net, "embed", None),
    ],
    ids=["half", "assign", "removed"],
)
def test_a_module_that_has_other_memory_now_is_refused(move: Callable[[Any], None]) -> None:
    net = Net()
    model = model_of(net)
    move(net)
    with pytest.raises(ModelError, match="make a new TorchModel"):
        model.read(0, 1)
    with pytest.raises(ModelError, match=r"tensor 'embed\.weight' has other memory than"):
        model.write(0, memoryview(b"x"))
    assert not model.is_torn


def test_named_parameters_that_were_cast_are_refused() -> None:
    net = Net()
    model = model_of(dict(net.named_parameters()))
    net.half()
    with pytest.raises(ModelError, match="make a new TorchModel"):
        model.read(0, 1)


def test_what_a_hook_copies_is_refused() -> None:
    net = Net()

    def copied(module: Any, state: dict[str, Tensor], *_: Any) -> None:
        state["head.bias"] = state["head.bias"].clone()

    net.register_state_dict_post_hook(copied)
    with pytest.raises(ModelError, match=r"'head.bias' is a copy that state_dict\(\) made"):
        model_of(net)


def test_extra_state_is_refused_with_what_to_do() -> None:
    class Extra(Net):
        def get_extra_state(self) -> dict[str, int]:
            return {"step": 3}

    with pytest.raises(ModelError, match=r"'_extra_state' is a dict, not a tensor.*isinstance"):
        model_of(Extra())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_module_on_a_gpu_is_read_and_filled_there() -> None:
    ours, theirs = Net().cuda(), Net()
    wide = torch.zeros(5, 3, dtype=torch.bfloat16, device="cuda").t()
    copy_model(model_of(theirs), TorchModel(ours, staging_bytes=STAGING))
    assert torch.equal(ours.head.weight.cpu(), theirs.head.weight)
    fill(TorchModel({"w": wide}, staging_bytes=STAGING), random_bytes(30), [7, 8, 20])
    assert bytes_of(wide.cpu()) == random_bytes(30)
    assert content(TorchModel({"w": wide}), 7) == random_bytes(30)


# --- torn targets -----------------------------------------------------------


@both_ways
def test_tensors_are_torn_between_first_write_and_commit(way: Callable[[Tensor], bool]) -> None:
    model = model_of({"a": torch.zeros(2), "b": torch.zeros(2, 1)}, way)
    model.write(8, memoryview(b"1234"))
    assert model.is_torn
    with pytest.raises(TornModel, match="receive the model again"):
        model.read(0, 4)
    model.write(0, memoryview(b"abcdefgh"))
    model.write(12, memoryview(b"5678"))
    model.commit()
    assert content(model) == b"abcdefgh12345678"


@both_ways
def test_a_discarded_transfer_leaves_the_tensors_torn(way: Callable[[Tensor], bool]) -> None:
    model = model_of({"a": torch.zeros(2), "b": torch.zeros(2, 1)}, way)
    model.write(0, memoryview(b"1234"))
    model.discard()
    assert model.is_torn
    with pytest.raises(StoreError, match=r"0 of 16 bytes.*byte 0 of tensor 'a'"):
        model.commit()
    fill(model, bytes(16), [])
    model.commit()
    assert content(model) == bytes(16)


def test_nothing_written_tears_nothing() -> None:
    model = model_of({"w": torch.zeros(2)})
    model.write(3, memoryview(b""))
    model.discard()
    assert not model.is_torn


def test_the_staging_buffer_is_held_during_a_transfer_only() -> None:
    model = model_of({"w": torch.zeros(2)}, staged)
    model.write(0, memoryview(bytes(8)))
    (part,) = model._parts
    assert part._staging.nbytes == STAGING  # type: ignore[union-attr]
    model.commit()
    assert part._staging is None  # type: ignore[union-attr]
