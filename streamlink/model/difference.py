"""One model minus another, computed range by range as it is read: what training changed.

Floating point and complex tensors travel as differences. Integers and booleans travel as values,
because their difference may not fit their type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.model.interfaces import Check, ModelSource, Payload, watch
from streamlink.model.payloads import BufferPool, PayloadReader
from streamlink.model.spec import ModelSpec, Segment, require_same

__all__ = ["DifferenceSource", "subtract"]

_Array = npt.NDArray[Any]

_WIDE = np.dtype(np.float32)
_BLOCK = 32 * 1024  # elements: the temporary arrays of one block fit into the processor's cache
_IDLE_BUFFER_BYTES = 8 << 20


class DifferenceSource:
    """A source of ``new`` minus ``base`` (see ``subtract``), with the integers of ``new``.

    Nothing is computed ahead or kept. Reading a range needs memory for its result, twice that if
    ``base`` is read from a disk, and half a MiB. The result has the same bits on every machine,
    whatever ranges are read.

    Args:
        new: the model after training; closed with this one.
        base: the model before training; closed with this one.

    Raises:
        SpecMismatch: the two have different tensors.
    """

    def __init__(self, new: ModelSource, base: ModelSource) -> None:
        require_same(new.spec, base.spec, "the base model", "the new model")
        self._new = new
        self._base = base
        self._pool = BufferPool(_IDLE_BUFFER_BYTES)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order: those of both models."""
        return self._new.spec

    def read(self, offset: int, length: int) -> Payload:
        """Read ``[offset, offset + length)`` of both and subtract: one view for each tensor."""
        segments = tuple(self.spec.segments(offset, length))
        # Nothing to subtract, so the base is not read. True for an empty range, too, which has no
        # first segment below.
        if all(_is_value(segment) for segment in segments):
            return self._new.read(offset, length)
        # One read of each model, of whole elements: the range may cut an element at either end.
        before = segments[0].start % segments[0].tensor.itemsize
        after = -segments[-1].stop % segments[-1].tensor.itemsize
        start, nbytes = offset - before, before + length + after
        new = PayloadReader(self._new.read(start, nbytes))
        base = PayloadReader(self._base.read(start, nbytes))
        return tuple(self._subtract(segment, new, base) for segment in segments)

    def watch(self) -> Check:
        """Return the check of both models."""
        checks = watch(self._new), watch(self._base)

        def check() -> None:
            for each in checks:
                each()

        return check

    def close(self) -> None:
        """Close both models."""
        self._new.close()
        self._base.close()

    def _subtract(self, segment: Segment, new: PayloadReader, base: PayloadReader) -> memoryview:
        itemsize, dtype = segment.tensor.itemsize, segment.tensor.numpy_dtype
        skipped = segment.start % itemsize
        wanted = slice(skipped, skipped + segment.stop - segment.start)
        nbytes = -(-wanted.stop // itemsize) * itemsize
        ours, theirs = new.take(nbytes), base.take(nbytes)
        if _is_value(segment):
            return ours[wanted]
        view = self._pool.take(nbytes)
        subtract(np.frombuffer(ours, dtype), np.frombuffer(theirs, dtype), _of(view, dtype))
        return view[wanted]


def subtract(new: _Array, base: _Array, out: _Array) -> None:
    """Set ``out`` to ``new - base``, rounded once to the dtype, half to even.

    A complex number counts as two parts. NaN and infinity propagate by IEEE 754. A result beyond
    the dtype's range becomes infinity, or NaN in F8_E4M3, which has no infinity. Every NaN becomes
    the default NaN, because IEEE 754 leaves open which payload a subtraction of two NaNs keeps.

    Args:
        new: 1-D, of a floating point or complex dtype that can travel; may be unaligned.
        base: the same.
        out: the same, writable.
    """
    # Subtraction of complex numbers is by parts, and so is the treatment of NaN below.
    if new.dtype.kind == "c":
        part = np.dtype("<f4")
        new, base, out = new.view(part), base.view(part), out.view(part)
    for start in range(0, new.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        _subtract_block(new[block], base[block], out[block])


def _subtract_block(new: _Array, base: _Array, out: _Array) -> None:
    with np.errstate(all="ignore"):
        if out.dtype.itemsize >= _WIDE.itemsize:
            np.subtract(new, base, out=out)
        else:
            # Double rounding is innocuous here: float32 has 24 significant bits, and a sum of two
            # p-bit numbers rounds the same way if the wider format has at least 2p + 2 bits. The
            # longest small format, float16, has p = 11 (Figueroa, 1995).
            difference = new.astype(_WIDE)
            np.subtract(difference, base.astype(_WIDE), out=difference)
            np.copyto(out, difference, casting="unsafe")
        is_nan = np.isnan(out)
    if is_nan.any():
        np.copyto(out, np.array(np.nan, out.dtype), where=is_nan)


def _is_value(segment: Segment) -> bool:
    # By what it is, not by what it is not: the kinds of ml_dtypes' floats are not all ``f``.
    return segment.tensor.numpy_dtype.kind in "iub"


def _of(view: memoryview, dtype: np.dtype[Any]) -> _Array:
    return np.frombuffer(view, dtype)
