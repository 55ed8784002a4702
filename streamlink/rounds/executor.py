"""What a client does in a round: a model in, an update out. The kinds of executor stand beside it.

``streaming`` computes range by range as the model arrives, ``whole`` has it in memory, ``ondisk``
in a directory.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamlink.errors import AbortCode, ModelError, StreamAborted, StreamlinkError
from streamlink.link.client import Assignment
from streamlink.link.outgoing import Receipt

__all__ = ["Executor", "Task", "TaskOutcome", "TaskResult"]

logger = logging.getLogger("streamlink.executor")

_CALLED_OFF = (AbortCode.STALE_ATTEMPT, AbortCode.CANCELLED, AbortCode.SESSION_LOST)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Task:
    """What a client is asked to do."""

    name: str
    job: str
    round: int
    attempt: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Small facts that came with it."""
    part: tuple[str, ...] = ()
    """Patterns of the tensors that are wanted back; empty: all."""
    progress: Callable[[], None] = field(default=_nothing, repr=False, compare=False)
    """Call it as the work moves: it keeps the server's *processing* clock from expiring, and raises
    ``StreamAborted`` where nobody waits for the result any more."""

    def __str__(self) -> str:
        return f"{self.name} of job {self.job!r} round {self.round} attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What the work gives beside the model.

    Raises:
        ModelError: a metric is not a finite number, or the weight is negative or not finite.
    """

    weight: float = 1.0
    """In the mean: for example the number of samples."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Averaged with the same weights as the model."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Small facts for the server."""

    def __post_init__(self) -> None:
        if not _is_finite(self.weight) or self.weight < 0:
            raise ModelError(f"weight {self.weight!r}; a weight is finite and not negative")
        for name, value in self.metrics.items():
            if not _is_finite(value):
                raise ModelError(f"metric {name!r} is {value!r}; a metric is a finite number")


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What one task took: the receipts of the model that came and the update that went."""

    task: Task
    received: Receipt
    sent: Receipt
    metadata: Mapping[str, str] = field(default_factory=dict)


class Executor(Protocol):
    """Does the work of one task."""

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, work, send the update; raises what goes wrong."""


def serve(executor: Executor, assignment: Assignment) -> TaskOutcome | None:
    """Do one task for the server and answer it; errors of the work are told, not raised."""
    attempt = assignment.attempt
    task = Task(
        assignment.topic,
        attempt.job,
        attempt.round,
        attempt.attempt,
        dict(assignment.metadata),
        assignment.part,
        assignment.progress,
    )
    try:
        outcome = executor.execute(task, assignment)
    except StreamlinkError as error:
        is_called_off = isinstance(error, StreamAborted) and error.code in _CALLED_OFF
        logger.log(logging.WARNING if is_called_off else logging.ERROR, "%s ended: %s", task, error)
        assignment.reply(error=str(error))
    except Exception as error:
        logger.exception("%s: the work raised", task)
        text = f"{type(error).__name__}: {error}"
        assignment.reply(error=text, traceback=traceback.format_exc(limit=50))
    else:
        assignment.reply(metadata={**outcome.metadata, "digest": outcome.sent.digest})
        return outcome
    return None


def _is_finite(value: object) -> bool:
    try:
        return not isinstance(value, str | bytes) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
