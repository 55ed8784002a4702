"""Writes to torch tensors while a model over them is read: those that PyTorch counts are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlink.errors import SourceChanged
from streamlink.model.interfaces import Watched

torch = pytest.importorskip("torch")

from streamlink.stores.torch import TorchModel  # noqa: E402


def module() -> Any:
    built = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    built(torch.ones(2, 3)).sum().backward()
    return built


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "tensor"),
    [
        (lambda m: torch.optim.SGD(m[0].parameters(), lr=0.1).step(), "0.weight"),
        (lambda m: torch.optim.Adam(m[1].parameters(), lr=0.1).step(), "1.weight"),
        (lambda m: m(torch.ones(2, 3)), "1.num_batches_tracked"),
        (lambda m: m.load_state_dict(m.state_dict()), "0.weight"),
        (lambda m: m[0].bias.detach().zero_(), "0.bias"),
    ],
)
@pytest.mark.parametrize("staged", [False, True])
def test_a_counted_write_is_told_with_a_tensor_it_changed(
    change: Callable[[Any], object], tensor: str, staged: bool
) -> None:
    built = module()
    model = TorchModel(built, _is_staged=lambda _: staged)
    assert isinstance(model, Watched)
    check = model.watch()
    model.read(0, model.spec.nbytes)
    check()
    change(built)
    with pytest.raises(SourceChanged, match="was written to while it was read") as caught:
        check()
    assert caught.value.tensor == tensor
    model.watch()()


def test_a_model_received_into_the_tensors_is_a_change() -> None:
    model = TorchModel(module())
    check = model.watch()
    model.write(0, memoryview(bytes(4)))
    with pytest.raises(SourceChanged):
        check()


def test_what_pytorch_does_not_count_is_not_noticed() -> None:
    with torch.inference_mode():
        frozen = torch.ones(3)
    built = {"frozen": frozen, "w": torch.nn.Parameter(torch.ones(3))}
    check = TorchModel(built).watch()
    with torch.inference_mode():
        frozen.add_(1)
    built["w"].data.add_(1)
    built["w"].detach().numpy()[0] = 7
    check()
