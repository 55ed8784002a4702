"""Models in memory: a dict of NumPy arrays that is read without a copy and filled in place.

``ArrayModel`` is a source and a sink over the same arrays, so a model that is received in place
costs no second one; between its first byte and the commit it is *torn* and cannot be read.
``MemoryStore`` pays for a second set of arrays and keeps the old model whole until the new one is.
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

__all__ = ["ArrayModel", "MemorySink", "MemoryStore", "empty_arrays", "spec_of"]

Array = npt.NDArray[Any]

_BUFFER_CHARS = frozenset("?bBhHiIlLqQefd")


class ArrayModel:
    """A dict of NumPy arrays as a source, and as a sink that fills the very same arrays.

    Contiguous arrays are read as views of themselves and must not change while someone holds one;
    others are copied, range by range. Nobody notices such a change but the other end's digest, and
    not always: NumPy does not count writes. ``streamlink.send(..., guard=True)`` does.

    Arrays that share memory can be read and not be filled: what arrived last would stand in both.

    Args:
        arrays: name → array, in logical order; any dtype that can travel, any shape and strides.

    Raises:
        UnsupportedDtype: an array's elements cannot travel.
        ModelError: a value is no array.
    """

    def __init__(self, arrays: Mapping[str, Array], *, _are_fillable: bool = False) -> None:
        self._spec = spec_of(arrays)
        self._arrays = list(arrays.values())
        self._are_fillable = _are_fillable  # known already, of memory that was made or examined
        self._written = RangeSet()
        self._is_torn = False

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    @property
    def is_torn(self) -> bool:
        """Whether a model has begun to arrive and is not committed: part old, part new."""
        return self._is_torn

    @property
    def is_prompt(self) -> bool:
        """Whether no array is mapped from a file, which a write might have to wait for."""
        is_ours = type(self).write is ArrayModel.write  # else nobody knows what it waits for
        return is_ours and not any(map(_is_mapped, self._arrays))

    def read(self, offset: int, length: int) -> Payload:
        """Return one view for each tensor under ``[offset, offset + length)``.

        Raises:
            TornModel: the arrays are part old model, part new.
        """
        if self._is_torn:
            raise TornModel(
                "these arrays hold part of an old and part of a new model, because a transfer into "
                "them did not finish; receive the model again, or load it from a store"
            )
        arrays, views = self._arrays, []
        for index, start, stop in self._spec.spans(offset, length):
            view = _read_piece(arrays[index], start, stop)
            views.append(view)
        return tuple(views)

    def write(self, offset: int, payload: memoryview) -> None:
        """Copy ``payload`` into the arrays, which are torn from now on until ``commit``.

        Raises:
            ModelError: an array is read-only, or shares memory with another one or with itself.
        """
        spans = self._spec.spans(offset, payload.nbytes)
        if not self._is_torn:
            self._require_fillable()
        taken = 0
        for index, start, stop in spans:
            self._write_piece(index, start, payload[taken : taken + stop - start])
            taken += stop - start
        self._written.add(offset, offset + taken)

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """Return the memory of a range within one contiguous array, which is torn from now on.

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
        """Take note that lent bytes are here and verified."""
        self._spec.check_range(offset, nbytes)
        self._written.add(offset, offset + nbytes)

    def prepare(self, progress: Progress | None = None) -> None:
        """Check that all of it was written; the arrays stay torn until ``commit``.

        Raises:
            StoreError: part of them was never written.
        """
        require_complete(self._written, self._spec)

    def commit(self, progress: Progress | None = None) -> None:
        """Declare the arrays whole.

        Raises:
            StoreError: part of them was never written.
        """
        require_complete(self._written, self._spec)
        self._written.clear()
        self._is_torn = False

    def discard(self) -> None:
        """Forget what was written; arrays that were torn stay torn until a whole model is in."""
        self._written.clear()

    def close(self) -> None:
        """Nothing is held but the arrays."""

    def _require_fillable(self) -> None:
        """Find what cannot be filled before any array has been touched."""
        for tensor, array in zip(self._spec.tensors, self._arrays, strict=True):
            if not array.flags.writeable:
                raise ModelError(
                    f"tensor {tensor.name!r} is a read-only array and cannot be filled; "
                    "pass a copy of it (array.copy())"
                )
        if not self._are_fillable:
            require_disjoint(dict(zip(self._spec.names, self._arrays, strict=True)))
            self._are_fillable = True  # where arrays lie does not change

    def _write_piece(self, index: int, start: int, piece: memoryview) -> None:
        array = self._arrays[index]
        self._is_torn = True
        if array.flags.c_contiguous:
            # NumPy's copy lets other threads run meanwhile; memoryview's does not.
            stop = start + piece.nbytes
            _flat(array)[start:stop] = np.frombuffer(piece, np.uint8)
        else:
            _write_strided(array, start, piece)


class MemoryStore:
    """Holds one whole model in memory; the next one is filled beside it and swapped in by commit.

    Two sets of arrays take turns, since fresh memory costs more to touch than to fill again: a
    model that is replaced becomes the place of the next but one, unless ``arrays`` handed it out.

    Args:
        arrays: the first model; ``None`` for none yet. They are read, never written.

    Raises:
        UnsupportedDtype: an array's elements cannot travel.
        ModelError: this is no mapping of names to NumPy arrays; says what to use instead.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        if arrays is not None:
            _require_arrays(arrays)
        self._arrays = dict(arrays) if arrays is not None else None
        self._is_shared = True
        self._spare: dict[str, Array] | None = None

    @property
    def arrays(self) -> dict[str, Array]:
        """The last whole model, name → array; not to be written to, and yours to keep.

        Raises:
            StoreError: there is none yet.
        """
        self._is_shared = True
        return dict(self._present())

    def open(self) -> ArrayModel:
        """Return the last whole model; raises ``StoreError`` where there is none yet.

        It stays as it is until the commit after next.
        """
        return ArrayModel(self._present())

    def begin(self, spec: ModelSpec) -> MemorySink:
        """Return a sink over new arrays. Costs one model of memory until the old one is let go."""
        return MemorySink(self, spec)

    def _present(self) -> dict[str, Array]:
        if self._arrays is None:
            raise StoreError("this memory store holds no model yet")
        return self._arrays

    def _place(self, spec: ModelSpec) -> dict[str, Array]:
        """Return arrays nobody uses: those of the model before the last, where they fit."""
        spare, self._spare = self._spare, None
        return spare if spare is not None and spec_of(spare) == spec else empty_arrays(spec)

    def _replace(self, arrays: dict[str, Array]) -> None:
        self._spare = None if self._is_shared else self._arrays
        self._arrays, self._is_shared = arrays, False


class MemorySink:
    """The sink of a memory store: arrays nobody else sees before the commit."""

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
        self._store._replace(self._arrays)

    def discard(self) -> None:
        """See ``ModelSink``."""
        self._model.discard()

    def _require_unprepared(self) -> None:
        if self._is_prepared:
            raise StoreError("this model is prepared, and takes no more: commit or discard it")


def _require_arrays(arrays: object) -> None:
    """Find what this store cannot hold now, rather than when a round begins."""
    found = list(arrays.values()) if isinstance(arrays, Mapping) else [arrays]
    wrong = next((each for each in found if not isinstance(each, np.ndarray)), None)
    if wrong is not None or not isinstance(arrays, Mapping):
        raise ModelError(
            f"a MemoryStore holds NumPy arrays, name → array, not a {type(wrong).__name__}; for a "
            "torch module, or tensors, begin with an empty one: store = MemoryStore(); "
            "copy_model(module, store); and at the end copy_model(store, module)"
        )
    spec_of(arrays)


def spec_of(arrays: Mapping[str, Array]) -> ModelSpec:
    """Return the spec of named arrays, in the mapping's order; raises as ``ArrayModel`` does."""
    return ModelSpec(tuple(_tensor_of(name, array) for name, array in arrays.items()))


def empty_arrays(spec: ModelSpec) -> dict[str, Array]:
    """Return a new array for each tensor, its elements not set."""
    return {tensor.name: np.empty(tensor.shape, tensor.numpy_dtype) for tensor in spec.tensors}


def _tensor_of(name: str, array: Array) -> TensorSpec:
    if not isinstance(array, np.ndarray):
        raise ModelError(f"tensor {name!r} is a {type(array).__name__}, not a NumPy array")
    try:
        return TensorSpec(name, dtype_name(array.dtype), array.shape)
    except ModelError as error:
        raise type(error)(f"tensor {name!r}: {error}") from error


def _is_mapped(array: Array) -> bool:
    """Tell whether an array lies in mapped memory, however many views there are between."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base is not None


def _flat(array: Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of a contiguous array, as they lie."""
    return array.reshape(-1).view(np.uint8)


def _read_piece(array: Array, start: int, stop: int) -> memoryview:
    if not array.flags.c_contiguous:
        return _read_strided(array, start, stop)
    # A cast is four times cheaper than two NumPy views, which a model of 100,000 small tensors
    # feels; but the buffer protocol has no word for complex and ml_dtypes' elements.
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
    elements = array.flat[first:last]  # a copy; what the range cuts at its ends keeps its old bytes
    as_bytes_view(elements)[start - first * itemsize : stop - first * itemsize] = piece
    array.flat[first:last] = elements
