"""A model as one message, the way frameworks send it that serialize the whole of it.

Without optimization each step makes a copy, and holds what it was made from: tensors are written to
a buffer, the buffer is wrapped into a message, the message is joined into one piece to be sent. At
the receiver the same in reverse order. With it, there is one buffer at each end.

The format is that of safetensors without its file: the length of a header (8 bytes, little-endian),
the header (JSON) and the bytes of all tensors, in order.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamlink.profiling.heap.experiment import ExperimentError
from streamlink.stores import Array

__all__ = ["Message", "pack", "unpack"]

_LENGTH_BYTES = 8
_KEY = "message"
_FIELD = b"\x0a"  # what stands before the bytes of a field


@dataclass(slots=True)
class Message:
    """What is sent or was received, and what its steps hold as long as it is held."""

    arrays: Mapping[str, Array]
    """Sent: what travels; received: the tensors."""
    held: list[Any] = field(default_factory=list)


def pack(arrays: Mapping[str, Array], *, chunking: bool, optimize: bool) -> Message:
    """Return what is sent for a model.

    Args:
        arrays: the model.
        chunking: tensors travel as they are, in chunks; otherwise as one array of bytes.
        optimize: without copies that can be avoided.
    """
    if chunking:
        if optimize:
            return Message(arrays)
        return Message({name: each.copy() for name, each in arrays.items()})
    if optimize:
        return Message({_KEY: _one_buffer(arrays)})
    with io.BytesIO() as buffer:
        for piece in _pieces(arrays):
            buffer.write(piece)
        serialized = buffer.getvalue()
    wrapped = b"".join((_FIELD, serialized))  # a field of a message owns its bytes
    joined = b"".join((_FIELD, wrapped))  # as does the message that is sent
    return Message({_KEY: np.frombuffer(joined, np.uint8)}, [serialized, wrapped])


def unpack(arrived: dict[str, Array], *, chunking: bool, optimize: bool) -> Message:
    """Return the tensors of what has arrived, which is emptied.

    Raises:
        ExperimentError: it is no message of ``pack``: the other end chunks otherwise.
    """
    if chunking:
        if _KEY in arrived:
            raise _other_end("one message", "chunks")
        if optimize:
            return Message(arrived)
        return Message({name: each.copy() for name, each in arrived.items()}, [arrived])
    if _KEY not in arrived:
        raise _other_end("chunks", "one message")
    if optimize:
        return Message(_views(memoryview(arrived.pop(_KEY))))
    joined = arrived.pop(_KEY).tobytes()
    parsed = bytearray(joined)  # the message has a memory of its own
    del joined
    payload = bytes(parsed)  # and gives out a copy of it
    tensors = {
        name: each.copy() for name, each in _views(memoryview(payload)[2 * len(_FIELD) :]).items()
    }
    return Message(tensors, [parsed, payload])


def _one_buffer(arrays: Mapping[str, Array]) -> Array:
    pieces = _pieces(arrays)
    buffer = np.empty(sum(memoryview(each).nbytes for each in pieces), np.uint8)
    at = 0
    for each in pieces:
        view = np.frombuffer(each, np.uint8)
        buffer[at : at + view.size] = view
        at += view.size
    return buffer


def _pieces(arrays: Mapping[str, Array]) -> list[Any]:
    head = json.dumps(
        {name: [each.dtype.str, list(each.shape)] for name, each in arrays.items()}
    ).encode()
    flat = [np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in arrays.values()]
    return [len(head).to_bytes(_LENGTH_BYTES, "little"), head, *flat]


def _views(message: memoryview) -> dict[str, Array]:
    message = message.cast("B")
    size = int.from_bytes(message[:_LENGTH_BYTES], "little")
    at = _LENGTH_BYTES + size
    found = {}
    for name, (dtype, shape) in json.loads(bytes(message[_LENGTH_BYTES:at])).items():
        count = int(np.prod(shape))
        found[name] = np.frombuffer(message, dtype, count, at).reshape(shape)
        at += found[name].nbytes
    return found


def _other_end(sent: str, expected: str) -> ExperimentError:
    return ExperimentError(
        f"the other end sends the model as {sent}, and this one expects {expected}; give both the "
        "same --version (or use_model_chunking in grpc_configs of both configurations)"
    )
