"""Norms in tiles against the gradients of each sample."""

import math
import weakref
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from streamlink.profiling.dp.norms import (
    MOST_ELEMENTS,
    embedding_norms,
    linear_norms,
    rms_norm_norms,
)


class Allocations(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make, as long as they live.

    Args:
        there: the tensors that were made before; what operations share with them is not counted.
    """

    def __init__(self, *there: Tensor) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: set[int] = set()
        for each in there:
            self._know(each, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_iter(made):
            if isinstance(each, Tensor):
                self._know(each, each.untyped_storage().nbytes())
        return made

    def _know(self, tensor: Tensor, nbytes: int) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)  # torch keeps one object for each; on "meta" all addresses are the same
        if key in self._seen:
            return
        self._seen.add(key)
        self.live += nbytes
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._forget, key, nbytes)

    def _forget(self, key: int, nbytes: int) -> None:
        self._seen.discard(key)
        self.live -= nbytes


def squares_of_each(layer: nn.Module, inputs: Tensor, backprops: Tensor) -> list[list[float]]:
    """Return the norm of each parameter's gradient for each sample, by autograd."""
    found: list[list[float]] = [[] for _ in layer.parameters()]
    for one, gradient in zip(inputs, backprops, strict=True):
        layer.zero_grad()
        layer(one).backward(gradient)
        for norms, parameter in zip(found, layer.parameters(), strict=True):
            assert parameter.grad is not None
            norms.append(float(parameter.grad.norm()))
    return found


@pytest.mark.parametrize(
    ("length", "d_in", "d_out"),
    [(5, 64, 96), (700, 16, 24), (33, 33, 1), (1, 8, 8)],
    ids=["pairs", "rows", "narrow", "one token"],
)
def test_the_norms_of_a_linear_layer_are_those_of_its_gradients(
    length: int, d_in: int, d_out: int
) -> None:
    torch.manual_seed(1)
    layer = nn.Linear(d_in, d_out)
    inputs, backprops = torch.randn(3, length, d_in), torch.randn(3, length, d_out)
    for ours, theirs in zip(
        linear_norms(layer, inputs, backprops),
        squares_of_each(layer, inputs, backprops),
        strict=True,
    ):
        assert ours.tolist() == pytest.approx(theirs, rel=1e-5)


def test_tiles_that_do_not_divide_the_length_lose_no_token() -> None:
    torch.manual_seed(1)
    length = math.isqrt(MOST_ELEMENTS) + 7
    layer = nn.Linear(2 * length, 2 * length, bias=False)  # so wide that pairs are cheaper
    inputs, backprops = torch.randn(1, length, 2 * length), torch.randn(1, length, 2 * length)
    gradient = backprops[0].T @ inputs[0]
    assert float(linear_norms(layer, inputs, backprops)[0]) == pytest.approx(
        float(gradient.double().norm()), rel=1e-5
    )


def test_tokens_that_repeat_add_up_and_padding_has_no_gradient() -> None:
    torch.manual_seed(1)
    layer = nn.Embedding(10, 6, padding_idx=0)
    tokens = torch.tensor([[1, 2, 1, 0], [3, 3, 3, 9]])
    backprops = torch.randn(2, 4, 6)
    (ours,) = embedding_norms(layer, tokens, backprops)
    (theirs,) = squares_of_each(layer, tokens, backprops)
    assert ours.tolist() == pytest.approx(theirs, rel=1e-5)


def test_the_norms_of_a_normalisation_are_those_of_its_gradient() -> None:
    torch.manual_seed(1)
    layer = nn.RMSNorm(12, eps=1e-6)
    named: Any = SimpleNamespace(weight=layer.weight, variance_epsilon=layer.eps)
    inputs, backprops = torch.randn(2, 9, 12), torch.randn(2, 9, 12)
    (ours,) = rms_norm_norms(named, inputs, backprops)
    (theirs,) = squares_of_each(layer, inputs, backprops)
    assert ours.tolist() == pytest.approx(theirs, rel=1e-5)


def test_a_weight_that_is_not_trained_has_no_norm() -> None:
    layer = nn.Linear(4, 4)
    layer.weight.requires_grad_(False)
    assert len(linear_norms(layer, torch.randn(2, 3, 4), torch.randn(2, 3, 4))) == 1


@pytest.mark.slow  # imports Opacus, which takes seconds
@pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]")
@pytest.mark.parametrize(("d_in", "d_out"), [(64, 128), (4224, 4224)], ids=["rows", "pairs"])
def test_buffers_at_4096_tokens_are_less_than_a_quarter_of_those_of_ghost_clipping(
    d_in: int, d_out: int
) -> None:
    from opacus.grad_sample.linear import compute_linear_norm_sample

    length = 4096
    with torch.device("meta"):  # where nothing is computed; what would be allocated is the same
        layer = nn.Linear(d_in, d_out, bias=False)
        inputs, backprops = torch.empty(1, length, d_in), torch.empty(1, length, d_out)
    there = (inputs, backprops, *layer.parameters())
    with Allocations(*there) as flash:
        linear_norms(layer, inputs, backprops)
    with Allocations(*there) as ghost:
        compute_linear_norm_sample(layer, [inputs], backprops)
    assert ghost.peak >= 2 * 4 * length**2  # two matrices at least, so the hook sees them
    assert flash.peak <= ghost.peak / 4
