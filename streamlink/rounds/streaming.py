"""The streaming executor: a sink and a source at once.

The answer to one range leaves while the next arrives, so a round costs one traverse of the link,
not two, and memory is two windows whatever the model's size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import LocalProtocolError, ModelError
from streamlink.link import Update
from streamlink.link.client import Assignment
from streamlink.link.faults import abort_code
from streamlink.link.incoming import IncomingModel
from streamlink.link.outgoing import OutgoingModel
from streamlink.model.interfaces import Payload, payload_bytes
from streamlink.model.mapped import RangeFunction
from streamlink.model.payloads import as_bytes_view, join
from streamlink.model.spec import ModelSpec, Segment
from streamlink.rounds.executor import Task, TaskOutcome

__all__ = ["StreamingExecutor"]


class StreamingExecutor:
    """Applies a function to each range of the model as it arrives, and sends the result at once.

    Args:
        function: ``function(tensor, start, values)`` returns the updated elements
            ``[start, start + len(values))`` of the flat tensor; ``values`` is 1-D, read-only and
            has the tensor's dtype, and so must the result. A function of its arguments only: it may
            be asked for any range again.
        weight: this client's weight in the mean (for example its number of samples).
        metrics: numbers to report with the update; called when the last range was sent.
    """

    def __init__(
        self,
        function: RangeFunction,
        *,
        weight: float = 1.0,
        metrics: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._function = function
        self._weight = weight
        self._metrics = metrics
        self.watched: tuple[IncomingModel, OutgoingModel] | None = None
        """The two streams of the running task, for progress bars."""

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, and send each range on as soon as it is computed.

        Raises:
            StreamlinkError: a stream failed, or the function's result does not fit.
        """
        incoming = assignment.incoming()
        outgoing: OutgoingModel | None = None
        try:
            incoming.open()
            outgoing = assignment.outgoing(incoming.spec, Update(self._weight))
            outgoing.when_held(incoming.hold)
            self.watched = incoming, outgoing
            outgoing.draw(_Answers(incoming, self._function).supply)
            while not incoming.is_complete:
                incoming.read()
            received = incoming.commit()
            sent = outgoing.finish(self._metrics())
            return TaskOutcome(task, received, sent)
        except BaseException as error:
            for model in (incoming, outgoing):
                if model is not None:
                    model.abort(abort_code(error), str(error))
            if outgoing is not None:
                outgoing.pump.wait_undrawn()  # the work may still run: one task at a time
            raise
        finally:
            self.watched = None
            assignment.close(incoming, *([outgoing] if outgoing else []))


class _Answers:
    """The update as the stream draws it: each range is computed when there is room for it.

    The carrier's writer computes, so that between the arrival of a range and the departure of its
    answer no thread has to wake another.
    """

    def __init__(self, incoming: IncomingModel, function: RangeFunction) -> None:
        self._incoming = incoming
        self._ranges = _Ranges(incoming.spec, function)
        self._ready: deque[memoryview] = deque()
        self._to_release = 0
        self._position = 0

    def supply(self, offset: int, nbytes: int) -> Payload:
        """Return the next answer, at most ``nbytes`` of it; waits for the range it is of."""
        if offset != self._position:
            raise LocalProtocolError(
                f"asked for byte {offset} again; answers are at {self._position}"
            )
        payload = self._next(nbytes)
        self._position += payload_bytes(payload)
        return payload

    def _next(self, nbytes: int) -> Payload:
        while not self._ready:
            self._read()
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
            self._ready.extend(self._ranges.apply(*piece))
        elif self._incoming.is_complete:
            raise ModelError("the model is complete, and its answer is not")
        if self._incoming.is_exhausted:
            self._release()  # nobody will ask again

    def _release(self) -> None:
        if self._to_release:
            self._incoming.release(self._to_release)
            self._to_release = 0


class _Ranges:
    """Cuts what arrives into ranges of whole elements of one tensor, and maps each."""

    def __init__(self, spec: ModelSpec, function: RangeFunction) -> None:
        self._spec = spec
        self._function = function
        self._cut = memoryview(b"")  # the first bytes of an element whose rest has not arrived

    def apply(self, offset: int, payload: tuple[memoryview, ...]) -> list[memoryview]:
        """Return the results for every whole element that is now here, in order."""
        if self._cut:
            payload, offset = (self._cut, *payload), offset - self._cut.nbytes
        view = payload[0] if len(payload) == 1 else join(payload)
        results, at = [], 0
        for segment in self._spec.segments(offset, view.nbytes):
            length = segment.stop - segment.start
            whole = length - length % segment.tensor.itemsize
            if whole:
                results.append(self._map(segment, view[at : at + whole]))
            at += whole
        self._cut = memoryview(bytes(view[at:]))
        return results

    def _map(self, segment: Segment, view: memoryview) -> memoryview:
        tensor = segment.tensor
        values: npt.NDArray[Any] = np.frombuffer(view, dtype=tensor.numpy_dtype)
        result = self._function(tensor, segment.start // tensor.itemsize, values)
        if result.dtype != values.dtype or result.shape != values.shape:
            raise ModelError(
                f"tensor {tensor.name!r}: the task's function returned {result.dtype} of shape "
                f"{result.shape}, expected {values.dtype} of shape {values.shape}"
            )
        return as_bytes_view(np.ascontiguousarray(result))
