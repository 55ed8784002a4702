"""What a client trains on: samples in memory, from a seed, a folder or the operator's code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from streamlink.training.code import CodeFolder
from streamlink.training.names import called, resolve
from streamlink.training.settings import DataSettings, TrainingError

__all__ = ["DATA", "Samples", "dummy_cifar10", "dummy_tokens", "load_data"]

_ROW = "data_configs"
_SEED, _VALIDATION_SEED = 42, 1000
_VALIDATION_SAMPLES = 32


@dataclass(frozen=True, slots=True)
class Samples:
    """Inputs and labels of the same number of samples.

    ``transform`` turns a batch of stored inputs, such as bytes, into what a model takes.
    """

    inputs: Tensor
    labels: Tensor
    transform: Callable[[Tensor], Tensor] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def batches(
        self, size: int, generator: torch.Generator | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all samples once, ``size`` at a time; in a drawn order with a ``generator``."""
        order = torch.arange(len(self))
        if generator is not None:
            order = torch.randperm(len(self), generator=generator)
        for start in range(0, len(self), size):
            chosen = order[start : start + size]
            inputs = self.inputs[chosen]
            yield (self.transform(inputs) if self.transform else inputs), self.labels[chosen]


def dummy_cifar10(seed: int = _SEED, samples: int = 64, num_classes: int = 10, **_: Any) -> Samples:
    """Return images of CIFAR-10's shape with random pixels in [0, 1) and random labels.

    Inputs are float32 of shape (samples, 3, 32, 32), labels int64. Equal seeds give equal samples.
    """
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(samples, 3, 32, 32, generator=generator)
    return Samples(inputs, torch.randint(0, num_classes, (samples,), generator=generator))


def dummy_tokens(
    seed: int = _SEED, samples: int = 16, length: int = 32, vocab_size: int = 256
) -> Samples:
    """Return random tokens; the label of each is the token after it. int64, (samples, length)."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocab_size, (samples, length + 1), generator=generator)
    return Samples(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def _dummy_cifar10(
    num_clients: int = 1, client_id: int = 0, samples_per_client: int = 64, **_: Any
) -> tuple[Samples, Samples]:
    """Return the samples of one client, and the validation samples that all clients share."""
    _require_index(client_id, num_clients)
    return (
        dummy_cifar10(_SEED + client_id, samples_per_client),
        dummy_cifar10(_VALIDATION_SEED, _VALIDATION_SAMPLES),
    )


def _dummy_tokens(
    num_clients: int = 1, client_id: int = 0, **sizes: Any
) -> tuple[Samples, Samples]:
    _require_index(client_id, num_clients)
    return dummy_tokens(_SEED + client_id, **sizes), dummy_tokens(_VALIDATION_SEED, **sizes)


def _require_index(client_id: int, num_clients: int) -> None:
    if not 0 <= client_id < num_clients:
        raise TrainingError(
            f"client_id is {client_id}, and num_clients {num_clients}; it counts from 0"
        )


def _cifar10(**kwargs: Any) -> tuple[Samples, Samples]:
    from streamlink.training.image_files import cifar10

    return cifar10(**kwargs)


def _mnist(**kwargs: Any) -> tuple[Samples, Samples]:
    from streamlink.training.image_files import mnist

    return mnist(**kwargs)


DATA: Mapping[str, Callable[..., tuple[Samples, Samples]]] = {
    "dummy_cifar10": _dummy_cifar10,
    "dummy_tokens": _dummy_tokens,
    "cifar10": _cifar10,
    "mnist": _mnist,
}
"""Data of ours, by name: each returns training and validation samples of one client."""


def load_data(
    settings: DataSettings, *, code: CodeFolder | None = None, row: str = _ROW
) -> tuple[Samples, Samples | None]:
    """Return the training and the validation samples of one client.

    Raises:
        TrainingError: there is no such data, or it cannot be read.
    """
    make = resolve(settings.name, settings.path, DATA, code or CodeFolder(), row)
    made = called(make, settings.kwargs, row)
    if not isinstance(made, tuple) or len(made) != 2:
        raise TrainingError(f"{row}: {settings.name!r} must return (training, validation) data")
    train, validation = made
    return _samples(train, row), None if validation is None else _samples(validation, row)


def _samples(given: Any, row: str) -> Samples:
    """Return data of the operator's own, any sequence of (input, label), as samples."""
    if isinstance(given, Samples):
        if not len(given):
            raise TrainingError(f"{row}: the data has no sample")
        return given
    try:
        pairs = list(itertools.islice(iter(given[i] for i in range(len(given))), len(given)))
        inputs = torch.stack([torch.as_tensor(each) for each, _ in pairs])
        return Samples(inputs, torch.as_tensor([int(label) for _, label in pairs]))
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        raise TrainingError(
            f"{row}: the data is no sequence of (input, label) of one shape: {error}"
        ) from error
