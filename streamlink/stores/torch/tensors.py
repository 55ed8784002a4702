"""Examines PyTorch tensors: dtype, memory, and which tensors share memory.

``TorchModel`` uses it before it reads or writes anything, so that a tensor that is not supported,
or that would be filled incorrectly, is refused by name. Nothing here reads or writes an element.
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
    "await_gpus",
    "checked",
    "inform_autograd",
    "integers",
    "moved",
    "obstacle",
    "require_disjoint",
    "spec_of",
    "ties",
    "versions",
]

Tensor = Any
"""A ``torch.Tensor``; ``Any``, because type checkers may run without PyTorch."""

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

# All tensors are handled as integers of the same width: NumPy has neither BF16 nor FP8, and copying
# floats or bools may change bits (signaling NaNs, bools other than 0 and 1).
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_ADDRESSED = frozenset({"cpu", "cuda"})


def checked(name: str, entry: Tensor) -> Tensor:
    """Return an entry of a state dict, detached from autograd.

    Raises:
        UnsupportedDtype: its dtype is not supported.
        ModelError: it is not a tensor, or has no memory of its own.
    """
    if not isinstance(entry, torch.Tensor):
        raise ModelError(
            f"entry {name!r} is a {type(entry).__name__}, not a tensor, and only tensors can be "
            "sent; pass the tensors alone: TorchModel({name: each for name, each in "
            "module.state_dict().items() if isinstance(each, torch.Tensor)}), and send the rest "
            "in another way"
        )
    if fault := _fault(entry):
        raise ModelError(f"tensor {name!r} {fault}")
    if entry.dtype not in _NAMES:
        raise UnsupportedDtype(
            f"tensor {name!r}: dtype {entry.dtype} is not supported: {_advice(entry)}"
        )
    return entry.detach()


def _fault(tensor: Tensor) -> str:
    """Return why a tensor's memory does not hold its values (the end of a sentence), or ``""``."""
    if torch.nn.parameter.is_lazy(tensor):
        return "has no shape yet, because its module is lazy; run the module once"
    # A subclass that handles operations itself, such as DTensor: its memory is not its values.
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
        return "complex64 is the only complex type; pass torch.view_as_real(tensor)"
    names = ", ".join(str(each) for each in _NAMES)
    return f"the supported ones are {names}; or pass a view as torch.uint8"


def spec_of(name: str, tensor: Tensor) -> TensorSpec:
    """Return the spec of a checked tensor."""
    return TensorSpec(name, _NAMES[tensor.dtype], tuple(tensor.shape))


def integers(tensor: Tensor) -> Tensor:
    """Return a view of a tensor, of any strides, as integers of the same width."""
    return tensor.view(_INTEGERS[tensor.element_size()])


def array_of(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor in host memory as an array over the same memory."""
    array: npt.NDArray[Any] = integers(tensor).numpy()
    return array.view(DTYPES[_NAMES[tensor.dtype]])


def await_gpus(tensors: Iterable[Tensor]) -> None:
    """Wait until all that is queued on the GPUs of the tensors is done, on every stream.

    A copy waits for its own thread's stream alone, and whoever computes may use another one.
    """
    for device in {each.device for each in tensors if each.device.type == "cuda"}:
        torch.cuda.synchronize(device)


def inform_autograd(tensors: Iterable[Tensor]) -> None:
    """Increment the version counters, so that a backward pass over the old values raises."""
    for tensor in tensors:
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def versions(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return PyTorch's version counter of each tensor; inference tensors have none."""
    counted = ((name, each) for name, each in tensors.items() if not each.is_inference())
    return {name: each._version for name, each in counted}


# --- who shares memory with whom --------------------------------------------


def _layout_key(tensor: Tensor) -> tuple[object, ...]:
    """Return a key that is equal for two tensors with the same elements in the same layout."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    # A dimension of one element may have any stride: it makes no difference to the memory.
    strides = tuple(stride for size, stride in sizes if size > 1)
    return tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), strides


def ties(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return each further name of the same memory, mapped to the first name."""
    firsts: dict[tuple[object, ...], str] = {}
    # Empty tensors have no memory that they could share, but often the same null pointer.
    filled = ((name, tensor) for name, tensor in tensors.items() if tensor.numel())
    found = {name: firsts.setdefault(_layout_key(tensor), name) for name, tensor in filled}
    return {name: first for name, first in found.items() if name != first}


def require_disjoint(tensors: Mapping[str, Tensor]) -> None:
    """Raise ``ModelError`` if two tensors have bytes in common; it names both."""
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
            f"tensors {names[pair[0]]!r} and {names[pair[1]]!r} share part of their memory, or "
            "view the same memory differently; pass one of them alone, or a copy (tensor.clone())"
        )


def _span(tensor: Tensor) -> tuple[str, int, int]:
    """Return (address space, first byte, byte after the last)."""
    place, start = str(tensor.device), tensor.data_ptr()
    # On other devices a pointer may be a handle plus an offset, comparable within a storage only.
    if tensor.device.type not in _ADDRESSED:
        place += f" {tensor.untyped_storage().data_ptr()}"
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    # PyTorch has no negative strides, so the first element has the lowest address.
    last = sum((size - 1) * stride for size, stride in sizes)
    return place, start, start + (last + 1) * tensor.element_size()


class _Footprint:
    """The addresses of a tensor's elements, for ``np.shares_memory``, which reads no element.

    So it also works for memory of a device.
    """

    def __init__(self, tensor: Tensor) -> None:
        itemsize = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            # Opaque elements: NumPy has no BF16, and only addresses are compared.
            "typestr": f"|V{itemsize}",
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * itemsize for stride in tensor.stride()),
            "data": (tensor.data_ptr(), True),
        }


def _shares(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors have a byte in common; yes if that takes too long to find out."""
    return shares(np.asarray(_Footprint(one)), np.asarray(_Footprint(other)))


def moved(tensors: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> str | None:
    """Return the first name whose memory differs in ``now``; None: all are the same."""
    for name, tensor in tensors.items():
        if name not in now or _layout_key(now[name]) != _layout_key(tensor):
            return name
    return None


def obstacle(tensors: Mapping[str, Tensor]) -> str:
    """Return why a tensor cannot be filled, although it can be read, or ``""``."""
    name = next((name for name, tensor in tensors.items() if _may_self_overlap(tensor)), None)
    if name is None:
        return ""
    return (
        f"tensor {name!r} has several elements at the same address (it was expanded) and cannot "
        "be filled; pass a copy of it (tensor.contiguous())"
    )


def _may_self_overlap(tensor: Tensor) -> bool:
    """Tell whether two elements of a tensor may share memory; slices and transposes never do.

    They cannot if each stride is longer than the extent of all shorter strides together.
    """
    if tensor.numel() == 0:
        return False
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            # ``reach`` is the place of the last element, not behind it; hence ``<=``.
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False
