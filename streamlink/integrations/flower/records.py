"""Flower's records of arrays, over any source: nothing is read before it is asked for.

On the way out a record becomes a source without a copy (``source_of``), and then a reference
(``exchanged``); on the way in a reference becomes a ``SourceRecord``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy.typing as npt
from flwr.app import Array, ArrayRecord, RecordDict

from streamlink import ModelSink, ModelSource, TensorSpec, copy_model
from streamlink.errors import UnsupportedDtype
from streamlink.integrations.npy import npy_view
from streamlink.integrations.tensors import NUMPY, all_of, fresh
from streamlink.integrations.torch_models import as_tensor
from streamlink.objects import OpenObject
from streamlink.stores import ArrayModel

__all__ = ["SourceRecord", "exchanged", "record_of", "reference_in", "referring", "source_of"]

_Values = npt.NDArray[Any]

_NUMPY, _REFERENCE = "numpy.ndarray", "streamlink.reference"  # Flower's "serialization types"
_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # NumPy makes float32 of their means


class SourceArray(Array):  # type: ignore[misc]  # untyped
    """A tensor of a source in the place of Flower's ``Array``; each ``numpy()`` reads it anew."""

    def __init__(self, source: OpenObject, tensor: TensorSpec) -> None:
        values = {"dtype": str(tensor.numpy_dtype), "shape": tensor.shape, "stype": _NUMPY}
        self.__dict__.update(values, source=source, tensor=tensor)

    def numpy(self) -> _Values:
        """Read the tensor into a new array; its dtype is the one that was sent, also bfloat16."""
        return self.source[self.tensor.name]  # type: ignore[no-any-return]

    @property
    def data(self) -> bytes:
        """Flower's serialized form, for code that knows no other; it takes two copies."""
        return bytes(Array(self.numpy()).data)

    def __repr__(self) -> str:
        return f"SourceArray({self.tensor})"


class SourceRecord(ArrayRecord):  # type: ignore[misc]
    """An ``ArrayRecord`` whose arrays stay in ``source`` until they are asked for.

    Args:
        source: the model.
        get: fills a model in memory with all of it; by default it is copied.
    """

    def __init__(self, source: ModelSource, get: Callable[[ModelSink], Any] | None = None) -> None:
        super().__init__()
        opened = OpenObject(source, lambda _: source.close())  # reads a tensor by its name
        self.__dict__.update(source=source, opened=opened, get=get or partial(copy_model, source))
        for tensor in source.spec.tensors:
            self[tensor.name] = SourceArray(opened, tensor)

    def is_whole(self) -> bool:
        """Return whether it still is the source: no array was removed, replaced or moved."""
        sources = [getattr(array, "source", None) for array in self.values()]
        is_same = all(source is self.opened for source in sources)
        return is_same and list(self) == list(self.source.spec.names)

    def to_numpy_ndarrays(self, *, keep_input: bool = True) -> list[_Values]:
        """Return all arrays, as Flower does; whole models arrive in one transfer."""
        return list(self._taken(keep_input).values())

    def to_torch_state_dict(self, *, keep_input: bool = True) -> OrderedDict[str, Any]:
        """Return all arrays as tensors, as Flower does, and those of bfloat16 and FP8 too."""
        return OrderedDict((name, as_tensor(a)) for name, a in self._taken(keep_input).items())

    def count_bytes(self) -> int:
        """Return the bytes of all arrays and their names, without reading them."""
        return int(self.source.spec.nbytes) + sum(map(len, self))

    def _taken(self, keep_input: bool) -> dict[str, _Values]:
        if self.is_whole():
            arrays: dict[str, _Values] = {}
            self.__dict__["get"](fresh(NUMPY, arrays)(self.source.spec))
        else:
            arrays = {name: array.numpy() for name, array in self.items()}
        if not keep_input:
            self.clear()
        return arrays


def record_of(model: Any) -> SourceRecord:
    """Return an ``ArrayRecord`` over a model where it is, without a copy.

    Args:
        model: arrays (a list, or a dict by name), a torch module or state_dict, or any source, such
            as ``open_model("path")``. It must not change while the record is in use.
    """
    if isinstance(model, list):
        model = {str(number): array for number, array in enumerate(model)}  # Flower's own names
    return SourceRecord(model if isinstance(model, ModelSource) else all_of(model))


def source_of(record: ArrayRecord, narrow: dict[str, Any] | None = None) -> ModelSource:
    """Return the arrays of a record as a source, without a copy.

    Args:
        record: the record.
        narrow: the dtypes of arrays that were bfloat16 or FP8 before, by their names; this record's
            are added. Flower's mean of such arrays is float32: it is rounded here.

    Raises:
        ModelError: an array has a dtype, a name or a form that streamlink does not know.
    """
    narrow = {} if narrow is None else narrow
    if isinstance(record, SourceRecord) and record.is_whole():
        source: ModelSource = record.source
    else:
        arrays = {name: _viewed(array) for name, array in record.items()}
        wide = [name for name in narrow if name in arrays and arrays[name].dtype.kind == "f"]
        source = ArrayModel(arrays | {name: arrays[name].astype(narrow[name]) for name in wide})
    dtypes = {each.name: each.numpy_dtype for each in source.spec.tensors}
    narrow |= {name: dtype for name, dtype in dtypes.items() if dtype.name in _NARROW}
    return source


def exchanged(content: RecordDict, change: Callable[[ArrayRecord], ArrayRecord]) -> RecordDict:
    """Return the same records, those of arrays as ``change`` returns them."""
    new = {n: change(r) if isinstance(r, ArrayRecord) else r for n, r in content.items()}
    return RecordDict(new)


def referring(reference: object) -> ArrayRecord:
    """Return the record that travels in the place of the arrays."""
    data = str(reference).encode("ascii")
    return ArrayRecord({_REFERENCE: Array(dtype="", shape=(), stype=_REFERENCE, data=data)})


def reference_in(record: ArrayRecord) -> str | None:
    """Return the text of the reference that a record is; None: it has arrays."""
    arrays = list(record.values())
    if len(arrays) != 1 or arrays[0].stype != _REFERENCE:
        return None
    return bytes(arrays[0].data).decode("ascii", "replace")


def _viewed(array: Array) -> _Values:
    """Return a view of the values in Flower's serialized form."""
    if isinstance(array, SourceArray):
        return array.numpy()
    if array.stype != _NUMPY:
        raise UnsupportedDtype(f"an array is serialized as {array.stype!r}, not as a plain array")
    return npy_view(array.data, array.dtype)
