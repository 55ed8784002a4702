"""What a client's command shows of the task that runs."""

from __future__ import annotations

from collections.abc import Sequence

from streamlink.executors.executor import Executor, Task, TaskOutcome, evaluate_with
from streamlink.link.assignment import Assignment
from streamlink.link.transfer import WAITING
from streamlink.rounds.report import ClientProgress

__all__ = ["WatchedWork"]


class WatchedWork:
    """An executor whose transfers can be watched while they run.

    Args:
        work: executes the tasks.
        name: the site's, for the headline.
    """

    def __init__(self, work: Executor, name: str) -> None:
        self._work = work
        self._name = name
        self._task: Task | None = None
        self._ended: list[ClientProgress] = []  # how the last task that was done has ended
        # The client reads these from the executor that it is given: a wrapper that hid them would
        # change how tasks run.
        self.overlaps = bool(getattr(work, "overlaps", False))
        self.is_pure = bool(getattr(work, "is_pure", False))

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """See ``Executor``."""
        self._task, self._ended = task, []
        outcome = self._work.execute(task, assignment)
        down, up = (receipt.stats.total_bytes for receipt in (outcome.received, outcome.sent))
        self._ended = [ClientProgress("server", "done", up, down, up, down)]
        return outcome

    def evaluate(self, task: Task, assignment: Assignment) -> object:
        """See ``executors.evaluation.Evaluator``."""
        self._task, self._ended = task, []
        return evaluate_with(self._work, task, assignment)

    def headline(self) -> str:
        """Return what the bars are about."""
        task = self._task
        if task is None:
            return f"{self._name}: waiting for the first task"
        attempt = f", attempt {task.attempt}" if task.attempt > 1 else ""
        return f"{self._name}: {task.name}, job {task.job!r} round {task.round}{attempt}"

    def limited_by(self) -> str:
        """Return what limits the stream that moves now, such as ``network``; empty: none moves."""
        model, update = getattr(self._work, "watched", None) or (None, None)
        stream = update or model
        return "" if stream is None else stream.stats.stalled_by

    def client_progress(self) -> Sequence[ClientProgress]:
        """Return how far the task that runs is, or ran last, where the executor can say."""
        watched = getattr(self._work, "watched", None)
        if watched is None:
            return self._ended
        model, update = watched
        down, up = model.stats, update.stats if update is not None else None
        # Before the executor opens the update's stream it has the model to itself.
        phase = "working" if model.is_complete and update is None else "streaming"
        if any(each.is_waiting for each in watched if each is not None):
            phase = WAITING
        sent, total = (up.received_bytes, up.total_bytes) if up is not None else (0, 0)
        # Whom the server waits for is told with the update; the model is held for the same one.
        held_for = (up.held_for if up is not None else "") or down.held_for
        return [
            ClientProgress(
                "server", phase, sent, down.received_bytes, total or down.total_bytes,
                down.total_bytes, held_for,
            )
        ]  # fmt: skip
