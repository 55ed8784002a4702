"""The seam for executors: a task comes in with a model, an update goes out.

A new executor is one module beside this one, with an ``execute`` method, and one line in
``executors/__init__``. ``task_streams`` has what most of them need.
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
from streamlink.link.assignment import Assignment
from streamlink.link.transfer import Receipt
from streamlink.rounds.aggregate.validate import WEIGHTS_ALLOWED, is_weight

__all__ = ["Executor", "Task", "TaskOutcome", "TaskResult"]

logger = logging.getLogger("streamlink.executor")

_MAX_METRICS = 1024  # the limit of a message
# The user's part of a reply fits any message limit, together with our own facts and the framing.
_MAX_FACTS, _MAX_FACT_BYTES = 256, 8 * 1024
_MAX_SHOWN = 100
# A recursion without an end has a thousand.
_MAX_FRAMES = 50
_CANNOT_RESUME = "this executor is not pure, so it cannot resume another process's update"
CANNOT_EVALUATE = "this client cannot evaluate a model"
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
    """Small facts that the server sent with it."""
    part: tuple[str, ...] = ()
    """Patterns of the tensors that the server wants back; empty: all."""
    progress: Callable[[], None] = field(default=_nothing, repr=False, compare=False)
    """Call it as the work progresses: it restarts the server's *processing* timeout, and raises
    ``StreamAborted`` if the task was cancelled."""

    def __str__(self) -> str:
        return f"{self.name} of job {self.job!r} round {self.round} attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What the work returns beside the model.

    Weight and metrics may be anything that ``float()`` accepts, except text: NumPy's numbers,
    tensors of one element, booleans as 0 and 1. They are converted to floats.

    Raises:
        ModelError: the weight is neither 0 nor between 1e-100 and 1e100; a metric is not a finite
            number, or a fact is not text; there are too many of them, or they are too long; the
            norm is negative.
    """

    weight: float = 1.0
    """In the mean: for example the number of samples."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Averaged with the same weights as the model; at most 1,024."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Small facts for the server: at most 256, of 8 KiB in all, names included. Streamlink adds the
    update's ``digest``, and where lossy formats changed it ``rounding_up``."""
    norm: float | None = None
    """The L2 norm of what the update changes, as it is sent, if it is known: a server that clips
    then needs no first pass over the update (see ``RoundConfig.clip_norm``). An update whose norm
    turns out to be larger does not count."""

    def __post_init__(self) -> None:
        weight = _number(self.weight)
        if weight is None or not is_weight(weight):
            raise ModelError(f"weight {_shown(self.weight)}; {WEIGHTS_ALLOWED}")
        # Frozen for everybody else: the checked values replace what was given.
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "norm", _checked_norm(self.norm))
        object.__setattr__(self, "metrics", _checked_metrics(self.metrics))
        object.__setattr__(self, "metadata", _checked_metadata(self.metadata))


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of one task: the receipts of the received model and the sent update."""

    task: Task
    received: Receipt
    sent: Receipt
    metadata: Mapping[str, str] = field(default_factory=dict)


class Executor(Protocol):
    """Does the work of one task."""

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, work, send the update; raise what fails.

        It may declare two capabilities as attributes: ``is_pure``, that it can resume an update
        which another process began (see ``Update.is_pure``); ``overlaps``, that it may be called
        for the next task while it still sends the update of this one. With a method ``evaluate`` it
        answers evaluations, too (see ``evaluation.Evaluator``).
        """


def serve(executor: Executor, assignment: Assignment) -> TaskOutcome | None:
    """Do one task for the server and reply; errors of the work are reported there, not raised."""
    attempt = assignment.attempt
    if assignment.is_resumed and not getattr(executor, "is_pure", False):
        # The process that began the update may have run another executor.
        assignment.reply(error=f"{attempt}: {_CANNOT_RESUME}")
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
        if not assignment.wants_model:
            evaluate_with(executor, task, assignment)
            return None
        outcome = executor.execute(task, assignment)
        # Ours last: a fact of the user's of that name must not take its place.
        assignment.reply(metadata={**outcome.metadata, **_facts_of(outcome.sent)})
    except StreamlinkError as error:
        # Ends that others have decided are no fault of the work: a warning is enough.
        is_called_off = isinstance(error, StreamAborted) and error.code in _CALLED_OFF
        level = logging.WARNING if is_called_off else logging.ERROR
        logger.log(level, "%s ended at %s: %s", task, assignment.client_name, error)
        assignment.reply(error=str(error))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        # Our own frames above the user's are the same for every error, and hide the line to fix.
        error.__traceback__ = users_frames(error.__traceback__)
        # The client is named because one process may run several.
        logger.exception("%s: the work of %s raised %s", task, assignment.client_name, text)
        text_of_trace = "".join(traceback.format_exception(error, limit=_MAX_FRAMES))
        assignment.reply(error=text, traceback=text_of_trace)
    else:
        # The client keeps outcomes; ``progress`` would keep the streams and their buffers alive.
        return replace(outcome, task=replace(outcome.task, progress=_nothing))
    return None


def _facts_of(sent: Receipt) -> dict[str, str]:
    """Return what the server hears of an update beside its bytes."""
    rounded = {} if sent.rounding is None else {"rounding_up": str(sent.rounding)}
    return {**rounded, "digest": sent.digest}


def evaluate_with(executor: Executor, task: Task, assignment: Assignment) -> object:
    """Have ``executor`` evaluate the model that comes, and reply.

    Raises:
        ModelError: it cannot evaluate.
        Exception: whatever it raised.
    """
    # Before a byte of the model moves: executors that users have written may have no such method.
    evaluate = getattr(executor, "evaluate", None)
    if not callable(evaluate):
        raise ModelError(f"{CANNOT_EVALUATE}; its executor has no method evaluate")
    return evaluate(task, assignment)


def _number(value: Any) -> float | None:
    """Return ``value`` as a finite float; ``None`` if it is none."""
    if isinstance(value, str | bytes | bytearray):
        return None
    try:
        # Without ``detach`` PyTorch warns about a tensor that requires a gradient.
        number = float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: PyTorch's
        return None
    return number if math.isfinite(number) else None


def _checked_norm(norm: Any) -> float | None:
    number = None if norm is None else _number(norm)
    if norm is not None and (number is None or number < 0):
        raise ModelError(f"norm {_shown(norm)}; a norm is a finite number, 0 or more, or None")
    return number


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
    """Return the length of ``text`` in bytes; raise ``ModelError`` if it is not text."""
    if not isinstance(text, str):
        raise ModelError(
            f"{what} is {_shown(text)}, of type {type(text).__name__}; it must be a str"
        )
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise ModelError(f"{what} is {_shown(text)}, which is not valid text: {error}") from error


def _shown(value: object) -> str:
    """Return a value for a message, cut: it may be an array of any size."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
