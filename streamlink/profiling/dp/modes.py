"""The three modes: one training step each, on the same model, batches and optimiser.

The model is sharded by Opacus' ``FSDP2Wrapper`` in all three, so that what differs is the privacy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping_fsdp import (
    GradSampleModuleFastGradientClippingFSDP,
)
from opacus.optimizers.fsdpoptimizer_fast_gradient_clipping import (
    FSDPOptimizerFastGradientClipping,
)
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from opacus.utils.fsdp_utils import FSDP2Wrapper
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy

from streamlink.profiling.dp.experiment import ExperimentError, Mode
from streamlink.profiling.dp.flash import FlashClipping

__all__ = ["Privacy", "Trainer", "refuse_tied", "trainer"]

Batch = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Privacy:
    """How the gradients of a step are made private; ignored without privacy."""

    sigma: float = 1.0
    """Standard deviation of the noise, in units of ``max_grad_norm``."""
    max_grad_norm: float = 1.0
    """The bound of each sample's gradient."""
    seed: int | None = None
    """Of the noise; ``None``: from the system. Whoever knows it can subtract the noise, so a seed
    is for measuring and for tests. On a CPU torch's generator has 2^32 streams and is no
    cryptographic one: epsilon holds against those who do not search for the stream."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """A model with its optimiser, ready to train."""

    model: nn.Module
    step: Callable[[Batch], Tensor]
    """Trains on one batch of this rank; returns its mean loss."""


def trainer(
    mode: Mode,
    model: nn.Module,
    samples: int,
    *,
    learning_rate: float,
    privacy: Privacy,
    dtype: torch.dtype = torch.bfloat16,
) -> Trainer:
    """Shard ``model`` over the ranks of the default process group, and make its training step.

    Args:
        mode: how the gradients are clipped.
        model: a classifier of ``transformers``; it is changed.
        samples: how many samples one batch of this rank has.
        learning_rate: of SGD.
        privacy: noise and clipping.
        dtype: of the computation; shards and reductions are in float32.

    Raises:
        ExperimentError: a private mode, and two parts of the model share a weight.
    """
    if mode.is_private:
        refuse_tied(model)
    model.train()
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    sharded = FSDP2Wrapper(model, mp_policy=policy)
    if not mode.is_private:
        return _plain(sharded, learning_rate)
    return _private(mode, sharded, samples, learning_rate, privacy)


def refuse_tied(model: nn.Module) -> None:
    """Raise ``ExperimentError`` if a weight belongs to two layers.

    The norm of its gradient is not the sum of the squares of its layers' norms, and Opacus notices
    it under FSDP only where one layer is called twice.
    """
    owner: dict[int, str] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        first = owner.setdefault(id(weight), name)
        if first != name:
            raise ExperimentError(
                f"{first} and {name} are one weight (tied), and its norm cannot be computed "
                "layer by layer; untie them (tie_word_embeddings=false), or use no_dp"
            )


def _plain(model: nn.Module, learning_rate: float) -> Trainer:
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    criterion = nn.CrossEntropyLoss()

    def step(batch: Batch) -> Tensor:
        if len(batch["labels"]) == 0:  # Poisson sampling may draw none
            return torch.zeros(())
        optimizer.zero_grad()
        loss: Tensor = criterion(_logits(model, batch), batch["labels"])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Trainer(model, step)


def _private(
    mode: Mode, model: nn.Module, samples: int, learning_rate: float, privacy: Privacy
) -> Trainer:
    kind: Any = FlashClipping if mode is Mode.FLASH else GradSampleModuleFastGradientClippingFSDP
    clipping = kind(model, max_grad_norm=privacy.max_grad_norm)
    device = next(model.parameters()).device
    # The same noise is drawn on each rank, and each keeps what belongs to its shard.
    optimizer = FSDPOptimizerFastGradientClipping(
        torch.optim.SGD(clipping.parameters(), lr=learning_rate),
        noise_multiplier=privacy.sigma,
        max_grad_norm=privacy.max_grad_norm,
        expected_batch_size=samples,
        generator=_generator(device, privacy.seed),
    )
    criterion = DPLossFastGradientClipping(clipping, optimizer, nn.CrossEntropyLoss())

    def step(batch: Batch) -> Tensor:
        optimizer.zero_grad()
        if len(batch["labels"]) == 0:  # Poisson sampling may draw none: then there is noise only
            for each in clipping.parameters():
                each.grad = torch.zeros_like(each)
            optimizer.step()
            return torch.zeros((), device=device)
        loss = criterion(_logits(clipping, batch), batch["labels"])
        with warnings.catch_warnings():
            # An embedding's input has no gradient; that is expected.
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            loss.backward()
        optimizer.step()
        mean: Tensor = loss.detach()
        return mean

    return Trainer(clipping, step)


def _generator(device: torch.device, seed: int | None) -> torch.Generator:
    generator = torch.Generator(device)
    if seed is None:
        # Different noise on each rank is as good: each keeps the part of its shard.
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    logits: Tensor = out.logits
    return logits.float()
