"""``Trainer``: trains a module in place for one round, as the settings say."""

from __future__ import annotations

import copy
import inspect
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from streamlink.training.code import CodeFolder
from streamlink.training.data import Samples
from streamlink.training.names import called, resolve
from streamlink.training.placing import placed
from streamlink.training.settings import TrainerSettings, TrainingError

__all__ = ["Trained", "Trainer", "loss_of", "optimizer_of"]

logger = logging.getLogger("streamlink.training")

_ROW = "client_configs.train_configs"


@dataclass(frozen=True, slots=True)
class Trained:
    """What one round of training has come to."""

    samples: int
    """Samples of this client: its weight in the mean."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Losses and accuracies."""


class Trainer:
    """Trains a module on one client's samples.

    ``optimize_memory`` decides what is sent: the module itself, or (False) a deep copy of its state
    that is made after the training and kept until the next, as APPFL's trainer does it.

    Args:
        settings: how.
        train: the training samples.
        validation: the validation samples; None: there are none.
        code: the operator's files, for losses and metrics; None: none is loaded.
        who: this client's name, for the log.
        seed: of the order of the samples.

    Raises:
        TrainingError: optimiser, loss, metric or device cannot be used.
    """

    def __init__(
        self,
        settings: TrainerSettings,
        train: Samples,
        validation: Samples | None = None,
        *,
        code: CodeFolder | None = None,
        who: str = "client",
        seed: int = 0,
    ) -> None:
        self.settings = settings
        self._train, self._validation, self._who = train, validation, who
        code = code or CodeFolder()
        self._loss = loss_of(settings, code)
        self._metric = resolve(
            settings.metric, settings.metric_path, METRICS, code, f"{_ROW}.metric_name"
        )
        self._device = device_of(settings.device)
        _optimizer_class(settings)  # refused now, and not after the first model has come
        self._generator = torch.Generator().manual_seed(seed)
        self.state: Mapping[str, Tensor] | None = None
        """A deep copy of the state as trained; None with ``optimize_memory``."""

    def run(
        self, module: nn.Module, number: int = 0, progress: Callable[[], None] = lambda: None
    ) -> Trained:
        """Train ``module`` in place for one round, and validate it.

        Args:
            module: on the CPU; it is there again afterwards, in the same memory.
            number: of the round, for the log.
            progress: called after each batch.

        Raises:
            TrainingError: the model and the data do not fit, or the loss is no number, or the
                device has too little memory.
        """
        is_dummy = self.settings.trainer == "LLMDummyTrainer"
        try:
            metrics = {} if is_dummy else self._run(module, number, progress)
        except torch.cuda.OutOfMemoryError as error:
            raise TrainingError(
                f"{_ROW}: {self._device} has too little free memory for the model and a batch of "
                f"{self.settings.train_batch_size} ({str(error).splitlines()[0]}); lower "
                "train_batch_size or val_batch_size, or train on another device"
            ) from error
        if not (self.settings.optimize_memory or is_dummy):
            self.state = copy.deepcopy(module.state_dict())
        return Trained(len(self._train), metrics)

    def _run(
        self, module: nn.Module, number: int, progress: Callable[[], None]
    ) -> dict[str, float]:
        began = time.monotonic()
        metrics: dict[str, float] = {}
        with placed(module, self._device):
            if self.settings.do_pre_validation:
                metrics |= self._validated(module, "pre_val", progress)
            metrics |= self._trained(module, progress)
            if self.settings.do_validation:
                metrics |= self._validated(module, "val", progress)
            module.zero_grad(set_to_none=True)  # gradients are as large as the model
        figures = ", ".join(f"{name} {value:.6g}" for name, value in metrics.items())
        seconds = time.monotonic() - began
        logger.info("%s: round %d trained in %.2f s: %s", self._who, number, seconds, figures)
        return metrics

    def _trained(self, module: nn.Module, progress: Callable[[], None]) -> dict[str, float]:
        module.train()
        # A new one each round: what it keeps belongs to weights that the server has replaced.
        optimizer = optimizer_of(self.settings, module)
        losses, count = 0.0, 0
        for inputs, labels in self._batches():
            losses += self._step(module, optimizer, inputs, labels)
            count += 1
            progress()
        return {"train_loss": losses / count}

    def _step(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, labels: Tensor
    ) -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = self._loss(*self._answer(module, inputs, labels))
        loss.backward()
        if self.settings.clip_grad:
            nn.utils.clip_grad_norm_(
                module.parameters(), self.settings.clip_value, self.settings.clip_norm
            )
        optimizer.step()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(
                f"{_ROW}: the loss is {value}; lower optim_args.lr, or set clip_grad"
            )
        return value

    def _answer(self, module: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs and labels; of a language model all tokens are samples."""
        try:
            answer = module(inputs.to(self._device))
        except torch.cuda.OutOfMemoryError:  # a RuntimeError, too
            raise
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise TrainingError(
                f"client_configs.model_configs: the model does not take data of shape "
                f"{tuple(inputs.shape)}: {error}"
            ) from error
        outputs: Tensor = getattr(answer, "logits", answer)
        if outputs.ndim == labels.ndim + 1 and labels.ndim > 1:
            outputs, labels = outputs.flatten(0, -2), labels.flatten()
        return outputs, labels.to(self._device)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        settings = self.settings
        generator = self._generator if settings.train_data_shuffle else None
        if settings.mode == "epoch":
            for _ in range(settings.num_local_epochs):
                yield from self._train.batches(settings.train_batch_size, generator)
            return
        left = settings.num_local_steps
        while left:
            for batch in self._train.batches(settings.train_batch_size, generator):
                yield batch
                left -= 1
                if not left:
                    return

    def _validated(
        self, module: nn.Module, name: str, progress: Callable[[], None]
    ) -> dict[str, float]:
        if self._validation is None:
            return {}
        module.eval()
        losses, count = 0.0, 0
        outputs, labels = [], []
        with torch.no_grad():
            for batch in self._validation.batches(self.settings.val_batch_size):
                output, label = self._answer(module, *batch)
                losses += float(self._loss(output, label)) * len(label)
                count += len(label)
                outputs.append(output.cpu())
                labels.append(label.cpu())
                progress()
        metric = self._metric(torch.cat(labels).numpy(), torch.cat(outputs).float().numpy())
        return {f"{name}_loss": losses / count, f"{name}_accuracy": float(metric)}


def accuracy(labels: Any, outputs: Any) -> float:
    """Return how many outputs, (samples, classes), are largest at their label (percent)."""
    return float((outputs.argmax(axis=1) == labels).mean() * 100)


METRICS: Mapping[str, Callable[[Any, Any], float]] = {"accuracy": accuracy}
"""Metrics of ours, by name."""


def loss_of(settings: TrainerSettings, code: CodeFolder) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss: one of ``torch.nn``, or the operator's.

    Raises:
        TrainingError: there is none of that name, or its arguments are wrong.
    """
    offered = {
        name: each
        for name, each in vars(nn).items()
        if name.endswith("Loss") and inspect.isclass(each)
    }
    offered["CELoss"] = nn.CrossEntropyLoss
    row = f"{_ROW}.loss_fn"
    make = resolve(settings.loss_fn, settings.loss_fn_path, offered, code, row)
    loss: Callable[[Tensor, Tensor], Tensor] = called(make, settings.loss_fn_kwargs, row)
    return loss


def optimizer_of(settings: TrainerSettings, module: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser of the module's parameters.

    Raises:
        TrainingError: there is none of that name, or its arguments are wrong.
    """
    make = _optimizer_class(settings)
    parameters = [each for each in module.parameters() if each.requires_grad]

    def optimizer(**given: Any) -> torch.optim.Optimizer:
        return make(parameters, **given)

    optimizer.__name__ = settings.optim  # for the error's text
    made: torch.optim.Optimizer = called(optimizer, settings.optim_args, f"{_ROW}.optim_args")
    return made


def _optimizer_class(settings: TrainerSettings) -> Callable[..., torch.optim.Optimizer]:
    offered = {
        name: each
        for name, each in vars(torch.optim).items()
        if inspect.isclass(each)
        and issubclass(each, torch.optim.Optimizer)
        and each is not torch.optim.Optimizer
    }
    if settings.optim not in offered:
        raise TrainingError(
            f"{_ROW}.optim: there is no optimiser {settings.optim!r}; use one of "
            f"{', '.join(sorted(offered))}"
        )
    return offered[settings.optim]


def device_of(name: str) -> torch.device:
    """Return the device, if this machine has it.

    Raises:
        TrainingError: it has not.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise TrainingError(
            f"train_configs.device: {name!r} cannot be used here ({first}); use cpu, or --device"
        ) from error
    return device
