"""The streaming executor: a sink and a source at once.

It sends the result of one range while the next range arrives. So a round takes one transfer time
instead of two, and memory is two windows, whatever the model's size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamlink.errors import LocalProtocolError, ModelError
from streamlink.executors.evaluation import (
    Evaluate,
    EvaluationOutcome,
    evaluate_arrays,
    require_evaluate,
)
from streamlink.executors.executor import Task, TaskOutcome, TaskResult
from streamlink.executors.task_streams import TaskStreams, functions_up
from streamlink.filters import Filter
from streamlink.link import Update, UpdateKind
from streamlink.link.assignment import Assignment
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.computed import RangeFunction
from streamlink.model.difference import subtract
from streamlink.model.interfaces import Payload, payload_bytes
from streamlink.model.part import part_of
from streamlink.model.payloads import as_bytes_view, join
from streamlink.model.spec import BLOCK_ELEMENTS, ModelSpec, Segment, TensorSpec

__all__ = ["StreamingExecutor"]

Array = npt.NDArray[Any]


class StreamingExecutor:
    """Applies a function to each range of the model as it arrives, and sends the result at once.

    If the server wants a part of the model only, the function is called for that part; the rest is
    received and dropped.

    Args:
        function: ``function(tensor, start, values)`` returns the updated elements
            ``[start, start + len(values))`` of the flat tensor; ``values`` is 1-D, read-only and
            has the tensor's dtype, and so must the result. It must depend on its arguments only: it
            may be called for any range again, also in another process (see ``is_pure``).
        weight: this client's weight in the mean (for example its number of samples), or a function
            of the task that returns it. Called before the first range.
        metrics: numbers to report with the update; called when the last range was sent.
        metadata: small facts for the server; called after the metrics.
        returns: ``"values"``: the function's results are sent; ``"differences"``: results minus
            values. Integers and booleans are sent as values either way.
        filter_up: clips the update, or adds noise to it, before it leaves this site: a function
            that every range goes through, differences as differences, integers and booleans too
            (but see ``on_floats``). Or a ``FilterFactory``, asked once for each update.
        is_pure: the function and the filter return the same bits for the same range, in any process
            and in any order of ranges: seed what is random with the tensor's name and the position.
            If this process is killed within a round and restarted, the server then asks it for the
            rest of its update only. False: the function keeps state; its update begins again, and
            in lockstep so does the round, for all clients.
        evaluate: ``evaluate(arrays, task)`` gets the whole model as a dict of arrays, which are in
            memory as long as it runs, and returns metrics, alone or in a ``TaskResult`` with their
            weight. ``None``: this client cannot evaluate.

    Raises:
        ValueError: ``returns`` is neither of the two.
    """

    def __init__(
        self,
        function: RangeFunction,
        *,
        weight: float | Callable[[Task], float] = 1.0,
        metrics: Callable[[], Mapping[str, float]] = dict,
        metadata: Callable[[], Mapping[str, str]] = dict,
        returns: Literal["values", "differences"] = "values",
        filter_up: Filter | None = None,
        is_pure: bool = True,
        evaluate: Evaluate | None = None,
    ) -> None:
        if returns not in ("values", "differences"):
            raise ValueError(f"returns must be 'values' or 'differences', not {returns!r}")
        self._function = function
        self._weight = weight
        self._metrics = metrics
        self._metadata = metadata
        self._filter_up = filter_up
        self.is_pure, self._evaluate = is_pure, evaluate
        self._kind = UpdateKind.DIFFERENCES if returns == "differences" else UpdateKind.VALUES
        self.watched: tuple[ReceiveTransfer, SendTransfer] | None = None
        """The two streams of the running task, for progress bars."""

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, and send each range on as soon as it is computed.

        Raises:
            ModelError: weight, metrics or metadata are not allowed (see ``TaskResult``), a pattern
                of the part matches nothing, or a function's result does not fit.
            StreamlinkError: a stream failed.
        """
        with TaskStreams(assignment) as streams:
            incoming = streams.incoming
            incoming.open()
            part = part_of(incoming.spec, task.part)
            weight = self._weight(task) if callable(self._weight) else self._weight
            # Checked as in a result, though there is none yet: it is announced before the first
            # range.
            update = Update(TaskResult(weight).weight, self._kind, is_pure=self.is_pure)
            filters = functions_up(self._filter_up, assignment, update)
            rounder = streams.rounder(part)
            outgoing = streams.answer(part, update)
            if rounder is not None:
                filters.append(rounder)
                outgoing.measured_by(rounder)
            # While the server holds the update we do not read the model. Pass the notice on, or the
            # server would take us for a stalled reader.
            outgoing.when_held(incoming.hold)
            self.watched = incoming, outgoing
            try:
                block = BLOCK_ELEMENTS if rounder is not None else 1
                ranges = RangeMapper(incoming.spec, partial(self._map, filters), part, block=block)
                answers = _Answers(incoming, outgoing, ranges)
                # The writer computes, in its own thread; this one only waits until all is written.
                outgoing.pull(answers.supply)
                answers.finish()
                # Before the update is finished: that may wait for all other clients, and the server
                # waits for this commit with a deadline.
                received = incoming.commit()
                result = TaskResult(weight, self._metrics(), self._metadata())
                sent = outgoing.finish(result.metrics)
                streams.keep_remainder()
            finally:
                self.watched = None
        return TaskOutcome(task, received, sent, result.metadata)

    def evaluate(self, task: Task, assignment: Assignment) -> EvaluationOutcome:
        """Receive the model into memory, evaluate it, reply with the metrics.

        Raises:
            ModelError: there is no ``evaluate``, or its result is not allowed.
            StreamlinkError: the stream failed.
            Exception: whatever ``evaluate`` raised.
        """
        return evaluate_arrays(require_evaluate(self._evaluate), task, assignment)

    def _map(
        self, filters: Sequence[RangeFunction], tensor: TensorSpec, start: int, values: Array
    ) -> Array:
        result = self._function(tensor, start, values)
        _require_fit("the task's function", tensor, result, values)
        if self._kind is UpdateKind.DIFFERENCES and values.dtype.kind not in "iub":
            difference = np.empty_like(values)
            subtract(result, values, difference)
            result = difference
        for function in filters:
            unfiltered = result.view()
            unfiltered.flags.writeable = False
            result = function(tensor, start, unfiltered)
            _require_fit("the filter", tensor, result, values)
        return result


def _require_fit(whose: str, tensor: TensorSpec, result: Array, values: Array) -> None:
    if result.dtype != values.dtype or result.shape != values.shape:
        raise ModelError(
            f"tensor {tensor.name!r}: {whose} returned {result.dtype} of shape {result.shape}, "
            f"expected {values.dtype} of shape {values.shape}"
        )


class _Answers:
    """The update, pulled by its stream: each range is computed when there is room for it.

    The carrier's writer thread computes. So no thread has to wake another one between the arrival
    of a range and the departure of its result.
    """

    def __init__(
        self, incoming: ReceiveTransfer, outgoing: SendTransfer, ranges: RangeMapper
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._ranges = ranges
        self._ready: deque[memoryview] = deque()
        self._to_release = 0
        self._position = outgoing.extent.start
        # The server knows by itself why the first answers take a moment.
        self._pulse = outgoing.pulse("part", "the model's other tensors", at_once=False)

    def supply(self, offset: int, nbytes: int) -> Payload:
        """Return at most ``nbytes`` of the next result; wait for its range.

        Empty if the range is not in the part: then the writer can send a notice.
        """
        # Results are not kept here. What was sent and not received is in the stream, which sends it
        # again by itself, so a second pull of a byte is a fault.
        if offset != self._position:
            raise LocalProtocolError(
                f"byte {offset} was pulled again; the results are at byte {self._position}"
            )
        payload = self._next(nbytes)
        self._position += payload_bytes(payload)
        return payload

    def finish(self) -> None:
        """Receive the rest of the model, which is not in the part."""
        while not self._incoming.is_complete:
            self._read()
        self._release()

    def _next(self, nbytes: int) -> Payload:
        if not self._ready:
            self._read()
        if not self._ready:
            if self._incoming.is_complete:
                raise ModelError("the model has arrived, but its update is not complete")
            return ()
        view = self._ready.popleft()
        if view.nbytes > nbytes:
            self._ready.appendleft(view[nbytes:])
            return (view[:nbytes],)
        return (view,)

    def _read(self) -> None:
        # Only now that all results of the last piece were pulled: one piece waits here at most.
        self._release()
        piece = self._incoming.read()
        if piece is not None:
            self._to_release = payload_bytes(piece[1])
            answers = self._ranges.apply(*piece)
            self._ready.extend(answers)
            if not answers:
                self._pulse.beat()  # nothing to send while the rest of the model arrives
        if self._incoming.is_exhausted:
            self._release()  # ``supply`` will not be called again

    def _release(self) -> None:
        if self._to_release:
            self._incoming.release(self._to_release)
            self._to_release = 0


class RangeMapper:
    """Cuts what arrives into ranges of whole blocks of one tensor, and maps the part's ranges.

    Args:
        spec: the model.
        function: gets each range.
        part: the tensors that are wanted; None: all.
        block: elements that stay together, counted from the beginning of a tensor.
    """

    def __init__(
        self,
        spec: ModelSpec,
        function: RangeFunction,
        part: ModelSpec | None = None,
        *,
        block: int = 1,
    ) -> None:
        self._spec = spec
        self._wanted = (part or spec).names
        self._function = function
        self._block = block
        self._cut = memoryview(b"")  # the first bytes of a block whose rest has not arrived

    def apply(self, offset: int, payload: tuple[memoryview, ...]) -> list[memoryview]:
        """Return the results for all whole blocks of the part that have arrived, in order."""
        if self._cut:
            payload, offset = (self._cut, *payload), offset - self._cut.nbytes
        view = payload[0] if len(payload) == 1 else join(payload)
        results, at = [], 0
        for segment in self._spec.segments(offset, view.nbytes):
            whole = segment.stop - segment.start
            if segment.stop < segment.tensor.nbytes:  # a tensor's last block may be short
                whole -= whole % (self._block * segment.tensor.itemsize)
            if whole and segment.tensor.name in self._wanted:
                results.append(self._map(segment, view[at : at + whole]))
            at += whole
        # A copy of less than a block: a view of it would keep the whole chunk alive.
        self._cut = memoryview(bytes(view[at:]))
        return results

    def _map(self, segment: Segment, view: memoryview) -> memoryview:
        tensor = segment.tensor
        values: Array = np.frombuffer(view, dtype=tensor.numpy_dtype)
        result = self._function(tensor, segment.start // tensor.itemsize, values)
        # A function may return a view with strides; what travels is one piece of memory.
        return as_bytes_view(np.ascontiguousarray(result))
