"""Reads and writes tensors on a device, or strided ones, through a bounded staging buffer.

``TorchModel`` uses one ``StagedTensors`` for each run of such tensors. The bytes copied at once are
bounded, whatever the size and strides of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from streamlink.model.interfaces import Payload
from streamlink.model.payloads import BufferPool
from streamlink.model.spec import ModelSpec
from streamlink.stores.torch.tensors import Tensor, integers, spec_of

__all__ = ["StagedTensors"]


class StagedTensors:
    """Consecutive tensors of one model, copied from and to host memory by PyTorch.

    A contiguous tensor is handled as flat bytes. Of a strided tensor, a range of elements is cut
    into *boxes*: rectangular views, which need no copy of the tensor. Several threads may read.

    Args:
        tensors: name → tensor, checked, on any device.
        staging_bytes: see ``TorchModel``.
    """

    def __init__(self, tensors: Mapping[str, Tensor], staging_bytes: int) -> None:
        self.spec = ModelSpec(tuple(spec_of(name, each) for name, each in tensors.items()))
        self._tensors = [_line_of(each) for each in tensors.values()]
        self._staging_bytes = staging_bytes
        self._staging: Tensor = None
        self._pool = BufferPool(staging_bytes)

    def read(self, offset: int, length: int) -> Payload:
        """Return one view of pooled host memory with the bytes; ``length`` is not 0."""
        # Readers are many, so each gets a buffer of its own. There is one writer, so ``write`` has
        # one buffer for all its calls.
        view = self._pool.take(length)
        host = torch.frombuffer(view, dtype=torch.uint8)
        filled = 0
        for box, start, stop in self._boxes(offset, length):
            _read_box(box, start, host[filled : filled + stop - start])
            filled += stop - start
        return (view,)

    def write(self, offset: int, payload: memoryview) -> None:
        """Copy ``payload`` to the device; the caller may reuse the buffer afterwards."""
        if self._staging is None:
            self._staging = torch.empty(self._staging_bytes, dtype=torch.uint8)
        taken, data = 0, np.frombuffer(payload, np.uint8)
        for box, start, stop in self._boxes(offset, payload.nbytes):
            host = self._staging[: stop - start]
            # Through the staging buffer even if the payload is whole: a payload may begin at any
            # address, and elements may not.
            host.numpy()[:] = data[taken : taken + stop - start]
            _write_box(box, start, host)
            taken += stop - start

    def commit(self) -> None:
        """Free the staging buffer."""
        self._staging = None

    discard = commit

    def close(self) -> None:
        """Free the idle buffers as well."""
        self.commit()
        self._pool = BufferPool(self._staging_bytes)

    def _boxes(self, offset: int, length: int) -> Iterator[tuple[Tensor, int, int]]:
        """Yield (box, start, stop): the range consists of bytes ``[start, stop)`` of each box."""
        for index, start, stop in self.spec.spans(offset, length):
            tensor = self._tensors[index]
            itemsize = tensor.element_size()
            first, last = start // itemsize, -(-stop // itemsize)
            # Whole elements, also where the range cuts one of a strided tensor: PyTorch copies
            # elements, not bytes.
            for begin, end in _cut(first, last, self._staging_bytes // itemsize):
                at = begin * itemsize
                for box in _boxes(tensor, begin, end):
                    nbytes = box.numel() * itemsize
                    yield box, max(start - at, 0), min(stop - at, nbytes)
                    at += nbytes


def _line_of(tensor: Tensor) -> Tensor:
    """Return a contiguous tensor as flat bytes, a strided one as integers, both without a copy."""
    if tensor.is_contiguous():
        # A dimension with at most one element may have any stride, which ``view`` would refuse;
        # ``as_strided`` sets a regular one.
        return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
    return integers(tensor)


def _cut(first: int, last: int, step: int) -> Iterator[tuple[int, int]]:
    return ((begin, min(begin + step, last)) for begin in range(first, last, step))


def _boxes(tensor: Tensor, first: int, last: int) -> Iterator[Tensor]:
    """Yield views that together hold elements ``[first, last)`` in C order.

    A range consists of the rest of its first row, whole rows, and the beginning of its last row; a
    partial row is cut in the same way, one dimension lower. So there are at most two partial boxes
    for each dimension.
    """
    if tensor.dim() == 1:
        yield tensor[first:last]
        return
    row = tensor[0].numel()
    while first < last:
        index, inside = divmod(first, row)
        rows = 0 if inside else (last - first) // row
        if rows:
            yield tensor[index : index + rows]
            first += rows * row
        else:
            stop = min(row, inside + last - first)
            yield from _boxes(tensor[index], inside, stop)
            first += stop - inside


def _read_box(box: Tensor, start: int, host: Tensor) -> None:
    """Copy the bytes of a box from ``start`` on, until ``host`` is full."""
    itemsize = box.element_size()
    is_whole = host.numel() == box.numel() * itemsize
    # Without a copy in between. ``view`` refuses elements that begin at an odd place.
    if is_whole and host.storage_offset() % itemsize == 0:
        host.view(box.dtype).view(box.shape).copy_(box)
    else:
        host.copy_(_flat_copy(box)[start : start + host.numel()])


def _write_box(box: Tensor, start: int, host: Tensor) -> None:
    """Copy ``host`` into a box from byte ``start`` on; cut elements keep their other bytes.

    ``host`` begins at the start of its storage, so it is aligned and can be viewed as elements.
    """
    if host.numel() < box.numel() * box.element_size():
        whole = _flat_copy(box)
        whole[start : start + host.numel()] = host
        host = whole
    box.copy_(host.view(box.dtype).view(box.shape))


def _flat_copy(box: Tensor) -> Tensor:
    """Return a copy of a box as flat bytes in host memory; the size of a box is bounded."""
    return box.clone(memory_format=torch.contiguous_format).cpu().reshape(-1).view(torch.uint8)
