"""The executor of a training client: what a server orders, done on this site's data.

The order comes as JSON in the facts of each task, so a client that joins late or comes back has it,
too. The module is made for the first task; each model is received into it and sent from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil
from torch import nn

from streamlink.executors import Executor, Task, TaskOutcome, TaskResult, WholeExecutor
from streamlink.link import Assignment
from streamlink.training.code import CodeFolder
from streamlink.training.data import load_data
from streamlink.training.models import load_model, state_bytes
from streamlink.training.order import ORDER, SAMPLES, order_of
from streamlink.training.original import OriginalExecutor
from streamlink.training.settings import ClientOrder, ClientSettings, TrainingError
from streamlink.training.trainer import Trainer

__all__ = ["TrainingExecutor"]


class TrainingExecutor:
    """Trains as the server orders. It loads its data at once, and the model at the first task.

    Args:
        settings: of this client.
        code: the operator's files; None: none is loaded, whoever names them.
        downloads: whether files of the Hugging Face Hub that are not here are fetched.

    Raises:
        TrainingError: the data cannot be used.
    """

    overlaps = False
    """One module, so one task at a time."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        code: CodeFolder | None = None,
        downloads: bool = False,
    ) -> None:
        self._settings, self._code = settings, code or CodeFolder()
        self._downloads = downloads
        self._train, self._validation = load_data(settings.data, code=self._code)
        self._ordered = ""
        self._worker: Executor | None = None
        self._trainer: Trainer | None = None
        self.model_bytes = 0
        """Size of the model's state (bytes); 0: there is none yet."""

    @property
    def watched(self) -> Any:
        """The streams of the task that runs, for progress bars."""
        return getattr(self._worker, "watched", None)

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, train it, send it.

        Raises:
            TrainingError: the server's order cannot be followed here; says what and why.
            StreamlinkError: a stream failed, or the server's model is another one.
        """
        return self._worker_for(task).execute(task, assignment)

    def _worker_for(self, task: Task) -> Executor:
        text = task.metadata.get(ORDER, "")
        if self._worker is None or text != self._ordered:
            # Freed before the next model is made: both might not fit.
            self._worker = self._trainer = None
            self._worker = self._made(order_of(task.metadata))
            self._ordered = text
        return self._worker

    def _made(self, order: ClientOrder) -> Executor:
        own = self._settings
        optimizes = _first(own.optimize_memory, order.optimize_memory)
        settings = order.trainer.model_copy(
            update={
                "device": own.device,
                "optimize_memory": _first(own.optimize_trainer, order.trainer.optimize_memory),
            }
        )
        self._trainer = Trainer(
            settings, self._train, self._validation, code=self._code, who=own.client_id
        )
        module = self._module(order)
        self.model_bytes = state_bytes(module)
        is_whole = own.comm.is_whole
        if optimizes and settings.optimize_memory and not is_whole:
            return WholeExecutor(self._work, module)
        return OriginalExecutor(
            self._work,
            module,
            state=self._copied,
            is_direct=optimizes,
            is_whole=is_whole,
            is_copied=not own.comm.optimize_memory,
            is_kept=settings.trainer != "LLMDummyTrainer",
        )

    def _copied(self) -> Mapping[str, Any] | None:
        return self._trainer.state if self._trainer is not None else None

    def _module(self, order: ClientOrder) -> nn.Module:
        model = order.model or self._settings.model
        if model is None:
            raise TrainingError(
                "neither the server nor this client names a model; set client_configs.model_configs"
            )
        return load_model(
            model,
            code=self._code,
            max_bytes=self._settings.max_model_bytes or psutil.virtual_memory().total,
            is_initial=False,
            downloads=self._downloads,
        )

    def _work(self, module: nn.Module, task: Task) -> TaskResult:
        assert self._trainer is not None
        done = self._trainer.run(module, task.round, task.progress)
        return TaskResult(
            weight=float(done.samples),
            metrics=done.metrics,
            metadata={SAMPLES: str(done.samples)},
        )


def _first(own: bool | None, ordered: bool | None) -> bool:
    """Return this client's own choice, else the server's, else yes."""
    if own is not None:
        return own
    return True if ordered is None else ordered
