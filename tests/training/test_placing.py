"""A module trains elsewhere and comes back to where it was; every device but the CPU does so."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from streamlink.training.placing import placed

pytestmark = pytest.mark.slow  # PyTorch

META = torch.device("meta")  # has no values, and so no GPU is needed to be somewhere else


def network() -> nn.Sequential:
    torch.manual_seed(1)
    made = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    made[2].weight = made[0].weight
    return made


def places(module: nn.Module) -> dict[str, int]:
    return {name: each.data_ptr() for name, each in module.state_dict().items()}


def test_on_the_cpu_nothing_moves() -> None:
    module = network()
    before = places(module)
    with placed(module, torch.device("cpu")):
        assert places(module) == before
    assert places(module) == before


def test_after_an_error_all_is_as_before() -> None:
    module = network()
    before, values = places(module), {k: v.clone() for k, v in module.state_dict().items()}
    parameters = list(module.parameters())
    with pytest.raises(KeyError):
        _fail_elsewhere(module)
    assert places(module) == before
    assert all(torch.equal(each, values[name]) for name, each in module.state_dict().items())
    assert all(a is b for a, b in zip(parameters, module.parameters(), strict=True))
    assert module[2].weight is module[0].weight


def test_what_was_trained_elsewhere_comes_back_into_the_same_memory() -> None:
    module = network()
    before, parameters = places(module), list(module.parameters())
    with placed(module, META):
        module.to_empty(device="cpu")  # other memory, with values that can be read
        assert not set(places(module).values()) & set(before.values())
        for each in module.state_dict().values():
            each.fill_(3)
        module[0].bias.grad = torch.ones(4)
    assert places(module) == before
    assert all(bool((each == 3).all()) for each in module.state_dict().values())
    assert all(a is b for a, b in zip(parameters, module.parameters(), strict=True))
    assert all(each.grad is None for each in parameters)


def _fail_elsewhere(module: nn.Module) -> None:
    with placed(module, META):
        assert {each.device.type for each in module.state_dict().values()} == {"meta"}
        raise KeyError
