"""The streaming executor: a sink and a source at once.

The answer to one range leaves while the next arrives, so a round costs one traverse of the link,
not two, and memory is two windows whatever the model's size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamlink.errors import LocalProtocolError, ModelError
from streamlink.executors.executor import Task, TaskOutcome, TaskResult
from streamlink.executors.task_streams import TaskStreams, functions_up
from streamlink.filters import Filter
from streamlink.link import Update, UpdateKind
from streamlink.link.client import Assignment
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.computed import RangeFunction
from streamlink.model.difference import subtract
from streamlink.model.interfaces import Payload, payload_bytes
from streamlink.model.part import part_of
from streamlink.model.payloads import as_bytes_view, join
from streamlink.model.spec import ModelSpec, Segment, TensorSpec

__all__ = ["StreamingExecutor"]

Array = npt.NDArray[Any]


class StreamingExecutor:
    """Applies a function to each range of the model as it arrives, and sends the result at once.

    Where the server asks for a part of the model, the function is asked for that part only; the
    rest arrives and is dropped.

    Args:
        function: ``function(tensor, start, values)`` returns the updated elements
            ``[start, start + len(values))`` of the flat tensor; ``values`` is 1-D, read-only and
            has the tensor's dtype, and so must the result. A function of its arguments only: it may
            be asked for any range again, also by another process (see ``is_pure``).
        weight: this client's weight in the mean (for example its number of samples), or a function
            of the task that gives it. Called before the first range.
        metrics: numbers to report with the update; called when the last range was sent.
        metadata: small facts for the server; called after the metrics.
        returns: ``"values"``: the function's results are sent; ``"differences"``: what they differ
            by from the values. Integers and booleans are sent as values either way.
        filter_up: clips the update, or adds noise to it, before it leaves this site: a function
            that every range goes through, differences as differences, integers and booleans too
            (but see ``on_floats``). Or a ``FilterFactory``, asked once for each update.
        is_pure: the function and the filter give the same bits for the same range, in any process
            and in whatever order ranges come: what is random is seeded with the tensor's name and
            the position. Where this process is killed within a round, and started again, the server
            asks it for the rest of its update only. False: what came before matters; its update
            then begins again, and in lockstep the round, for everybody.

    Raises:
        ValueError: another word for ``returns``.
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
    ) -> None:
        if returns not in ("values", "differences"):
            raise ValueError(f"returns must be 'values' or 'differences', not {returns!r}")
        self._function = function
        self._weight = weight
        self._metrics = metrics
        self._metadata = metadata
        self._filter_up = filter_up
        self.is_pure = is_pure
        self._kind = UpdateKind.DIFFERENCES if returns == "differences" else UpdateKind.VALUES
        self.watched: tuple[ReceiveTransfer, SendTransfer] | None = None
        """The two streams of the running task, for progress bars."""

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, and send each range on as soon as it is computed.

        Raises:
            ModelError: weight, metrics or metadata are not as in ``TaskResult``, or a pattern of
                the part matches nothing, or a function's result does not fit.
            StreamlinkError: a stream failed.
        """
        with TaskStreams(assignment) as streams:
            incoming = streams.incoming
            incoming.open()
            part = part_of(incoming.spec, task.part)
            weight = self._weight(task) if callable(self._weight) else self._weight
            update = Update(TaskResult(weight).weight, self._kind, is_pure=self.is_pure)
            filters = functions_up(self._filter_up, assignment, update)
            outgoing = streams.answer(part, update)
            outgoing.when_held(incoming.hold)
            self.watched = incoming, outgoing
            try:
                ranges = _Ranges(incoming.spec, partial(self._map, filters), part)
                answers = _Answers(incoming, outgoing, ranges)
                outgoing.pull(answers.supply)
                answers.finish()
                received = incoming.commit()
                result = TaskResult(weight, self._metrics(), self._metadata())
                sent = outgoing.finish(result.metrics)
            finally:
                self.watched = None
        return TaskOutcome(task, received, sent, result.metadata)

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
    """The update as the stream draws it: each range is computed when there is room for it.

    The carrier's writer computes, so that between the arrival of a range and the departure of its
    answer no thread has to wake another.
    """

    def __init__(self, incoming: ReceiveTransfer, outgoing: SendTransfer, ranges: _Ranges) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._ranges = ranges
        self._ready: deque[memoryview] = deque()
        self._to_release = 0
        self._position = outgoing.extent.start
        # The server knows by itself why the first answers take a moment.
        self._pulse = outgoing.pulse("part", "the model's other tensors", at_once=False)

    def supply(self, offset: int, nbytes: int) -> Payload:
        """Return the next answer, at most ``nbytes`` of it; waits for the range it is of.

        Nothing where what came is not in the part: then the writer may say that we hold.
        """
        if offset != self._position:
            raise LocalProtocolError(
                f"asked for byte {offset} again; answers are at {self._position}"
            )
        payload = self._next(nbytes)
        self._position += payload_bytes(payload)
        return payload

    def finish(self) -> None:
        """Take what of the model is not in the part, to its end."""
        while not self._incoming.is_complete:
            self._read()
        self._release()

    def _next(self, nbytes: int) -> Payload:
        if not self._ready:
            self._read()
        if not self._ready:
            if self._incoming.is_complete:
                raise ModelError("the model is complete, and its answer is not")
            return ()
        view = self._ready.popleft()
        if view.nbytes > nbytes:
            self._ready.appendleft(view[nbytes:])
            return (view[:nbytes],)
        return (view,)

    def _read(self) -> None:
        self._release()
        piece = self._incoming.read()
        if piece is not None:
            self._to_release = payload_bytes(piece[1])
            answers = self._ranges.apply(*piece)
            self._ready.extend(answers)
            if not answers:
                self._pulse.beat()  # nothing to send while the rest of the model arrives
        if self._incoming.is_exhausted:
            self._release()  # nobody will ask again

    def _release(self) -> None:
        if self._to_release:
            self._incoming.release(self._to_release)
            self._to_release = 0


class _Ranges:
    """Cuts what arrives into ranges of whole elements of one tensor, and maps those of the part."""

    def __init__(
        self, spec: ModelSpec, function: RangeFunction, part: ModelSpec | None = None
    ) -> None:
        self._spec = spec
        self._wanted = (part or spec).names
        self._function = function
        self._cut = memoryview(b"")  # the first bytes of an element whose rest has not arrived

    def apply(self, offset: int, payload: tuple[memoryview, ...]) -> list[memoryview]:
        """Return the results for every whole element of the part that is now here, in order."""
        if self._cut:
            payload, offset = (self._cut, *payload), offset - self._cut.nbytes
        view = payload[0] if len(payload) == 1 else join(payload)
        results, at = [], 0
        for segment in self._spec.segments(offset, view.nbytes):
            length = segment.stop - segment.start
            whole = length - length % segment.tensor.itemsize
            if whole and segment.tensor.name in self._wanted:
                results.append(self._map(segment, view[at : at + whole]))
            at += whole
        self._cut = memoryview(bytes(view[at:]))
        return results

    def _map(self, segment: Segment, view: memoryview) -> memoryview:
        tensor = segment.tensor
        values: Array = np.frombuffer(view, dtype=tensor.numpy_dtype)
        result = self._function(tensor, segment.start // tensor.itemsize, values)
        return as_bytes_view(np.ascontiguousarray(result))
