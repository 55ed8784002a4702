"""Per-sample gradient norms in tiles: the buffers of ``flash_fsdp`` are small whatever the length.

The gradient of a linear layer for one sample is ``Σ_t g_t a_tᵀ`` over its tokens (``a``: what went
in, ``g``: the gradient of what came out). Its squared norm has two formulas, and neither needs a
``T × T`` buffer:

- *pairs*: ``Σ_st (g_s·g_t)(a_s·a_t)``, a tile of tokens against a tile of tokens; ``O(T²·(d_in +
  d_out))`` work. Ghost clipping computes the same sum from two whole ``T × T`` matrices.
- *rows*: the gradient itself, some of its rows at a time, each block squared, added and forgotten;
  ``O(T·d_in·d_out)`` work.

The cheaper one is taken. All sums are in float32 or better, also where the model computes in bf16:
a norm that is rounded down lets a gradient through that is longer than the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

__all__ = [
    "MOST_ELEMENTS",
    "MOST_ELEMENTS_ON_GPU",
    "NormSampler",
    "embedding_norms",
    "linear_norms",
    "most_elements",
    "rms_norm_norms",
]

MOST_ELEMENTS = 1 << 18
"""How many float32 elements one buffer may have on a CPU, for all samples together: 1 MiB, which
its cache holds."""
MOST_ELEMENTS_ON_GPU = 1 << 22
"""On a GPU: 16 MiB. Each tile costs the start of some kernels, and with 1 MiB these took 27 times
as long as a step of ghost clipping (1 B parameters, 1024 tokens, H100)."""

NormSampler = Callable[[nn.Module, Tensor, Tensor], list[Tensor]]
"""Returns the norms, one for each sample, of each trainable parameter of a layer, in their order.

Takes the layer, its input (samples first), and the gradient of its output.
"""


def linear_norms(layer: nn.Linear, inputs: Tensor, backprops: Tensor) -> list[Tensor]:
    """Return the norms of weight and bias of a linear layer."""
    a, g = _with_time(inputs), _with_time(backprops)
    norms = []
    if layer.weight.requires_grad:
        squares = _rows(a, g) if _is_rows_cheaper(a, g) else _pairs(a, g)
        norms.append(_root(squares))
    if layer.bias is not None and layer.bias.requires_grad:
        total = g.new_zeros(g.shape[0], g.shape[2], dtype=torch.float32)
        for tokens in _tiles(g.shape[1], most_elements(g) // (g.shape[0] * g.shape[2])):
            total += g[:, tokens].float().sum(dim=1)
        norms.append(total.norm(dim=1))
    return norms


def embedding_norms(layer: nn.Embedding, inputs: Tensor, backprops: Tensor) -> list[Tensor]:
    """Return the norms of the weight of an embedding: tokens that repeat add up first.

    A padding token has no gradient.
    """
    g = _with_time(backprops)
    norms = [
        _token_norm(tokens, each, layer.padding_idx)
        for tokens, each in zip(inputs.reshape(len(inputs), -1), g, strict=True)
    ]
    return [torch.stack(norms)] if layer.weight.requires_grad else []


def rms_norm_norms(layer: nn.Module, inputs: Tensor, backprops: Tensor) -> list[Tensor]:
    """Return the norms of the scale of a normalisation by the root mean square."""
    if not layer.weight.requires_grad:
        return []
    a, g = _with_time(inputs), _with_time(backprops)
    epsilon = float(layer.variance_epsilon)
    total = g.new_zeros(g.shape[0], g.shape[2], dtype=torch.float32)
    for tokens in _tiles(g.shape[1], most_elements(g) // (g.shape[0] * g.shape[2])):
        tile = a[:, tokens].float()
        scale = tile.square().mean(dim=-1, keepdim=True).add_(epsilon).rsqrt_()
        # Rounded as the layer rounds it, so that in bf16, too, it is this layer's own gradient.
        normal = (tile * scale).to(a.dtype).float()
        total += normal.mul_(g[:, tokens]).sum(dim=1)
    return [total.norm(dim=1)]


def most_elements(tensor: Tensor) -> int:
    """Return how many float32 elements one buffer may have where a tensor is."""
    return MOST_ELEMENTS_ON_GPU if tensor.is_cuda else MOST_ELEMENTS


def _is_rows_cheaper(a: Tensor, g: Tensor) -> bool:
    length, d_in, d_out = a.shape[1], a.shape[2], g.shape[2]
    # Pairs are symmetric: half of them are computed.
    return bool(d_in * d_out <= length * (d_in + d_out) / 2)


def _rows(a: Tensor, g: Tensor) -> Tensor:
    samples, length, width = a.shape
    squares = a.new_zeros(samples, dtype=torch.float64)
    most = most_elements(a)
    for rows in _tiles(g.shape[2], most // (samples * width)):
        count = rows.stop - rows.start
        tokens_at_once = most // (samples * max(width, count))
        block = a.new_zeros(samples, count, width, dtype=torch.float32)
        for tokens in _tiles(length, tokens_at_once):
            block.baddbmm_(g[:, tokens, rows].float().transpose(1, 2), a[:, tokens].float())
        squares += block.square_().sum(dim=(1, 2), dtype=torch.float64)
    return squares


def _pairs(a: Tensor, g: Tensor) -> Tensor:
    samples, length, _ = a.shape
    squares = a.new_zeros(samples, dtype=torch.float64)
    widest, most = max(a.shape[2], g.shape[2]), most_elements(a)
    at_once = min(math.isqrt(most // samples), most // (samples * widest))
    for first in _tiles(length, at_once):
        a_first, g_first = a[:, first].float(), g[:, first].float()
        for second in _tiles(length, at_once, begin=first.start):
            products = g_first @ g[:, second].float().transpose(1, 2)
            products *= a_first @ a[:, second].float().transpose(1, 2)
            sums = products.sum(dim=(1, 2), dtype=torch.float64)
            squares += sums if second.start == first.start else 2 * sums
    return squares


def _token_norm(tokens: Tensor, g: Tensor, padding: int | None) -> Tensor:
    different, places = torch.unique(tokens, return_inverse=True)
    square = g.new_zeros((), dtype=torch.float64)
    for columns in _tiles(g.shape[1], most_elements(g) // len(tokens)):
        width = columns.stop - columns.start
        sums = g.new_zeros(len(different), width, dtype=torch.float32)
        sums.index_add_(0, places, g[:, columns].float())
        if padding is not None:
            sums[different == padding] = 0
        square += sums.square_().sum(dtype=torch.float64)
    return _root(square)


def _with_time(tensor: Tensor) -> Tensor:
    """Return it as samples × tokens × features; a sample may have one token, or a picture's."""
    return tensor.reshape(tensor.shape[0], -1, tensor.shape[-1])


def _tiles(length: int, at_once: int, begin: int = 0) -> Iterator[slice]:
    step = max(1, at_once)
    for start in range(begin, length, step):
        yield slice(start, min(start + step, length))


def _root(squares: Tensor) -> Tensor:
    return squares.clamp(min=0).sqrt().float()  # below zero by rounding only
