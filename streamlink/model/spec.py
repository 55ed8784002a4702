"""The spec of a model: names, dtypes and shapes of its tensors, in a fixed order.

All tensors laid end to end in spec order form the *logical* bytes of the model. Sources, sinks,
chunks and digests work on ranges of them; only this module translates between such a range and the
tensors in it. dtypes have the names that safetensors gives them, and bytes are little-endian.
"""

from __future__ import annotations

import math
import operator
import struct
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import Any

import ml_dtypes
import numpy as np

from streamlink.errors import ModelError, SpecMismatch, UnsupportedDtype

__all__ = [
    "BLOCK_ELEMENTS",
    "DTYPES",
    "ModelSpec",
    "Segment",
    "TensorSpec",
    "dtype_name",
    "require_same",
]

BLOCK_ELEMENTS = 256
"""Elements of a tensor that a lossy format may round together, counted from the tensor's beginning.
Whoever stops and goes on within a model does it between such blocks."""

# The byte order is explicit: these are the bytes on the wire and on the disk, on every machine.
# ml_dtypes has the machine's order only, so ``dtype_name`` refuses it where that is big-endian.
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "C64": np.dtype("<c8"),
}
"""Every supported dtype: safetensors' name → NumPy's dtype."""

_ITEMSIZES = {name: dtype.itemsize for name, dtype in DTYPES.items()}
# The next two fit the fields of the canonical encoding: the length of a name has 16 bits there, the
# rank 8.
_MAX_NAME_BYTES = 4096
_MAX_RANK = 255
_MAX_MODEL_BYTES = (1 << 63) - 1  # offsets fit a signed 64-bit integer in files and on the wire
_ENCODING_TAG = b"streamlink model spec 1\0"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor's name, dtype (safetensors' name) and shape (``()`` for a 0-d tensor).

    Raises:
        UnsupportedDtype: the dtype is not in ``DTYPES``.
        ModelError: the name is empty or too long, or a dimension is not an integer of at least 0.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in _ITEMSIZES:
            raise UnsupportedDtype(
                f"tensor {self.name!r}: dtype {self.dtype!r} is not one of {', '.join(DTYPES)}"
            )
        _check_name(self.name)
        # Frozen dataclasses are assigned in this way. The shape becomes plain integers: NumPy's
        # would wrap when they are multiplied, and JSON refuses them.
        object.__setattr__(self, "shape", _checked_shape(self.name, self.shape))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZES[self.dtype]

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return math.prod(self.shape) * _ITEMSIZES[self.dtype]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements (``ml_dtypes`` for BF16 and FP8)."""
        return DTYPES[self.dtype]


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes ``[start, stop)`` *inside* the tensor at position ``index`` of the spec."""

    index: int
    tensor: TensorSpec
    start: int
    stop: int


@dataclass(frozen=True)
class ModelSpec:
    """The tensors of a model, in logical order.

    Raises:
        SpecMismatch: two tensors have the same name.
        ModelError: the model has more bytes than a 63-bit offset can address.
    """

    tensors: tuple[TensorSpec, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", tuple(self.tensors))
        if len({tensor.name for tensor in self.tensors}) != len(self.tensors):
            raise SpecMismatch(f"tensor {_first_duplicate(self.tensors)!r} is in the spec twice")
        # Exact, whatever shapes a peer sends: Python's integers do not wrap.
        if self.nbytes > _MAX_MODEL_BYTES:
            raise ModelError(
                f"the model has {self.nbytes} bytes, above the limit of {_MAX_MODEL_BYTES}"
            )

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors together."""
        return self._starts[-1]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 (32 bytes) over the canonical encoding; equal exactly for equal specs.

        The encoding is a tag, then the number of tensors (u64), then for each tensor the length of
        its name (u16), the name (UTF-8), the length of its dtype (u8), the dtype (ASCII), its rank
        (u8) and its dimensions (u64 each). All integers are little-endian.
        """
        hasher = sha256(_ENCODING_TAG + struct.pack("<Q", len(self.tensors)))
        for tensor in self.tensors:
            hasher.update(_encode(tensor))
        return hasher.digest()

    @cached_property
    def names(self) -> dict[str, int]:
        """Each tensor's position, by name."""
        return {tensor.name: index for index, tensor in enumerate(self.tensors)}

    def offset_of(self, index: int) -> int:
        """Return the logical offset of the first byte of tensor ``index``.

        Raises:
            IndexError: there is no such tensor.
        """
        if not 0 <= index < len(self.tensors):
            raise IndexError(f"tensor {index} of {len(self.tensors)}")
        return self._starts[index]

    def locate(self, offset: int) -> tuple[int, int]:
        """Return (position of the tensor, offset inside it) of logical byte ``offset``.

        Raises:
            ValueError: the byte is not inside the model.
        """
        if not 0 <= offset < self.nbytes:
            raise ValueError(f"byte {offset} is not inside a model of {self.nbytes} bytes")
        # Tensors of zero bytes share their start with the next; the right-most of equals has bytes.
        index = bisect_right(self._starts, offset) - 1
        return index, offset - self._starts[index]

    def block_start(self, offset: int) -> int:
        """Return where the block of ``BLOCK_ELEMENTS`` begins that has byte ``offset``.

        The end of the model begins a block.

        Raises:
            ValueError: the model has no such byte.
        """
        if offset == self.nbytes:
            return offset
        index, inside = self.locate(offset)
        return offset - inside % (BLOCK_ELEMENTS * self.tensors[index].itemsize)

    def segments(self, offset: int, length: int) -> Iterator[Segment]:
        """Yield the pieces of tensors in ``[offset, offset + length)``, in order.

        Tensors without bytes are skipped. The cost grows with the pieces, not with the spec.

        Raises:
            ValueError: the range is not inside the model (raised at the call, not at ``next``).
        """
        tensors = self.tensors
        spans = self.spans(offset, length)
        return (Segment(index, tensors[index], start, stop) for index, start, stop in spans)

    def spans(self, offset: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Yield (tensor position, start, stop) as ``segments`` does, at a third of its cost."""
        self.check_range(offset, length)
        return self._spans(offset, offset + length)

    def check_range(self, offset: int, length: int) -> None:
        """Raise ``ValueError`` unless ``[offset, offset + length)`` is inside the model."""
        if offset < 0 or length < 0 or offset + length > self.nbytes:
            raise ValueError(
                f"bytes [{offset}, {offset + length}) are not inside a model of {self.nbytes} bytes"
            )

    def difference(self, other: ModelSpec, ours: str, theirs: str) -> str:
        """Return a sentence about the first difference, or ``""`` for equal specs.

        Args:
            other: the spec to compare with.
            ours: who has this spec, such as "the server". The sentence may be read at either end,
                so it names both.
            theirs: who has the other spec.
        """
        if self.tensors == other.tensors:
            return ""
        for index, (one, another) in enumerate(zip(self.tensors, other.tensors, strict=False)):
            if one != another:
                what, mine, yours = _tensor_difference(index, one, another)
                return f"{what}: {ours} has {mine}, {theirs} {yours}"
        if len(self.tensors) < len(other.tensors):
            return _missing(self, other, ours, theirs)
        return _missing(other, self, theirs, ours)

    @cached_property
    def _starts(self) -> list[int]:
        # A plain list: bisect on it is faster than on an array, whose items are boxed each time.
        return list(accumulate((tensor.nbytes for tensor in self.tensors), initial=0))

    def _spans(self, offset: int, stop: int) -> Iterator[tuple[int, int, int]]:
        if offset == stop:
            return
        starts = self._starts
        index = bisect_right(starts, offset) - 1
        while offset < stop:
            start, end = starts[index], starts[index + 1]
            # Tensors without bytes are passed over.
            if end > offset:
                piece_stop = min(stop, end)
                yield index, offset - start, piece_stop - start
                offset = piece_stop
            index += 1


def require_same(ours: ModelSpec, theirs: ModelSpec, who: str, than: str) -> None:
    """Raise ``SpecMismatch`` that names the first difference, unless the specs agree.

    Args:
        ours: what ``than`` has.
        theirs: what ``who`` has.
        who: the side that is wrong, such as "the sender".
        than: the side that it should agree with, such as "the receiver".
    """
    # Identity first: sources and sinks of one process often share a spec, and comparing 100,000
    # tensors takes time.
    if ours is not theirs and (difference := ours.difference(theirs, than, who)):
        raise SpecMismatch(f"{who} has another model: {difference}")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return safetensors' name of a NumPy dtype.

    Raises:
        UnsupportedDtype: elements of this kind are not supported; says what to do instead.
    """
    if dtype.itemsize > 1 and (dtype.byteorder == ">" or _is_foreign_native(dtype)):
        raise UnsupportedDtype(
            f"dtype {dtype} is big-endian; convert it first: "
            "array.astype(array.dtype.newbyteorder('<'))"
        )
    for name, known in DTYPES.items():
        if dtype == known:
            return name
    raise UnsupportedDtype(f"dtype {dtype} is not supported: {_refusal(dtype)}")


def _is_foreign_native(dtype: np.dtype[Any]) -> bool:
    # NumPy marks the machine's own order with ``=``, whichever it is.
    return sys.byteorder == "big" and dtype.byteorder == "="


def _refusal(dtype: np.dtype[Any]) -> str:
    if dtype.names is not None:
        return "it is structured; send each field as a tensor of its own"
    if dtype.kind == "O":
        return "it holds Python objects, and streamlink does not pickle"
    if dtype.kind in "US":
        return "it holds text; encode it as bytes of dtype uint8"
    if dtype.kind in "mM":
        return "it holds dates or times; send array.view('int64')"
    if dtype.kind == "c":
        return "complex64 is the only complex type; cast it, or send array.view('float64')"
    if dtype.kind == "f":
        return "its layout depends on the machine; cast it to float64"
    return f"the supported ones are {', '.join(DTYPES)}"


def _check_name(name: str) -> None:
    if not name:
        raise ModelError("a tensor's name is empty; give each tensor a name")
    # Nearly all names are ASCII, and their length in bytes is known without encoding them. Encoding
    # the others also finds lone surrogates, which have no UTF-8 form.
    try:
        length = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError as error:
        raise ModelError(f"tensor name {name!r} is not valid Unicode") from error
    if length > _MAX_NAME_BYTES:
        raise ModelError(
            f"tensor name {name[:40]!r}... has {length} bytes; the limit is {_MAX_NAME_BYTES}"
        )


def _checked_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    try:
        checked = tuple(map(operator.index, shape))
    except TypeError as error:
        raise ModelError(f"tensor {name!r}: shape {shape!r} is not made of integers") from error
    if checked and min(checked) < 0:
        raise ModelError(f"tensor {name!r}: shape {checked} has a negative dimension")
    if len(checked) > _MAX_RANK or max(checked, default=0) > _MAX_MODEL_BYTES:
        raise ModelError(
            f"tensor {name!r}: a shape has at most {_MAX_RANK} dimensions of at most "
            f"{_MAX_MODEL_BYTES} elements each"
        )
    return checked


def _encode(tensor: TensorSpec) -> bytes:
    name, dtype, rank = tensor.name.encode(), tensor.dtype.encode(), len(tensor.shape)
    return struct.pack(
        f"<H{len(name)}sB{len(dtype)}sB{rank}Q",
        len(name),
        name,
        len(dtype),
        dtype,
        rank,
        *tensor.shape,
    )


def _first_duplicate(tensors: tuple[TensorSpec, ...]) -> str:
    counts = Counter(tensor.name for tensor in tensors)
    return next(name for name, count in counts.items() if count > 1)


def _tensor_difference(
    index: int, ours: TensorSpec, theirs: TensorSpec
) -> tuple[str, object, object]:
    """Return what differs, and its value on each side."""
    if ours.name != theirs.name:
        return f"tensor {index} differs", repr(ours.name), repr(theirs.name)
    if ours.dtype != theirs.dtype:
        return f"tensor {ours.name!r} differs in dtype", ours.dtype, theirs.dtype
    return f"tensor {ours.name!r} differs in shape", ours.shape, theirs.shape


def _missing(shorter: ModelSpec, longer: ModelSpec, lacks: str, has: str) -> str:
    few, many = len(shorter.tensors), len(longer.tensors)
    name = longer.tensors[few].name
    return f"{lacks} lacks tensor {name!r} ({has} has {many} tensors, {lacks} {few})"
