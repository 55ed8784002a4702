"""Models in memory: dicts of NumPy arrays that are read without a copy and filled in place.

``ArrayModel`` is a source and a sink over the same arrays: receiving a model needs no second copy,
but from the first byte until the commit the model is *torn* and cannot be read. ``MemoryStore``
pays for a second set of arrays (double buffering) and keeps the old model until the commit.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError, StoreError, TornModel
from streamlink.model.interfaces import Payload, Progress
from streamlink.model.payloads import as_bytes_view
from streamlink.model.ranges import RangeSet, require_complete
from streamlink.model.spec import ModelSpec, TensorSpec, dtype_name
from streamlink.stores.overlap import require_disjoint
from streamlink.stores.pages import OwnPages

__all__ = ["Array", "ArrayModel", "MemorySink", "MemoryStore", "empty_arrays", "spec_of"]

Array = npt.NDArray[Any]
"""A NumPy array of any dtype that can travel, and any shape."""

_BUFFER_CHARS = frozenset("?bBhHiIlLqQefd")


class ArrayModel:
    """A dict of NumPy arrays as a source, and as a sink that fills the same arrays.

    A read returns views of contiguous arrays, which must not be modified while someone holds a
    view; ranges of other arrays are copied. NumPy has no version counter, so a modification is
    detected by the digest at the receiver only, and not always; ``streamlink.send(...,
    guard=True)`` detects it.

    Arrays that share memory can be read, but not filled: the bytes that arrive last would be in
    both.

    Args:
        arrays: name → array, in logical order; any supported dtype, any shape and strides.

    Raises:
        UnsupportedDtype: the dtype of an array is not supported.
        ModelError: a value is not an array.
    """

    def __init__(self, arrays: Mapping[str, Array], *, _are_fillable: bool = False) -> None:
        self._spec = spec_of(arrays)
        self._arrays = list(arrays.values())
        self._are_fillable = _are_fillable  # True: the caller made or examined the arrays
        self._written = RangeSet()
        self._is_torn = False

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    @property
    def is_torn(self) -> bool:
        """Whether a model began to arrive and is not committed: part old, part new."""
        return self._is_torn

    @property
    def is_prompt(self) -> bool:
        """Whether a write never blocks: no array is mapped from a file."""
        # A page fault of a mapped file waits for the disk, and with it would the thread that reads
        # the network.
        is_ours = type(self).write is ArrayModel.write  # a subclass's ``write`` may block
        return is_ours and not any(map(_is_mapped, self._arrays))

    def read(self, offset: int, length: int) -> Payload:
        """Return one view for each tensor in ``[offset, offset + length)``.

        Raises:
            TornModel: the arrays are part old model, part new.
        """
        if self._is_torn:
            raise TornModel(
                "these arrays are part old model, part new model, because a transfer into them did "
                "not finish; receive the model again, or load it from a store"
            )
        arrays, views = self._arrays, []
        for index, start, stop in self._spec.spans(offset, length):
            view = _read_piece(arrays[index], start, stop)
            views.append(view)
        return tuple(views)

    def write(self, offset: int, payload: memoryview) -> None:
        """Copy ``payload`` into the arrays, which are torn from then on until ``commit``.

        Raises:
            ModelError: an array is read-only, or shares memory with another array or with itself.
        """
        spans = self._spec.spans(offset, payload.nbytes)
        if not self._is_torn:
            self._require_fillable()
        # ``_write_piece`` sets the torn state, not this method: with an empty payload callers check
        # that the arrays can be filled, and that must tear nothing.
        taken = 0
        for index, start, stop in spans:
            self._write_piece(index, start, payload[taken : taken + stop - start])
            taken += stop - start
        self._written.add(offset, offset + taken)

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """Return the memory of a range within one contiguous array; the arrays are torn then.

        Raises:
            ModelError: as ``write`` does.
        """
        spans = list(self._spec.spans(offset, nbytes))
        if len(spans) != 1:
            return None
        index, start, stop = spans[0]
        if not self._arrays[index].flags.c_contiguous:
            return None
        if not self._is_torn:
            self._require_fillable()
            self._is_torn = True
        return memoryview(_flat(self._arrays[index]).data)[start:stop]

    def filled(self, offset: int, nbytes: int) -> None:
        """Record that a lent range holds verified bytes."""
        self._spec.check_range(offset, nbytes)
        self._written.add(offset, offset + nbytes)

    def prepare(self, progress: Progress | None = None) -> None:
        """Check that every byte was written; the arrays stay torn until ``commit``.

        Raises:
            StoreError: some bytes were never written.
        """
        require_complete(self._written, self._spec)

    def commit(self, progress: Progress | None = None) -> None:
        """End the torn state: the arrays hold the new model.

        Raises:
            StoreError: some bytes were never written.
        """
        require_complete(self._written, self._spec)
        self._written.clear()
        self._is_torn = False

    def discard(self) -> None:
        """Drop the record of what was written; torn arrays stay torn until a model is committed."""
        self._written.clear()

    def close(self) -> None:
        """Do nothing: it holds no resources but the arrays."""

    def _require_fillable(self) -> None:
        """Check all arrays before the first one is modified."""
        for tensor, array in zip(self._spec.tensors, self._arrays, strict=True):
            if not array.flags.writeable:
                raise ModelError(
                    f"tensor {tensor.name!r} is a read-only array and cannot be filled; "
                    "pass a copy of it (array.copy())"
                )
        # Only at the first write: most models are only read, and this search takes half as long as
        # making their spec.
        if not self._are_fillable:
            require_disjoint(dict(zip(self._spec.names, self._arrays, strict=True)))
            self._are_fillable = True  # checked once: an array never moves

    def _write_piece(self, index: int, start: int, piece: memoryview) -> None:
        array = self._arrays[index]
        self._is_torn = True
        if array.flags.c_contiguous:
            # NumPy releases the GIL while it copies; a memoryview assignment does not.
            stop = start + piece.nbytes
            _flat(array)[start:stop] = np.frombuffer(piece, np.uint8)
        else:
            _write_strided(array, start, piece)


class MemoryStore:
    """Holds one model in memory; the next one is filled in a second buffer and swapped in.

    The two sets of arrays alternate (double buffering), because touching fresh memory costs more
    than filling it again: page faults. Arrays that ``arrays`` returned are never filled again.

    Args:
        arrays: the first model; None: no model yet. They are read, never written.

    Raises:
        UnsupportedDtype: the dtype of an array is not supported.
        ModelError: it is not a mapping of names to NumPy arrays; says what to use instead.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        if arrays is not None:
            _require_arrays(arrays)
        # The first arrays are the user's, so they are never filled: only arrays that this store has
        # made and has shown to nobody become the spare set.
        self._arrays = dict(arrays) if arrays is not None else None
        self._is_shared = True
        self._spare: dict[str, Array] | None = None

    @property
    def arrays(self) -> dict[str, Array]:
        """The last committed model, name → array. Read only; the store never writes to it again.

        Raises:
            StoreError: there is no model yet.
        """
        self._is_shared = True
        return dict(self._present())

    def open(self) -> ArrayModel:
        """Return the last committed model; raises ``StoreError`` if there is none yet.

        It stays unchanged until the next but one model begins to arrive.
        """
        return ArrayModel(self._present())

    def begin(self, spec: ModelSpec) -> MemorySink:
        """Return a sink over the second set of arrays. Price: the memory of one model."""
        return MemorySink(self, spec)

    def _present(self) -> dict[str, Array]:
        if self._arrays is None:
            raise StoreError("this memory store holds no model yet")
        return self._arrays

    def _place(self, spec: ModelSpec) -> dict[str, Array]:
        """Return unused arrays: those of the previous but one model if the spec is the same."""
        # Taken out of the store: a second sink that begins meanwhile must not get the same arrays.
        spare, self._spare = self._spare, None
        return spare if spare is not None and spec_of(spare) == spec else empty_arrays(spec)

    def _replace(self, arrays: dict[str, Array]) -> None:
        self._spare = None if self._is_shared else self._arrays
        self._arrays, self._is_shared = arrays, False


class MemorySink:
    """The sink of a memory store: arrays that are private until the commit."""

    def __init__(self, store: MemoryStore, spec: ModelSpec) -> None:
        self._store = store
        self._arrays = store._place(spec)
        self._model = ArrayModel(self._arrays, _are_fillable=True)
        self._is_prepared = False

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._model.spec

    @property
    def is_prompt(self) -> bool:
        """Whether ``write`` waits for nobody: it copies within memory."""
        return True

    def write(self, offset: int, payload: memoryview) -> None:
        """See ``ModelSink``."""
        self._require_unprepared()
        self._model.write(offset, payload)

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """See ``Lending``."""
        self._require_unprepared()
        return self._model.lend(offset, nbytes)

    def filled(self, offset: int, nbytes: int) -> None:
        """See ``Lending``."""
        self._model.filled(offset, nbytes)

    def prepare(self, progress: Progress | None = None) -> None:
        """See ``Preparing``."""
        self._model.prepare(progress)
        self._is_prepared = True

    def commit(self, progress: Progress | None = None) -> None:
        """See ``ModelSink``."""
        self._model.commit(progress)
        # A swap of two references cannot fail, so after ``prepare`` nothing is left that could.
        self._store._replace(self._arrays)

    def discard(self) -> None:
        """See ``ModelSink``."""
        self._model.discard()

    def _require_unprepared(self) -> None:
        if self._is_prepared:
            raise StoreError(
                "this model is prepared and accepts no more bytes: commit or discard it"
            )


def _require_arrays(arrays: object) -> None:
    """Refuse what this store cannot hold when it is made, not when a round begins."""
    found = list(arrays.values()) if isinstance(arrays, Mapping) else [arrays]
    wrong = next((each for each in found if not isinstance(each, np.ndarray)), None)
    if wrong is not None or not isinstance(arrays, Mapping):
        raise ModelError(
            f"a MemoryStore holds NumPy arrays, name → array, not a {type(wrong).__name__}; for a "
            "torch module or tensors, begin with an empty store: store = MemoryStore(); "
            "copy_model(module, store); and at the end copy_model(store, module)"
        )
    spec_of(arrays)


def spec_of(arrays: Mapping[str, Array]) -> ModelSpec:
    """Return the spec of named arrays, in the mapping's order; raises as ``ArrayModel`` does."""
    return ModelSpec(tuple(_tensor_of(name, array) for name, array in arrays.items()))


def empty_arrays(spec: ModelSpec) -> dict[str, Array]:
    """Return a new array for each tensor, uninitialized."""
    # ``np.zeros`` would gain nothing: a commit requires that every byte was written.
    return {tensor.name: np.empty(tensor.shape, tensor.numpy_dtype) for tensor in spec.tensors}


def _tensor_of(name: str, array: Array) -> TensorSpec:
    if not isinstance(array, np.ndarray):
        raise ModelError(
            f"tensor {name!r} is a {type(array).__name__}, not a NumPy array; a number or a list "
            "becomes one by np.asarray(...), and names have no levels: {'layer.w': ...}"
        )
    try:
        return TensorSpec(name, dtype_name(array.dtype), array.shape)
    except ModelError as error:
        raise type(error)(f"tensor {name!r}: {error}") from error


def _is_mapped(array: Array) -> bool:
    """Tell whether an array is a view, at any depth, of a memory-mapped file."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None and not isinstance(base, OwnPages)


def _flat(array: Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8)


def _read_piece(array: Array, start: int, stop: int) -> memoryview:
    if not array.flags.c_contiguous:
        return _read_strided(array, start, stop)
    # A cast is four times as fast as two NumPy views, which matters for a model of 100,000 small
    # tensors; but the buffer protocol has no format for complex and ml_dtypes' elements.
    is_known = array.dtype.char in _BUFFER_CHARS
    view = memoryview(array.data).cast("B") if is_known else as_bytes_view(array)
    return view if stop - start == view.nbytes else view[start:stop]


def _read_strided(array: Array, start: int, stop: int) -> memoryview:
    """Copy bytes ``[start, stop)``, in C order, of an array of any strides."""
    itemsize = array.itemsize
    first, last = start // itemsize, -(-stop // itemsize)
    elements = array.flat[first:last]
    return as_bytes_view(elements)[start - first * itemsize : stop - first * itemsize]


def _write_strided(array: Array, start: int, piece: memoryview) -> None:
    itemsize, stop = array.itemsize, start + piece.nbytes
    first, last = start // itemsize, -(-stop // itemsize)
    # Read-modify-write: the range may cut an element at either end, which keeps its other bytes.
    elements = array.flat[first:last]
    as_bytes_view(elements)[start - first * itemsize : stop - first * itemsize] = piece
    array.flat[first:last] = elements
