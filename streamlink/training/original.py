"""The *original* way, for comparison: whole messages, deep copies, everything at once.

What APPFL 1.12 holds with its optimisation off is held here for as long: the steps in which a
message is encoded and decoded each copy all of it. The wire is the same, so each end may be
original or not. No program that trains needs this; experiments compare it with the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.copying import copy_model
from streamlink.executors import Task, TaskOutcome, TaskResult
from streamlink.executors.task_streams import TaskStreams, run_work
from streamlink.link import Assignment, Update
from streamlink.model import ModelSink, ModelSource, ModelSpec, Payload
from streamlink.stores import ArrayModel, as_model
from streamlink.stores.memory import empty_arrays

__all__ = ["OriginalExecutor", "ReceivedMessage", "SentMessage", "decoded"]

_Arrays = dict[str, npt.NDArray[Any]]


class SentMessage:
    """A model as one message: serialised, put into a request, and that encoded for the wire.

    Each of the three steps copies all of it. Two copies live as long as this object, the encoded
    one until it was sent.

    Args:
        source: the model.
        is_direct: it is serialised once, and sent from there.
    """

    def __init__(self, source: ModelSource, *, is_direct: bool = False) -> None:
        self._spec = source.spec
        self._serialized = b"".join(source.read(0, source.spec.nbytes))
        self._is_read = False
        if is_direct:
            self._request, self._wire = b"", self._serialized
            return
        self._request = bytes(memoryview(self._serialized))
        encoder = bytearray(self._request)  # protobuf encodes into a buffer, and copies that
        self._wire = bytes(encoder)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def read(self, offset: int, length: int) -> Payload:
        """Return a view of the encoded message."""
        self._spec.check_range(offset, length)
        self._is_read |= offset + length == self._spec.nbytes
        return (memoryview(self._wire)[offset : offset + length],)

    def close(self) -> None:
        """Drop the encoded message, which was sent; what it was made from lives on."""
        self._wire = b""

    def release(self) -> None:
        """Drop everything, once the last byte was read."""
        if self._is_read:
            self._serialized = self._request = self._wire = b""


class ReceivedMessage:
    """Takes a model as one message, which is decoded once it is whole.

    The pieces are joined, the joined bytes parsed, and the model's field copied out of that. The
    last two live as long as this object, besides the model that ``decoded`` makes of them.

    Args:
        spec: the tensors.
        is_direct: the pieces are joined, and no more.
    """

    def __init__(self, spec: ModelSpec, *, is_direct: bool = False) -> None:
        self._spec, self._is_direct = spec, is_direct
        self._pieces: dict[int, bytes] = {}
        self._parsed = b""
        self._model: ArrayModel | None = None

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Keep a copy of the piece."""
        self._spec.check_range(offset, payload.nbytes)
        self._pieces[offset] = bytes(payload)

    def commit(self, progress: Callable[[int], None] | None = None) -> None:
        """Join the pieces, and parse the message."""
        joined = b"".join(self._pieces[offset] for offset in sorted(self._pieces))
        self._pieces.clear()
        if not self._is_direct:
            self._parsed = bytes(memoryview(joined))
            joined = bytes(memoryview(self._parsed))
        self._model = ArrayModel(_views(self._spec, joined))

    def discard(self) -> None:
        """Drop the pieces."""
        self._pieces.clear()

    def read(self, offset: int, length: int) -> Payload:
        """Return views of the model's field."""
        assert self._model is not None, "it is not whole yet"
        return self._model.read(offset, length)

    def close(self) -> None:
        """Do nothing: the copies live as long as this object."""


def decoded(source: ModelSource) -> _Arrays:
    """Return a model as new arrays: one more copy of all of it."""
    arrays = empty_arrays(source.spec)
    for index, (name, array) in enumerate(arrays.items()):
        tensor = source.spec.tensors[index]
        raw = b"".join(source.read(source.spec.offset_of(index), tensor.nbytes))
        array[...] = np.frombuffer(raw, tensor.numpy_dtype).reshape(tensor.shape)
        assert name == tensor.name
    return arrays


def _views(spec: ModelSpec, raw: bytes) -> _Arrays:
    arrays: _Arrays = {}
    for index, tensor in enumerate(spec.tensors):
        start = spec.offset_of(index)
        flat = np.frombuffer(raw, np.uint8, tensor.nbytes, start)
        if start % tensor.itemsize:  # a view of a number must be aligned
            flat = flat.copy()
        arrays[tensor.name] = flat.view(tensor.numpy_dtype).reshape(tensor.shape)
    return arrays


class OriginalExecutor:
    """Trains a module beside copies of it: a client with optimisations switched off.

    Args:
        train: ``train(module, task)`` trains it in place.
        module: a ``torch.nn.Module``.
        state: returns the copy of the state that the trainer has made, which is sent; None: the
            module's own.
        is_direct: a model is received into the module. False: into a state of its own, which is
            kept beside the module, and from which the module is filled.
        is_whole: models are received and sent as one whole message.
        is_copied: each step of such a message copies it.
        is_kept: what was received is kept until the next model is decoded, as APPFL's trainer does;
            its dummy trainer does not.
    """

    def __init__(
        self,
        train: Callable[[Any, Task], TaskResult],
        module: Any,
        *,
        state: Callable[[], Mapping[str, Any] | None],
        is_direct: bool,
        is_whole: bool,
        is_copied: bool = True,
        is_kept: bool = True,
    ) -> None:
        self._train, self._module, self._state = train, module, state
        self._is_direct, self._is_whole = is_direct, is_whole
        self._is_copied, self._is_kept = is_copied, is_kept
        self._received: ModelSource | None = None
        # What was sent is there until the next model is decoded: in APPFL one call does both.
        self._sent: ModelSource | None = None

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        """Receive the model, train it, send it.

        Raises:
            StreamlinkError: a stream failed, or a model does not fit.
            Exception: whatever ``train`` raised.
        """
        with TaskStreams(assignment) as streams:
            sinks: list[ModelSink] = []

            def begin(spec: ModelSpec) -> ModelSink:
                sinks.append(self._sink(spec))
                return sinks[-1]

            received = streams.receive(begin)
            sink = sinks.pop()
            names = tuple(sink.spec.names)
            self._place(sink)
            self._sent = None
            del sink  # as the call that returned the model is over, and its buffers with it
            result = run_work(
                lambda: self._train(self._module, task), assignment, reports_progress=False
            )
            self._sent = self._source(names)
            sent = streams.send(self._sent, Update(result.weight), result.metrics)
            if isinstance(self._sent, SentMessage):
                self._sent.close()
            if self._is_direct:
                self._sent = None
        return TaskOutcome(task, received, sent, result.metadata)

    def _sink(self, spec: ModelSpec) -> ModelSink:
        if self._is_whole:
            return ReceivedMessage(spec, is_direct=not self._is_copied)
        if self._is_direct:
            return as_model(_ordered(self._module.state_dict(), tuple(spec.names)))
        return ArrayModel(empty_arrays(spec))

    def _place(self, sink: ModelSink) -> None:
        """Fill the module with what has arrived, unless it has arrived there."""
        if self._is_direct and not self._is_whole:
            return
        assert isinstance(sink, ModelSource)
        arrived: ModelSource = sink
        if not self._is_direct:
            arrived = self._received = ArrayModel(decoded(sink)) if self._is_whole else sink
        copy_model(arrived, self._module)
        if not self._is_kept:
            self._received = None

    def _source(self, names: tuple[str, ...]) -> ModelSource:
        own = self._state()
        state = _ordered(self._module.state_dict() if own is None else own, names)
        source: ModelSource = as_model(state)
        if not self._is_whole:
            return source
        return SentMessage(source, is_direct=not self._is_copied)


def _ordered(state: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    # The server decides the order, and sends a tied weight under one of its names.
    return {name: state[name] for name in names if name in state}
