"""The models that are trained: ours by name, or the operator's from a file.

A client builds what a server names, so the size is bounded before the memory is taken: the model is
made without memory first (PyTorch's device ``meta``), and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from streamlink.config import parse_size
from streamlink.training.code import CodeFolder
from streamlink.training.language import load_llm
from streamlink.training.names import called, resolve
from streamlink.training.networks import CNN, ResNet18
from streamlink.training.settings import ModelSettings, TrainingError

__all__ = ["MODELS", "Synthetic", "load_model", "state_bytes"]

_ROW = "client_configs.model_configs"

_MAX_TENSORS = 1 << 17  # a server may name this model: no order makes a client count for hours


class Synthetic(nn.Module):
    """Float32 numbers of a given size, for measurements of transport alone; it computes nothing.

    Args:
        nbytes: its size, such as ``"3GB"``; rounded down to whole numbers.
        tensors: into how many tensors of nearly the same size it is divided.
        is_filled: draw the numbers from torch's generator; else they are whatever is there.
    """

    def __init__(self, nbytes: int | str = "64MiB", tensors: int = 1, is_filled: bool = True):
        super().__init__()
        count = parse_size(nbytes) // 4
        if not 1 <= tensors <= min(count, _MAX_TENSORS):
            most = min(count, _MAX_TENSORS)
            raise ValueError(f"tensors is {tensors}; for {nbytes} it is between 1 and {most}")
        starts = [count * index // tensors for index in range(tensors + 1)]
        lengths = [after - before for before, after in itertools.pairwise(starts)]
        self.tensors = nn.ParameterList(torch.empty(length) for length in lengths)
        if is_filled:
            with torch.no_grad():
                for each in self.tensors:
                    each.uniform_(-1, 1)


MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "resnet18": ResNet18,
    "cnn": CNN,
    "llm": load_llm,
    "synthetic": Synthetic,
}
"""Models of ours, by name."""


def load_model(
    settings: ModelSettings,
    *,
    code: CodeFolder | None = None,
    max_bytes: int | None = None,
    is_initial: bool = True,
    downloads: bool = False,
    row: str = _ROW,
) -> nn.Module:
    """Return the model that ``settings`` name, on the CPU.

    Args:
        settings: which model.
        code: the operator's files; None: none is loaded.
        max_bytes: the largest state (bytes); None: no bound. The operator's own code may take more
            while it runs: only what it returns is counted, where it cannot be made without memory.
        is_initial: with the weights that a job begins with. False: they arrive later, so weights of
            the Hub are not read and synthetic ones are not drawn.
        downloads: whether files of the Hugging Face Hub that are not on this machine are fetched.
        row: of the configuration, for errors.

    Raises:
        TrainingError: there is no such model, it cannot be made, or it is too large.
    """
    make = resolve(settings.name, settings.path, MODELS, code or CodeFolder(), row)
    kwargs = dict(settings.kwargs)
    if make is load_llm:
        kwargs |= {"is_initial": is_initial, "downloads": downloads}
    if make is Synthetic:
        kwargs |= {"is_filled": is_initial}
    if max_bytes is not None:
        _require_small(_outline(make, kwargs, row), settings, max_bytes, row)
    module = called(make, kwargs, row)
    if not isinstance(module, nn.Module):
        raise TrainingError(
            f"{row}: {settings.name!r} is a {type(module).__name__}; it must be a torch.nn.Module"
        )
    if max_bytes is not None:
        _require_small(module, settings, max_bytes, row)
    return module


def state_bytes(module: nn.Module) -> int:
    """Return the size of a module: parameters and buffers, tied ones once (bytes)."""
    tensors = itertools.chain(module.parameters(), module.buffers())
    return sum(each.numel() * each.element_size() for each in tensors)


def _outline(make: Callable[..., Any], kwargs: Mapping[str, Any], row: str) -> nn.Module | None:
    """Return the model without memory; None where the operator's own code cannot make that."""
    outlined = {**kwargs, "is_initial": False} if make is load_llm else kwargs
    is_ours = make in MODELS.values()
    try:
        with torch.device("meta"):
            outline = called(make, outlined, row)
    except TrainingError:
        if is_ours:
            raise
        return None
    return outline if isinstance(outline, nn.Module) else None


def _require_small(
    module: nn.Module | None, settings: ModelSettings, max_bytes: int, row: str
) -> None:
    if module is not None and (nbytes := state_bytes(module)) > max_bytes:
        raise TrainingError(
            f"{row}: {settings.name!r} has {nbytes} bytes, and this client takes at most "
            f"{max_bytes}; raise --max-model-bytes, or name a smaller model"
        )
