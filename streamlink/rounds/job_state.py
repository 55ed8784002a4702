"""The state of a running job, for the status command, metrics and the log.

The events of the rounds update it, in their order. It keeps the last few of everything: a job may
run for months.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamlink.clock import Clock
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.report import RoundReport

__all__ = ["JobState", "JobTracker", "MetricsNote", "RoundNote", "Trouble", "round_of"]

logger = logging.getLogger("streamlink.rounds")

# Bounds of what a status carries, whatever the number of rounds and clients: it has to fit one line
# of the operator's socket (``operate.control.MAX_LINE_BYTES``), and is asked for every second.
ROUNDS_KEPT = 100
TROUBLES_KEPT = 20
LOST_KEPT = 256
METRICS_KEPT = 32
_NAME_WIDTH = 128
_WIDTH = 500  # most of a reason that is kept


@dataclass(frozen=True, slots=True)
class RoundNote:
    """A round that is done."""

    round: int
    attempt: int
    seconds: float
    contributors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricsNote:
    """The weighted means of a round's training, or of an evaluation."""

    round: int
    metrics: Mapping[str, float]
    """The first of them by name, where there are many."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A client that dropped out, or a round that failed."""

    at: float
    """When (seconds since 1970)."""
    round: int
    peer_name: str
    """The client; empty: the round failed."""
    reason: str


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job."""

    job: str
    phase: str = "waiting for clients"
    """``waiting for clients``, ``gathering`` (models are sent, trained and received),
    ``averaging``, ``storing``, ``between rounds``, ``evaluating``, ``keeping the best``, ``done``,
    ``failed``."""
    since: float = 0.0
    """Since when (seconds since 1970)."""
    round: int | None = None
    """Number of the round that runs, or ran last; None: none has begun."""
    attempt: int = 0
    updates: int = 0
    """Updates that counted, in all rounds (count)."""
    rounds_done: int = 0
    """Rounds that gave a new model (count)."""
    last_rounds: tuple[RoundNote, ...] = ()
    """The last of them."""
    troubles: tuple[Trouble, ...] = ()
    """The last clients that dropped out, and rounds that failed."""
    lost: tuple[str, ...] = ()
    """Clients that dropped out of the round that runs."""
    first_round: int = 0
    """Number of the job's first round."""
    rounds: int = 0
    """How many the job has (count); 0: unknown, since the caller runs each round itself."""
    trained: MetricsNote | None = None
    """The metrics of the last round that had any."""
    evaluated: MetricsNote | None = None
    """The metrics of the last evaluation that had any."""
    best: str = ""
    """The best model so far, by ``best_metric``; empty: there is none."""

    def __str__(self) -> str:
        where = round_of(self.round, self.first_round, self.rounds)
        attempt = f", attempt {self.attempt}" if self.attempt > 1 else ""
        return f"job {self.job!r}: {where}{attempt}, {self.phase}"


def round_of(number: int | None, first: int, count: int) -> str:
    """Return which round it is, and of how many: ``round 1 (2 of 5)`` where they begin with 0."""
    if number is None:
        return f"no round of {count} yet" if count else "no round yet"
    nth = number - first + 1
    if not count:
        return f"round {number}"
    return f"round {nth} of {count}" if nth == number else f"round {number} ({nth} of {count})"


class JobTracker:
    """Keeps a ``JobState`` up to date; any thread may read it."""

    def __init__(self, job: str, clock: Clock) -> None:
        self._job, self._clock = job, clock
        self._lock = threading.Lock()
        self._phase, self._since = "waiting for clients", self._clock.wall()
        self._round: int | None = None
        self._attempt = self._updates = self._rounds_done = 0
        self._rounds: deque[RoundNote] = deque(maxlen=ROUNDS_KEPT)
        self._troubles: deque[Trouble] = deque(maxlen=TROUBLES_KEPT)
        # A dict as an ordered set: the clients in the order in which they were lost.
        self._lost: dict[str, None] = {}
        self._first, self._count = 0, 0
        self._trained: MetricsNote | None = None
        self._evaluated: MetricsNote | None = None
        self._best = ""

    def recall(self, reports: Iterable[RoundReport], best: str) -> None:
        """Note what an earlier server of this job has found.

        Args:
            reports: of its last rounds, the oldest first.
            best: the best model so far; empty: there is none.
        """
        with self._lock:
            self._best = best
            for report in reports:
                self._take_metrics(report)

    def expect(self, first: int, count: int) -> None:
        """Note how many rounds there will be, and the number of the first one."""
        with self._lock:
            self._first, self._count = first, count

    def note(self, event: RoundEvent) -> None:
        """Update the state with an event, and log it if operators need to know."""
        with self._lock:
            self._take(event)
        # Without the lock: what listens to the log is the user's code, and may ask for the state.
        _log(event)

    def count(self, report: RoundReport) -> None:
        """Add the report of a round that is done."""
        note = RoundNote(
            report.round, report.attempt, report.seconds, tuple(sorted(report.weights))
        )
        with self._lock:
            self._rounds.append(note)
            self._rounds_done += 1
            self._updates += len(report.weights)

    def end(self, phase: str) -> None:
        """Note that there will be no more rounds."""
        with self._lock:
            self._enter(phase)

    def state(self) -> JobState:
        """Return the state of the job."""
        with self._lock:
            return JobState(
                self._job,
                self._phase,
                self._since,
                self._round,
                self._attempt,
                self._updates,
                self._rounds_done,
                tuple(self._rounds),
                tuple(self._troubles),
                tuple(self._lost),
                self._first,
                self._count,
                self._trained,
                self._evaluated,
                self._best,
            )

    def _take(self, event: RoundEvent) -> None:
        number, attempt = event.attempt.round, event.attempt.attempt
        is_resumed = event.kind is EventKind.EVALUATION_STARTED and number != self._round
        if event.kind is EventKind.ROUND_STARTED or is_resumed:
            self._round, self._attempt = number, attempt
            self._lost.clear()
        elif number != self._round:
            return  # of the next round, which duplex offers early
        if event.kind is EventKind.TASK_OFFERED:
            self._attempt = max(self._attempt, attempt)
            self._lost.pop(event.peer_name, None)
        if event.report is not None:
            self._take_metrics(event.report)
        if event.kind is EventKind.BEST_FOUND:
            self._best = event.detail[:_WIDTH]
        if event.kind in _TROUBLES:
            detail = event.detail[:_WIDTH]
            self._troubles.append(Trouble(self._clock.wall(), number, event.peer_name, detail))
        if event.kind is EventKind.CLIENT_DROPPED and len(self._lost) < LOST_KEPT:
            self._lost[event.peer_name] = None
        if (phase := _PHASES.get(event.kind)) is not None:
            self._enter(phase)

    def _take_metrics(self, report: RoundReport) -> None:
        self._trained = _noted(report.round, report.metrics) or self._trained
        if report.evaluation is not None:
            found = report.evaluation.metrics
            self._evaluated = _noted(report.round, found) or self._evaluated

    def _enter(self, phase: str) -> None:
        # An attempt offers one task after the other: ``since`` is when the first was.
        if phase != self._phase:
            self._phase, self._since = phase, self._clock.wall()


def _noted(number: int, metrics: Mapping[str, float]) -> MetricsNote | None:
    first = sorted(metrics)[:METRICS_KEPT]
    # Names are the clients' texts: cut, or a few of them could fill a status.
    kept = {name[:_NAME_WIDTH]: metrics[name] for name in first}
    return MetricsNote(number, kept) if kept else None


_TROUBLES = (
    *(EventKind.CLIENT_DROPPED, EventKind.ROUND_FAILED),
    EventKind.CLIENT_NOT_EVALUATED,
)

_PHASES = {
    EventKind.ROUND_STARTED: "gathering",
    EventKind.TASK_OFFERED: "gathering",
    EventKind.BEFORE_AGGREGATION: "averaging",
    EventKind.BEFORE_PERSIST: "storing",
    EventKind.ROUND_DONE: "between rounds",
    EventKind.ROUND_FAILED: "failed",
    EventKind.EVALUATION_STARTED: "evaluating",
    EventKind.EVALUATED: "between rounds",
    EventKind.BEST_FOUND: "keeping the best",
    EventKind.BEST_KEPT: "between rounds",
}

# What operators act on; the rest would bury it, and ``on_event`` has all of it.
_LEVELS = {
    EventKind.ROUND_STARTED: logging.INFO,
    EventKind.CLIENT_DROPPED: logging.WARNING,
    EventKind.ROUND_FAILED: logging.ERROR,
    EventKind.CLIENT_NOT_EVALUATED: logging.WARNING,
    EventKind.BEST_FOUND: logging.INFO,
    EventKind.STOPPED_EARLY: logging.INFO,
}


def _log(event: RoundEvent) -> None:
    level = _LEVELS.get(event.kind)
    if level is None:
        return
    attempt = event.attempt
    facts = {"job": attempt.job, "round": attempt.round, "attempt": attempt.attempt}
    named = {"peer": event.peer_name, "reason": event.detail}
    facts |= {name: fact for name, fact in named.items() if fact}
    text = ": ".join(filter(None, (event.kind.value, event.peer_name, event.detail)))
    extra = {"event": event.kind.value, "facts": facts}
    logger.log(level, "%s: %s", attempt, text, extra=extra)
