"""The on-disk executor: receives the model into one directory, sends the update from another.

For trainers that are separate programs and read and write safetensors. Only a window of each model
is in memory here.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Literal

from streamlink.descriptors import patiently
from streamlink.errors import SpecMismatch, StoreError
from streamlink.executors.evaluation import (
    Evaluate,
    EvaluationOutcome,
    evaluated,
    require_evaluate,
)
from streamlink.executors.executor import Task, TaskOutcome, TaskResult
from streamlink.executors.task_streams import TaskStreams, run_work, with_norm
from streamlink.filters import Filter
from streamlink.link import Update, UpdateKind
from streamlink.link.assignment import Assignment
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.difference import DifferenceSource
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore
from streamlink.model.part import part_of, part_source
from streamlink.model.spec import ModelSpec
from streamlink.stores.files import close_all, disk_errors, lock
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore
from streamlink.stores.safetensors.index import INDEX_NAME, SINGLE_NAME

__all__ = ["OnDiskExecutor", "Work"]

Work = Callable[[Path, Path, Task], TaskResult | None]
"""``work(model_dir, update_dir, task)`` reads the model and writes the update."""


class OnDiskExecutor:
    """Receives each model into ``<directory>/model``, and sends the update that the work wrote.

    The work writes safetensors into ``<directory>/update``: ``model.safetensors``, shards with
    ``model.safetensors.index.json``, or one file of any name. It must have all of the model's
    tensors, or exactly those that the server wants back, in any order. The disk needs room for
    both, and for the old model while a new one arrives.

    One executor at a time may use the directory. It empties ``update`` when it is made, and after
    each task.

    Args:
        work: ``work(model_dir, update_dir, task)``. Returns weight, metrics and facts, or nothing.
            Whatever it raises is reported to the server.
        directory: made where it is missing.
        returns: ``"values"``: the update is sent as it is; ``"differences"``: the update minus the
            received model. Integers and booleans are sent as values either way.
        open_store: returns the store for the received model, in the directory it is given.
        filter_up: clips the update, or adds noise to it, before it leaves this site: a function
            that every range goes through, differences as differences, integers and booleans too
            (but see ``on_floats``). A function of its arguments only: an element that two reads
            share is asked for twice. Or a ``FilterFactory``, asked once for each update.
        declares_norm: compute the norm of what the update changes, and declare it, for a server
            that clips updates while they arrive. It costs a first pass over both models.
        reports_progress: ``work`` calls ``task.progress()`` itself, so that one that hangs is
            noticed by ``communication_timeout``. By default this process does, while it lives.
        evaluate: ``evaluate(model_dir, task)`` reads the model, and returns metrics, alone or in a
            ``TaskResult`` with their weight. ``None``: this client cannot evaluate.

    Raises:
        StoreError: the directory cannot be used, or another executor uses it.
        ValueError: ``returns`` is neither of the two.
    """

    def __init__(
        self,
        work: Work,
        directory: str | Path,
        *,
        returns: Literal["values", "differences"] = "values",
        open_store: Callable[[Path], ModelStore] = SafetensorsStore,
        filter_up: Filter | None = None,
        declares_norm: bool = False,
        reports_progress: bool = False,
        evaluate: Evaluate | None = None,
    ) -> None:
        if returns not in ("values", "differences"):
            raise ValueError(f"returns must be 'values' or 'differences', not {returns!r}")
        self._work = work
        self._kind = UpdateKind.DIFFERENCES if returns == "differences" else UpdateKind.VALUES
        self._filter_up, self._declares_norm = filter_up, declares_norm
        self._reports_progress, self._evaluate = reports_progress, evaluate
        self._model_dir = Path(directory) / "model"
        self._update_dir = Path(directory) / "update"
        self._lock: list[int] = []
        # It is given the list and not this object, which could never be collected otherwise.
        self._closer = weakref.finalize(self, close_all, self._lock)
        with disk_errors(Path(directory), "making the directory of an executor"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            # The lock is on the directory itself, so that no file of ours lies beside the user's.
            self._lock.append(patiently(os.open, directory, os.O_RDONLY | os.O_DIRECTORY))
            lock(self._lock[0], Path(directory))
        self._store = open_store(self._model_dir)
        self._clear()
        self._streams: TaskStreams | None = None

    @property
    def watched(self) -> tuple[ReceiveTransfer, SendTransfer | None] | None:
        """The two streams of the running task, for progress bars; the second comes late."""
        streams = self._streams
        return None if streams is None else (streams.incoming, streams.outgoing)

    def close(self) -> None:
        """Unlock the directory for another executor; the model in it stays."""
        self._closer()

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, call the work, send the update.

        Raises:
            StoreFull: the disk has no room for the model.
            SpecMismatch: the work wrote other tensors than it should.
            StreamlinkError: a stream or a store failed.
            Exception: whatever ``work`` raised.
        """
        with TaskStreams(assignment) as streams, ExitStack() as opened:
            self._streams = streams
            # First in, last out: the directory is emptied after the files in it were closed.
            opened.callback(self._end)
            received = streams.receive(lambda spec: self._begin(spec, task))
            result = run_work(
                lambda: self._work(self._model_dir, self._update_dir, task),
                assignment,
                reports_progress=self._reports_progress,
            )
            update = Update(result.weight, self._kind, norm=result.norm)
            updated = self._update(streams.incoming.spec, task, opened)
            source = streams.as_sent(updated, self._filter_up, update)
            if self._declares_norm and update.norm is None:
                model = opened.enter_context(closing(self._store.open()))
                update = with_norm(update, source, model, assignment)
            sent = streams.send(source, update, result.metrics)
        return TaskOutcome(task, received, sent, result.metadata)

    def evaluate(self, task: Task, assignment: Assignment) -> EvaluationOutcome:
        """Receive the model into the directory, evaluate it, reply with the metrics.

        Raises:
            ModelError: there is no ``evaluate``, or its result is not allowed.
            StreamlinkError: the stream or the store failed.
            Exception: whatever ``evaluate`` raised.
        """
        evaluate = require_evaluate(self._evaluate)
        with TaskStreams(assignment) as streams:
            received = streams.receive(self._store.begin)
            return evaluated(
                lambda: evaluate(self._model_dir, task),
                task,
                assignment,
                received,
                reports_progress=self._reports_progress,
            )

    def _begin(self, spec: ModelSpec, task: Task) -> ModelSink:
        part_of(spec, task.part)  # refuses an unknown pattern before a byte has arrived
        # The old model stays whole until this one is committed, hence the room for both.
        return self._store.begin(spec)

    def _update(self, spec: ModelSpec, task: Task, opened: ExitStack) -> ModelSource:
        """Return the update before its filter; ``opened`` closes it."""
        part = part_of(spec, task.part)
        found = opened.enter_context(closing(_open_update(self._update_dir)))
        _require_tensors(found.spec, spec, part)
        source = part_source(found, part)
        if self._kind is UpdateKind.VALUES:
            return source
        model = opened.enter_context(closing(self._store.open()))
        return DifferenceSource(source, part_source(model, part))

    def _end(self) -> None:
        # Also after a task that failed: what it left must not go out with the update of the next.
        self._streams = None
        self._clear()

    def _clear(self) -> None:
        """Empty the directory of the update, for the next task."""
        with disk_errors(self._update_dir, "clearing the directory of updates"):
            if self._update_dir.exists():
                patiently(shutil.rmtree, self._update_dir)
            self._update_dir.mkdir()


def _open_update(directory: Path) -> SafetensorsSource:
    names = sorted(patiently(os.listdir, directory))
    # The usual names first: other safetensors files may lie beside, such as an optimizer's state.
    if INDEX_NAME in names or SINGLE_NAME in names:
        return SafetensorsSource(directory)
    files = [name for name in names if name.endswith(".safetensors")]
    if len(files) == 1:
        return SafetensorsSource(directory / files[0])
    found = f"it left {', '.join(names[:5])}" if names else "it left nothing there"
    raise StoreError(
        f"{directory}: the work must leave its update here as {SINGLE_NAME}, as shards with "
        f"{INDEX_NAME}, or as one other safetensors file; {found}"
    )


def _require_tensors(found: ModelSpec, model: ModelSpec, part: ModelSpec) -> None:
    """Raise ``SpecMismatch`` unless the update has all tensors of the model, or those of the part.

    In any order: most writers of safetensors sort them.
    """
    # Compared with what it is nearer to, so that the error names the tensor that is wrong.
    wanted = part if found.names.keys() <= part.names.keys() else model
    for tensor in wanted.tensors:
        if tensor.name not in found.names:
            raise SpecMismatch(f"the update that the work left has no tensor {tensor.name!r}")
        if (other := found.tensors[found.names[tensor.name]]) != tensor:
            raise SpecMismatch(
                f"tensor {tensor.name!r} of the update that the work left is {other.dtype} of "
                f"shape {other.shape}; the model's is {tensor.dtype} of shape {tensor.shape}"
            )
    for tensor in found.tensors:
        if tensor.name not in wanted.names:
            raise SpecMismatch(
                f"the update that the work left has a tensor {tensor.name!r}; the model has none"
            )
