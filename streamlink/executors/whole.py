"""The whole executor: receives the model into the memory it is trained in, and sends it from there.

For training loops that need the whole model. It is in memory once. Differences need a baseline, and
duplex rounds room for the next model; both are options, since each costs one model more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, Literal

from streamlink.executors.evaluation import (
    Evaluate,
    EvaluationOutcome,
    evaluated,
    require_evaluate,
)
from streamlink.executors.executor import Task, TaskOutcome, TaskResult
from streamlink.executors.task_streams import TaskStreams, run_work, with_norm
from streamlink.executors.trainable import KeptArrays, Trainable
from streamlink.filters import Filter
from streamlink.link import Update, UpdateKind
from streamlink.link.assignment import Assignment, TurnLock
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt
from streamlink.model.copy import TeeSink, copy_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore
from streamlink.model.part import part_of, part_sink, part_source
from streamlink.model.spec import ModelSpec

__all__ = ["Train", "WholeExecutor"]

Train = Callable[[Any, Task], TaskResult | None]
"""``train(model, task)`` trains ``model`` in place."""


class WholeExecutor:
    """Receives each model in place, calls ``train``, and sends the update from the same memory.

    Memory: the model, once. Differences cost a copy of what the server wants back (all, or a part),
    unless ``baseline`` is a store on a disk. Room for the next model costs one model more, unless
    ``next_model`` is a store on a disk.

    A model that has arrived only in part is never trained and never sent. Each task overwrites the
    model with the server's, so keep elsewhere what must survive a task.

    The server decides the order of the tensors; a dict or a module may have another one. A weight
    with two names in a module is sent under the one that the server has.

    Args:
        train: ``train(model, task)`` gets what was passed as ``model`` and trains it in place; in a
            dict it may also put other arrays of the same dtypes and shapes. Returns weight, metrics
            and facts, or nothing. Whatever it raises is reported to the server.
        model: a dict of NumPy arrays, a torch module, a dict of tensors, or a model in place of
            your own. ``None``: a dict of arrays is made for the first model that comes.
        returns: ``"values"``, or ``"differences"`` from the received model; integers and booleans
            are sent as values either way.
        baseline: a store that keeps the received model, for differences; ``None``: in memory.
        next_model: where the next round's model is received while this round's update is still
            being sent (duplex): ``"memory"``, or a store. ``None``: after the update only.
        filter_up: clips the update, or adds noise to it, before it leaves this site: a function
            that every range goes through, differences as differences, integers and booleans too
            (but see ``on_floats``). A function of its arguments only: an element that two reads
            share is asked for twice. Or a ``FilterFactory``, asked once for each update.
        declares_norm: compute the norm of what the update changes, and declare it, for a server
            that clips updates while they arrive. It costs a first pass over the update, and needs
            differences; with values ``train`` may return the norm in its ``TaskResult``.
        reports_progress: ``train`` calls ``task.progress()`` itself, so that one that hangs is
            noticed by ``communication_timeout``. By default this process does, while it lives.
        evaluate: ``evaluate(model, task)`` gets what ``train`` gets, and returns metrics, alone or
            in a ``TaskResult`` with their weight. It must not change the model. ``None``: this
            client cannot evaluate.

    Raises:
        ModelError: ``model`` cannot be read and filled in place.
        ValueError: a ``baseline`` or ``declares_norm`` without differences, or another value than
            those above.
    """

    def __init__(
        self,
        train: Train,
        model: Any = None,
        *,
        returns: Literal["values", "differences"] = "values",
        baseline: ModelStore | None = None,
        next_model: Literal["memory"] | ModelStore | None = None,
        filter_up: Filter | None = None,
        declares_norm: bool = False,
        reports_progress: bool = False,
        evaluate: Evaluate | None = None,
    ) -> None:
        if returns not in ("values", "differences"):
            raise ValueError(f"returns must be 'values' or 'differences', not {returns!r}")
        if baseline is not None and returns == "values":
            raise ValueError("a baseline serves differences: pass returns='differences' with it")
        if declares_norm and returns == "values":
            raise ValueError(
                "declares_norm needs returns='differences': the received values are overwritten by "
                "training; or return the norm in a TaskResult"
            )
        if isinstance(next_model, str) and next_model != "memory":
            raise ValueError(f"next_model must be 'memory' or a store, not {next_model!r}")
        self._train = train
        self._trainable = Trainable(model)
        self._kind = UpdateKind.DIFFERENCES if returns == "differences" else UpdateKind.VALUES
        # A copy is needed: training overwrites the received values that are to be subtracted.
        self._baseline = baseline or KeptArrays() if returns == "differences" else None
        self._landing = KeptArrays() if isinstance(next_model, str) else next_model
        self._filter_up, self._declares_norm = filter_up, declares_norm
        self._reports_progress, self._evaluate = reports_progress, evaluate
        self._receiving, self._working = TurnLock(), TurnLock()
        self.overlaps = self._landing is not None
        """Whether a task may begin while the one before it still sends its update."""
        self._streams: TaskStreams | None = None

    @property
    def watched(self) -> tuple[ReceiveTransfer, SendTransfer | None] | None:
        """The two streams of the task that began last, for progress bars; the second comes late."""
        streams = self._streams
        return None if streams is None else (streams.incoming, streams.outgoing)

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, train it, send the update.

        Raises:
            StreamlinkError: a stream failed, or a model does not fit.
            Exception: whatever ``train`` raised.
        """
        with TaskStreams(assignment) as streams, ExitStack() as work:
            self._streams = streams
            work.callback(self._unwatch, streams)
            received = self._receive(task, assignment, streams, work, self._begin)
            result = run_work(
                lambda: self._train(self._trainable.what, task),
                assignment,
                reports_progress=self._reports_progress,
            )
            update = Update(result.weight, self._kind, takes_next=self.overlaps, norm=result.norm)
            work.callback(streams.close_remainder)  # while the model is still locked
            source = streams.as_sent(self._update(task, work), self._filter_up, update)
            if self._declares_norm and update.norm is None:
                update = with_norm(update, source, source, assignment)
            sent = streams.send(source, update, result.metrics)
        return TaskOutcome(task, received, sent, result.metadata)

    def evaluate(self, task: Task, assignment: Assignment) -> EvaluationOutcome:
        """Receive the model in place of the trained one, evaluate it, reply with the metrics.

        Raises:
            ModelError: there is no ``evaluate``, or its result is not allowed.
            StreamlinkError: the stream failed, or the model does not fit.
            Exception: whatever ``evaluate`` raised.
        """
        evaluate = require_evaluate(self._evaluate)
        with TaskStreams(assignment) as streams, ExitStack() as work:
            self._streams = streams
            work.callback(self._unwatch, streams)
            received = self._receive(task, assignment, streams, work, self._place)
            return evaluated(
                lambda: evaluate(self._trainable.what, task),
                task,
                assignment,
                received,
                reports_progress=self._reports_progress,
            )

    def _receive(
        self,
        task: Task,
        assignment: Assignment,
        streams: TaskStreams,
        work: ExitStack,
        begin: Callable[[ModelSpec, Task], ModelSink],
    ) -> Receipt:
        """Receive the model, and enter ``work``, which locks the model for this task."""
        working = assignment.turn(self._working, "the task before")
        if self._landing is None:
            work.enter_context(working)
            return streams.receive(lambda spec: begin(spec, task))
        # Lock order: ``_receiving``, then ``_working``. A task that trains or sends holds only the
        # second, so no two wait for each other; the first is free once the model is copied.
        with assignment.turn(self._receiving, "the model before"):
            receipt = streams.receive(lambda spec: self._land(spec, task))
            # The task before may train for hours; all there is to report is that this process
            # lives.
            with assignment.alive():
                work.enter_context(working)
                with closing(self._landing.open()) as arrived:
                    copy_model(arrived, begin(arrived.spec, task))
        return receipt

    def _land(self, spec: ModelSpec, task: Task) -> ModelSink:
        assert self._landing is not None
        # Refused now: at the copy into the user's model the server would hear of it hours later.
        self._trainable.require(spec)
        part_of(spec, task.part)
        return self._landing.begin(spec)

    def _begin(self, spec: ModelSpec, task: Task) -> ModelSink:
        part = part_of(spec, task.part)  # refuses an unknown pattern before a byte has arrived
        model = self._trainable.place(spec)
        if self._baseline is None:
            return model
        return TeeSink(part_sink(self._baseline.begin(part), spec), model)

    def _place(self, spec: ModelSpec, task: Task) -> ModelSink:
        return self._trainable.place(spec)  # no baseline: nothing is sent back

    def _update(self, task: Task, work: ExitStack) -> ModelSource:
        """Return the update before its filter; ``work`` closes it."""
        trained = self._trainable.trained()
        source = part_source(trained, part_of(trained.spec, task.part))
        if self._baseline is None:
            return source
        # Only the baseline is closed: the model belongs to the user.
        return DifferenceSource(source, work.enter_context(closing(self._baseline.open())))

    def _unwatch(self, streams: TaskStreams) -> None:
        # Where tasks overlap, the next one may be watched by now.
        if self._streams is streams:
            self._streams = None
