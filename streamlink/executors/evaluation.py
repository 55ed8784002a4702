"""Evaluation: a model comes in, metrics and a weight go out, and nothing else.

The server asks for it as for a task, but wants no model back. An executor that has an ``evaluate``
method answers; any other one replies that it has no evaluation. The method receives the model
where its executor has room for it, and ``evaluated`` calls the user's function and replies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from streamlink.errors import ModelError
from streamlink.executors.executor import CANNOT_EVALUATE, Task, TaskResult
from streamlink.executors.task_streams import TaskStreams, run_work
from streamlink.link.assignment import Assignment
from streamlink.link.facts import to_metadata
from streamlink.link.transfer import Receipt
from streamlink.model.spec import ModelSpec
from streamlink.rounds.evaluate.answer import to_answer
from streamlink.stores.memory import ArrayModel, empty_arrays

__all__ = [
    "Evaluate",
    "EvaluationOutcome",
    "Evaluator",
    "evaluate_arrays",
    "evaluated",
    "require_evaluate",
]

Evaluate = Callable[[Any, Task], TaskResult | Mapping[str, float]]
"""``evaluate(model, task)`` returns metrics, alone or in a ``TaskResult`` with their weight."""


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """The result of one evaluation at a client."""

    task: Task
    received: Receipt
    metrics: Mapping[str, float]
    weight: float


class Evaluator(Protocol):
    """An executor that can evaluate a model, too."""

    def evaluate(self, task: Task, assignment: Assignment) -> EvaluationOutcome:
        """Receive the model, evaluate it, reply with the metrics; raise what fails.

        Raises:
            ModelError: this client has no evaluation, or its metrics are not allowed.
        """


def require_evaluate(evaluate: Evaluate | None) -> Evaluate:
    """Return the user's function, before a byte of the model is received.

    Raises:
        ModelError: there is none.
    """
    if evaluate is None:
        raise ModelError(f"{CANNOT_EVALUATE}; give its executor a function: evaluate=...")
    return evaluate


def evaluated(
    work: Callable[[], TaskResult | Mapping[str, float]],
    task: Task,
    assignment: Assignment,
    received: Receipt,
    *,
    reports_progress: bool = False,
) -> EvaluationOutcome:
    """Call ``work``, and reply with its metrics and their weight.

    Raises:
        ModelError: it returned something else, or what is not allowed (see ``TaskResult``); more
            than 256 metrics, or a name of more than 128 bytes.
        StreamAborted: the task was cancelled.
    """
    result = run_work(lambda: _result(work()), assignment, reports_progress=reports_progress)
    assignment.reply(metadata=to_metadata(to_answer(result.weight, result.metrics), result.metrics))
    return EvaluationOutcome(task, received, result.metrics, result.weight)


def evaluate_arrays(evaluate: Evaluate, task: Task, assignment: Assignment) -> EvaluationOutcome:
    """Receive the model into a dict of arrays, which lives as long as the evaluation."""
    with TaskStreams(assignment) as streams:
        arrays: dict[str, npt.NDArray[Any]] = {}

        def begin(spec: ModelSpec) -> ArrayModel:
            arrays.update(empty_arrays(spec))
            return ArrayModel(arrays)

        received = streams.receive(begin)
        return evaluated(lambda: evaluate(arrays, task), task, assignment, received)


def _result(returned: object) -> TaskResult:
    if isinstance(returned, TaskResult):
        return returned
    if isinstance(returned, Mapping):
        return TaskResult(metrics=returned)
    raise ModelError(
        f"the evaluation returned a {type(returned).__name__}; it must return a dict of metrics, "
        "or a TaskResult with metrics and their weight"
    )
