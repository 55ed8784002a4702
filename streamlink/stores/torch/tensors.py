"""What a ``torch.Tensor`` is to streamlink: its dtype, its memory, and who else has that memory.

``TorchModel`` asks here before it touches anything, so that whatever cannot travel, or would be
filled wrongly, is refused in words that name the tensor. Nothing here reads or writes an element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from streamlink.errors import ModelError, UnsupportedDtype
from streamlink.model.spec import DTYPES, TensorSpec
from streamlink.stores.overlap import first_overlap, shares

__all__ = [
    "Tensor",
    "array_of",
    "checked",
    "integers",
    "moved",
    "obstacle",
    "require_disjoint",
    "spec_of",
    "tell_autograd",
    "ties",
    "versions",
]

Tensor = Any
"""A ``torch.Tensor``; PyTorch may be missing where types are checked."""

_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
}

# NumPy knows neither BF16 nor FP8, and a copy of floats or bools may not keep every bit: all
# tensors are handled as integers of their width.
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_ADDRESSED = frozenset({"cpu", "cuda"})


def checked(name: str, entry: Tensor) -> Tensor:
    """Return an entry of a state dict without its history.

    Raises:
        UnsupportedDtype: its elements cannot travel.
        ModelError: it is no tensor, or none with memory of its own.
    """
    if not isinstance(entry, torch.Tensor):
        raise ModelError(
            f"entry {name!r} is a {type(entry).__name__}, not a tensor, and only tensors travel; "
            "pass those alone: TorchModel({name: each for name, each in "
            "module.state_dict().items() if isinstance(each, torch.Tensor)}), and bring the rest "
            "to the other end in some other way"
        )
    if fault := _fault(entry):
        raise ModelError(f"tensor {name!r} {fault}")
    if entry.dtype not in _NAMES:
        raise UnsupportedDtype(
            f"tensor {name!r}: dtype {entry.dtype} cannot travel: {_advice(entry)}"
        )
    return entry.detach()


def _fault(tensor: Tensor) -> str:
    """Return why a tensor's memory is not its values, as the end of a sentence; ``""`` if it is."""
    if torch.nn.parameter.is_lazy(tensor):
        return "has no shape yet, since its module is lazy; run the module once"
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"is a {type(tensor).__name__}, not plain memory; pass the plain tensors under it"
    if tensor.layout is not torch.strided:
        return f"is not dense ({tensor.layout}); pass its parts, such as indices and values"
    if tensor.is_nested:
        return "is nested; pass the tensors in it (tensor.unbind())"
    if tensor.device.type == "meta":
        return "is on the meta device and has no values; give it memory: module.to_empty(device=)"
    if tensor.is_conj() or tensor.is_neg():
        return (
            "is a view that negates or conjugates when it is read; "
            "pass a copy (tensor.resolve_conj().resolve_neg())"
        )
    return ""


def _advice(tensor: Tensor) -> str:
    if tensor.is_quantized:
        return "it is quantized; pass tensor.int_repr(), and the scales as tensors of their own"
    if tensor.dtype.is_complex:
        return "of the complex types only complex64 is supported; pass torch.view_as_real(tensor)"
    return f"supported are {', '.join(str(each) for each in _NAMES)}; or pass a view as torch.uint8"


def spec_of(name: str, tensor: Tensor) -> TensorSpec:
    """Return what a checked tensor is called here."""
    return TensorSpec(name, _NAMES[tensor.dtype], tuple(tensor.shape))


def integers(tensor: Tensor) -> Tensor:
    """Return a view of a tensor, of any strides, as integers of its width."""
    return tensor.view(_INTEGERS[tensor.element_size()])


def array_of(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor in host memory as an array over the same memory."""
    array: npt.NDArray[Any] = integers(tensor).numpy()
    return array.view(DTYPES[_NAMES[tensor.dtype]])


def tell_autograd(tensors: Iterable[Tensor]) -> None:
    """Count a change, so that a backward pass over the values before it fails, as it must."""
    for tensor in tensors:
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def versions(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return how often each tensor was written to, as PyTorch counts; not of inference tensors."""
    counted = ((name, each) for name, each in tensors.items() if not each.is_inference())
    return {name: each._version for name, each in counted}


# --- who shares memory with whom --------------------------------------------


def _identity(tensor: Tensor) -> tuple[object, ...]:
    """Return what is equal for two names of the very same elements, laid out in the same way."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    strides = tuple(stride for size, stride in sizes if size > 1)
    return tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), strides


def ties(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return each further name of the very same memory → the first one."""
    firsts: dict[tuple[object, ...], str] = {}
    filled = ((name, tensor) for name, tensor in tensors.items() if tensor.numel())
    found = {name: firsts.setdefault(_identity(tensor), name) for name, tensor in filled}
    return {name: first for name, first in found.items() if name != first}


def require_disjoint(tensors: Mapping[str, Tensor]) -> None:
    """Raise ``ModelError`` that names two tensors with some bytes in common, if there are such."""
    places: defaultdict[str, list[tuple[str, tuple[int, int]]]] = defaultdict(list)
    for name, tensor in tensors.items():
        if tensor.numel():
            place, start, stop = _span(tensor)
            places[place].append((name, (start, stop)))
    for found in places.values():
        _require_disjoint([name for name, _ in found], [span for _, span in found], tensors)


def _require_disjoint(
    names: Sequence[str], spans: Sequence[tuple[int, int]], tensors: Mapping[str, Tensor]
) -> None:
    pair = first_overlap(spans, lambda one, two: _shares(tensors[names[one]], tensors[names[two]]))
    if pair is not None:
        raise ModelError(
            f"tensors {names[pair[0]]!r} and {names[pair[1]]!r} share part of their memory, or see "
            "it differently; pass one of them alone, or a copy (tensor.clone())"
        )


def _span(tensor: Tensor) -> tuple[str, int, int]:
    """Return (address space, first byte, byte after the last)."""
    place, start = str(tensor.device), tensor.data_ptr()
    if tensor.device.type not in _ADDRESSED:  # elsewhere a pointer may be a handle plus an offset
        place += f" {tensor.untyped_storage().data_ptr()}"
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in sizes)
    return place, start, start + (last + 1) * tensor.element_size()


class _Footprint:
    """Where a tensor's elements lie, for NumPy's search for common bytes. Nothing is ever read."""

    def __init__(self, tensor: Tensor) -> None:
        itemsize = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{itemsize}",
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * itemsize for stride in tensor.stride()),
            "data": (tensor.data_ptr(), True),
        }


def _shares(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors have bytes in common; what is too hard to tell counts as yes."""
    return shares(np.asarray(_Footprint(one)), np.asarray(_Footprint(other)))


def moved(tensors: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> str | None:
    """Return the first name whose memory is not the same in ``now``; ``None`` if all are."""
    for name, tensor in tensors.items():
        if name not in now or _identity(now[name]) != _identity(tensor):
            return name
    return None


def obstacle(tensors: Mapping[str, Tensor]) -> str:
    """Return why one of the tensors cannot be filled (it can still be read), or ``""``."""
    name = next((name for name, tensor in tensors.items() if _meets_itself(tensor)), None)
    if name is None:
        return ""
    return (
        f"tensor {name!r} has several elements in the same memory (it was expanded) and cannot be "
        "filled; pass a copy of it (tensor.contiguous())"
    )


def _meets_itself(tensor: Tensor) -> bool:
    """Tell whether elements of a tensor may lie in the same place; never of slices and transposes.

    They cannot where each stride is longer than all that the shorter ones reach.
    """
    if tensor.numel() == 0:
        return False
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False
