"""Tensors of every kind, staged or not, and their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from streamlink.stores.torch.model import TorchModel
from streamlink.stores.torch.tensors import _INTEGERS, _NAMES
from tests.support.models import random_bytes

__all__ = [
    "DTYPES",
    "STAGING",
    "WAYS",
    "Tensor",
    "both_ways",
    "bytes_of",
    "here",
    "model_of",
    "named",
    "some",
    "staged",
    "tensor_of",
    "tensors",
]

Tensor = Any

DTYPES = {name: dtype for dtype, name in _NAMES.items()}
STAGING = 32


def here(tensor: Tensor) -> bool:
    return False


def staged(tensor: Tensor) -> bool:
    return True


def some(tensor: Tensor) -> bool:
    return bool(tensor.dim() == 2)


WAYS = [here, staged, some]
both_ways = pytest.mark.parametrize("way", WAYS)


def model_of(tensors: Any, way: Callable[[Tensor], bool] = here) -> TorchModel:
    return TorchModel(tensors, staging_bytes=STAGING, _is_staged=way)


def bytes_of(tensor: Tensor) -> bytes:
    """Return a tensor's elements in C order, by PyTorch's own copy."""
    integers = tensor.detach().view(_INTEGERS[tensor.element_size()])  # else odd bools become 1
    return bytes(integers.contiguous().numpy().tobytes())


def tensor_of(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Return a tensor whose every byte is random, NaNs and odd bools among them."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = torch.tensor(list(random_bytes(count, seed)), dtype=torch.uint8)
    return data.view(dtype).view(shape)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Tensors of every dtype: 0-d, empty, sliced, transposed, stepped."""
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    tensor = tensor_of(draw(st.sampled_from(list(_NAMES))), tuple(shape), draw(st.integers(0, 9)))
    tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
    for dim in range(tensor.dim()):
        start, step = draw(st.integers(0, 1)), draw(st.integers(1, 2))
        tensor = tensor[(slice(None),) * dim + (slice(start, None, step),)]
    return tensor


named = st.lists(tensors(), max_size=4).map(lambda ts: {f"t{n}": t for n, t in enumerate(ts)})
