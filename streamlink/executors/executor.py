"""What a client does in a round: a model in, an update out. The kinds of executor stand beside it.

``streaming`` computes range by range as the model arrives, ``whole`` has it in memory, ``ondisk``
in a directory.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from streamlink.errors import AbortCode, ModelError, StreamAborted, StreamlinkError
from streamlink.executors.tracebacks import users_frames
from streamlink.link.client import Assignment
from streamlink.link.transfer import Receipt
from streamlink.rounds.aggregate.validate import WEIGHTS_ALLOWED, is_weight

__all__ = ["Executor", "Task", "TaskOutcome", "TaskResult"]

logger = logging.getLogger("streamlink.executor")

_MAX_METRICS = 1024  # as many as a message may have
# What of a reply is the user's fits any message limit, with the other facts and their framing.
_MAX_FACTS, _MAX_FACT_BYTES = 256, 8 * 1024
_MAX_SHOWN = 100
_MAX_FRAMES = 50
_GOES_NOT_ON = "this executor is not pure, and begins an update at its beginning only"
_CALLED_OFF = (
    AbortCode.STALE_ATTEMPT,
    AbortCode.CANCELLED,
    AbortCode.SESSION_LOST,
    AbortCode.GOODBYE,
)


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

    Weight and metrics may be anything that ``float()`` takes and that is no text: NumPy's numbers,
    tensors of one element, booleans as 0 and 1. They are floats from here on.

    Raises:
        ModelError: the weight is neither 0 nor between 1e-100 and 1e100; a metric is not a finite
            number, or a fact no text; there are too many of them, or they are too long.
    """

    weight: float = 1.0
    """In the mean: for example the number of samples."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Averaged with the same weights as the model; at most 1,024."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Small facts for the server: at most 256, of 8 KiB in all, names included. Streamlink adds the
    update's ``digest``."""

    def __post_init__(self) -> None:
        weight = _number(self.weight)
        if weight is None or not is_weight(weight):
            raise ModelError(f"weight {_shown(self.weight)}; {WEIGHTS_ALLOWED}")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "metrics", _checked_metrics(self.metrics))
        object.__setattr__(self, "metadata", _checked_metadata(self.metadata))


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
    if assignment.goes_on and not getattr(executor, "is_pure", False):
        assignment.reply(error=f"{attempt}: {_GOES_NOT_ON}")
        return None
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
        assignment.reply(metadata={**outcome.metadata, "digest": outcome.sent.digest})
    except StreamlinkError as error:
        is_called_off = isinstance(error, StreamAborted) and error.code in _CALLED_OFF
        logger.log(logging.WARNING if is_called_off else logging.ERROR, "%s ended: %s", task, error)
        assignment.reply(error=str(error))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        # Our frames above the user's are the same for every error, and hide the line to change.
        error.__traceback__ = users_frames(error.__traceback__)
        logger.exception("%s: the work raised %s", task, text)
        told = "".join(traceback.format_exception(error, limit=_MAX_FRAMES))
        assignment.reply(error=text, traceback=told)
    else:
        # Outcomes are kept; ``progress`` would keep the streams' machines with them.
        return replace(outcome, task=replace(outcome.task, progress=_nothing))
    return None


def _number(value: Any) -> float | None:
    """Return ``value`` as a finite float; ``None`` where it is no such number."""
    if isinstance(value, str | bytes | bytearray):
        return None
    try:
        # PyTorch warns where a number is taken out of a graph; that is what a metric is for.
        number = float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last one is PyTorch's
        return None
    return number if math.isfinite(number) else None


def _checked_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    _require_mapping("metrics", metrics, _MAX_METRICS)
    checked = {}
    for name, value in metrics.items():
        _require_text("the name of a metric", name)
        number = _number(value)
        if number is None:
            raise ModelError(f"metric {name!r} is {_shown(value)}; a metric is a finite number")
        checked[name] = number
    return checked


def _checked_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    _require_mapping("metadata", metadata, _MAX_FACTS)
    nbytes = 0
    for name, value in metadata.items():
        nbytes += _require_text("the name of a fact in metadata", name)
        nbytes += _require_text(f"metadata {name!r}", value)
        if nbytes > _MAX_FACT_BYTES:
            raise ModelError(
                f"metadata is longer than {_MAX_FACT_BYTES} bytes with {name!r}; it is for small "
                "facts, and arrays belong into the model"
            )
    return dict(metadata)


def _require_mapping(what: str, entries: object, most: int) -> None:
    if not isinstance(entries, Mapping):
        raise ModelError(f"{what} is a {type(entries).__name__}; it must be a dict")
    if len(entries) > most:
        raise ModelError(f"{what} has {len(entries)} entries; it may have at most {most}")


def _require_text(what: str, text: object) -> int:
    """Return how many bytes ``text`` takes; raises ``ModelError`` where it is none."""
    if not isinstance(text, str):
        raise ModelError(
            f"{what} is {_shown(text)}, of type {type(text).__name__}; it must be a str"
        )
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise ModelError(f"{what} is {_shown(text)}, which is no valid text: {error}") from error


def _shown(value: object) -> str:
    """Return what a message shows of a value, which may be an array of any size."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
