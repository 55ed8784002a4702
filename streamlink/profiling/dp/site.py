"""A client of streamlink that trains privately: what ``WholeExecutor`` calls, and its accounting.

``WholeExecutor`` receives into a plain module and sends from it, and FSDP2 turns a module's weights
into shards. So a site holds the model twice: as received, and as it trains. ``computed_bytes`` says
what that comes to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from opacus.accountants import RDPAccountant
from torch import Tensor, nn

from streamlink import Task, TaskResult
from streamlink.profiling.dp.experiment import ExperimentError, Mode
from streamlink.profiling.dp.modes import Privacy, Trainer, trainer

__all__ = ["PrivateTraining"]


class PrivateTraining:
    """``train`` for a ``WholeExecutor``: some private steps on this site's samples, each round.

    Each step draws every sample with the same probability (Poisson sampling), as the accountant
    assumes. The result's metrics have epsilon spent so far, or without privacy the loss; its facts
    state the mode, the noise and the bound. On a CPU only.

    Args:
        mode: how gradients are clipped.
        samples: this site's data: ``input_ids``, ``attention_mask`` and ``labels``, a row each.
        batch_size: how many samples a step draws on average.
        steps: of each round.
        learning_rate: of SGD.
        privacy: noise and clipping; a seed of ``None`` is drawn from the system.
        delta: for which epsilon is stated; below one over the number of samples.
        dtype: of the computation.

    Raises:
        ValueError: ``batch_size`` is larger than the number of samples, delta is not between zero
            and one over that number, or a private mode is not to compute in float32.
    """

    def __init__(
        self,
        mode: Mode,
        samples: Mapping[str, Tensor],
        *,
        batch_size: int,
        steps: int,
        learning_rate: float,
        privacy: Privacy,
        delta: float = 1e-5,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        count = len(samples["labels"])
        if not 1 <= batch_size <= count:
            raise ValueError(f"batch_size is {batch_size}, and there are {count} samples")
        if not 0 < delta < 1 / count:
            raise ValueError(
                f"delta is {delta}; it is between 0 and 1 / {count}, for {count} samples"
            )
        if mode.is_private and dtype != torch.float32:
            raise ValueError(f"epsilon holds for float32, and dtype is {dtype}")
        self._mode, self._samples, self._steps = mode, samples, steps
        self._batch_size, self._rate, self._delta = batch_size, batch_size / count, delta
        self._learning_rate, self._privacy, self._dtype = learning_rate, privacy, dtype
        self._accountant = RDPAccountant()
        # Which samples a step draws must be as secret as its noise.
        self._generator = torch.Generator()
        if privacy.seed is None:
            self._generator.seed()
        else:
            # Not the noise's own seed: which samples are drawn would follow from the noise.
            self._generator.manual_seed(privacy.seed + 1)
        self._trainer: Trainer | None = None
        self.largest_batch = 0
        """The most samples that a step has drawn so far."""

    @property
    def epsilon(self) -> float:
        """What was spent so far, by the accountant; infinite without noise, 0 before a step."""
        if not self._mode.is_private or self._privacy.sigma == 0:
            return float("inf") if self._trainer is not None else 0.0
        return float(self._accountant.get_epsilon(self._delta)) if self._trainer else 0.0

    def __call__(self, model: nn.Module, task: Task) -> TaskResult:
        """Train ``model`` in place; called by ``WholeExecutor``.

        Raises:
            ExperimentError: two parts of the model share a weight, and the mode is private; or this
                process has a process group of several ranks.
        """
        losses = self.train(model, task.progress)
        # A loss is computed from the samples without noise, and epsilon does not cover it: in a
        # private mode it stays here.
        loss = {} if self._mode.is_private else {"loss": sum(losses) / len(losses)}
        return TaskResult(
            weight=float(len(self._samples["labels"])),
            metrics={**loss, **self._spent()},
            metadata=self._facts(),
        )

    def train(self, model: nn.Module, progress: Callable[[], None] = lambda: None) -> list[float]:
        """Train ``model`` in place for one round; return the loss of each step.

        Args:
            model: a classifier of ``transformers``.
            progress: called after each step.
        """
        if self._trainer is None:
            self._trainer = self._made(model)
        _copy(model, self._trainer.model, into_shards=True)
        losses = []
        for _ in range(self._steps):
            losses.append(self._step(self._trainer))
            progress()
        _copy(model, self._trainer.model, into_shards=False)
        return losses

    def computed_bytes(self, model: nn.Module, activations: int, window: int) -> dict[str, int]:
        """Return what this site will hold beside its program, part by part, in bytes.

        Args:
            model: the one that is received into.
            activations: of a step, with the buffers of the norms.
            window: of the link (``StreamConfig``); no more than the model is ever in it.
        """
        size = sum(each.numel() * each.element_size() for each in model.parameters())
        largest = max(each.numel() * each.element_size() for each in model.parameters())
        # SGD keeps nothing. Gradients; in private modes also their sum, and noise for one tensor.
        optimiser = size + (size + 3 * largest if self._mode.is_private else 0)
        return {
            "model": 2 * size,
            "optimiser": optimiser,
            "activations": activations,
            "window": min(window, size),
        }

    def _made(self, model: nn.Module) -> Trainer:
        if not dist.is_initialized():  # a site of one rank: nothing is sent
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        # With more, a rank that draws no sample would skip the step in which the others wait.
        if dist.get_world_size() != 1:
            raise ExperimentError(
                f"a site trains with one rank, and this process is in a group of "
                f"{dist.get_world_size()}; start its client outside of that group"
            )
        return trainer(
            self._mode,
            copy.deepcopy(model),
            self._batch_size,
            learning_rate=self._learning_rate,
            privacy=self._privacy,
            dtype=self._dtype,
        )

    def _step(self, made: Trainer) -> float:
        drawn = torch.rand(len(self._samples["labels"]), generator=self._generator) < self._rate
        self.largest_batch = max(self.largest_batch, int(drawn.sum()))
        loss = made.step({name: each[drawn] for name, each in self._samples.items()})
        if self._mode.is_private:
            self._accountant.step(noise_multiplier=self._privacy.sigma, sample_rate=self._rate)
        return float(loss)

    def _spent(self) -> dict[str, float]:
        # A metric is a finite number; without noise there is no epsilon to state. With a seed there
        # is none, either: whoever knows it can subtract the noise.
        if self.epsilon == float("inf") or self._privacy.seed is not None:
            return {}
        return {"epsilon": self.epsilon}

    def _facts(self) -> dict[str, str]:
        facts: dict[str, Any] = {"dp.mode": self._mode.value}
        if self._mode.is_private:
            facts |= {
                "dp.sigma": self._privacy.sigma,
                "dp.max_grad_norm": self._privacy.max_grad_norm,
                "dp.sample_rate": self._rate,
                "dp.steps": self._steps,
                "dp.delta": self._delta,
                "dp.accountant": RDPAccountant.mechanism(),
            }
        return {name: str(fact) for name, fact in facts.items()}


def _copy(model: nn.Module, sharded: nn.Module, *, into_shards: bool) -> None:
    """Copy all weights one way or the other; one rank has whole shards."""
    plain = dict(model.named_parameters())
    with torch.no_grad():
        for name, shard in sharded.named_parameters():
            mine, theirs = plain[name.removeprefix("_module.")], shard.to_local()
            (theirs if into_shards else mine).copy_(mine if into_shards else theirs)
