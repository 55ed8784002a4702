"""What a framework's model is received into: a module's own tensors where they fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamlink import copy_model
from streamlink.integrations.tensors import whole
from streamlink.integrations.torch_models import IntoTensors, Tensors
from streamlink.objects import ObjectServer
from tests.support.collecting import CollectingSeconds, collecting_only_there, in_cycle

torch = pytest.importorskip("torch", reason="needs PyTorch")


def tied(value: float) -> Any:
    module = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 3))
    module[1].weight = module[0].weight
    torch.nn.init.constant_(module[0].weight, value)
    return module


def test_tied_weights_arrive_under_all_their_names_and_in_the_modules_own_memory() -> None:
    module, into = tied(1.0), IntoTensors(tied(0.0))
    copy_model(whole(module.state_dict()), into)
    assert list(into.tensors) == ["0.weight", "1.weight", "1.bias"]
    assert all(torch.equal(each, module.state_dict()[name]) for name, each in into.tensors.items())
    target = IntoTensors(own := tied(0.0))
    copy_model(whole(module.state_dict()), target)
    assert target.tensors["0.weight"].data_ptr() == own[0].weight.data_ptr()
    own.load_state_dict(target.tensors)
    assert torch.equal(own[1].weight, module[1].weight)


def test_a_module_is_filled_in_place_and_another_model_gets_new_tensors() -> None:
    module, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    into = IntoTensors(module)
    copy_model(whole(other.state_dict()), into)
    assert torch.equal(module.weight, other.weight)
    assert into.tensors["weight"].data_ptr() == module.weight.data_ptr()
    larger = torch.nn.Linear(4, 3)
    copy_model(whole(larger.state_dict()), into)
    assert torch.equal(into.tensors["weight"], larger.weight)
    assert torch.equal(module.weight, other.weight), "it stays"


def test_a_model_that_the_collector_finds_inside_the_shelf_changes_nothing_there() -> None:
    server, model = ObjectServer(), {"w": np.zeros(3)}
    server.put(model, ttl=CollectingSeconds(60))
    with collecting_only_there():
        in_cycle(Tensors(server.open(server.put(model, reads=1))))
        server.put(model)
    assert len(server) == 2
    server.close()
