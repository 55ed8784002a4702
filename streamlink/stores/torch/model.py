"""``TorchModel``: the tensors of a PyTorch module, read and filled in place.

It is for tensors what ``ArrayModel`` is for NumPy arrays. Runs of contiguous tensors in host memory
are handled by an ``ArrayModel`` over the same memory; runs of others by ``StagedTensors``, through
a bounded buffer. There is never a second copy of the model, nor of a whole tensor.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from streamlink.errors import ModelError, SourceChanged, TornModel
from streamlink.model.interfaces import Check, Payload, Progress
from streamlink.model.ranges import RangeSet, require_complete
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import ArrayModel

try:
    import torch
except ImportError as error:
    raise ImportError(
        "a TorchModel needs PyTorch, which is not installed: pip install 'streamlink-fl[torch]'"
    ) from error

from streamlink.stores.torch.staging import StagedTensors
from streamlink.stores.torch.tensors import (
    Tensor,
    array_of,
    await_gpus,
    checked,
    inform_autograd,
    moved,
    obstacle,
    require_disjoint,
    ties,
    versions,
)

__all__ = ["TorchModel"]

_MIN_STAGING_BYTES = 16


def _needs_staging(tensor: Tensor) -> bool:
    # NumPy could see strided tensors too, but PyTorch copies them several times faster.
    return tensor.device.type != "cpu" or not tensor.is_contiguous()


class TorchModel:
    """The tensors of a module, or named tensors, as a source and as a sink that fills them.

    It covers parameters, persistent buffers and counters, in the order and under the names of
    ``state_dict()``. Make it after the last ``.to()``, ``.half()`` or
    ``load_state_dict(assign=True)``: these give a module new memory, and then reads and writes are
    refused. Tensors must not be modified while someone holds a view of them, so do not train while
    a model is sent. PyTorch's version counters detect an optimizer step (``SourceChanged``). They
    do not count writes through ``.data`` or a NumPy view, and inference tensors have no counter;
    such changes are detected by the digest at the receiver only, and not always.

    *Tied weights*, two names of the same memory, are sent once, under the first name. The receiver
    and files know the first name only; ``tied`` maps the other names to it.

    *Autograd* is informed of every write: backward through results of the old values raises.

    *On a device*, ranges are copied to and from host memory synchronously. Before the first byte is
    read or written, and when a model is committed, what is queued on a GPU is awaited, on all of
    its streams: the bytes that are sent are those of the work before, and the work after sees those
    that were received. What is queued while a model moves is a modification, as above.

    Args:
        model: a module, or name → tensor in logical order. Any shape and strides.
        staging_bytes: host memory for filling tensors on a device and strided tensors, and the
            largest single copy from or to them; at least 16. A read needs host memory for the
            bytes that it returns.

    Raises:
        UnsupportedDtype: the dtype of a tensor is not supported.
        ModelError: an entry is not a tensor with its own memory (sparse, meta, partly shared, ...).
        ValueError: ``staging_bytes`` is too small.
    """

    def __init__(
        self,
        model: torch.nn.Module | Mapping[str, torch.Tensor],
        *,
        staging_bytes: int = 8 << 20,
        _is_staged: Callable[[Tensor], bool] = _needs_staging,  # tests stage what needs no staging
    ) -> None:
        if staging_bytes < _MIN_STAGING_BYTES:
            raise ValueError(
                f"staging_bytes must be at least {_MIN_STAGING_BYTES}, not {staging_bytes}"
            )
        # Asked again before each transfer, to notice a module that was moved meanwhile. A mapping
        # is copied once: what its owner changes in it later is not the model that was passed.
        self._now = dict(model).copy if isinstance(model, Mapping) else model.state_dict
        self._tensors = {name: checked(name, entry) for name, entry in self._now().items()}
        _require_no_copies(self._tensors, self._now())
        self._tied = ties(self._tensors)
        kept = {name: each for name, each in self._tensors.items() if name not in self._tied}
        # Without the tied names: these share all of their memory, on purpose.
        require_disjoint(kept)
        self._obstacle = obstacle(kept)
        self._parts = list(_parts(kept, _is_staged, staging_bytes))
        sizes = (part.spec.nbytes for part in self._parts)
        self._starts = list(itertools.accumulate(sizes, initial=0))
        self._spec = ModelSpec(tuple(each for part in self._parts for each in part.spec.tensors))
        self._written = RangeSet()
        self._is_torn = False

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order; of tied weights the first name only."""
        return self._spec

    @property
    def tied(self) -> dict[str, str]:
        """Each tied name that is not sent, mapped to the name under which its memory is sent."""
        return dict(self._tied)

    @property
    def is_torn(self) -> bool:
        """Whether a model began to arrive and is not committed: part old, part new."""
        return self._is_torn

    def read(self, offset: int, length: int) -> Payload:
        """Return views of contiguous tensors in host memory, and copies of ranges of others.

        Raises:
            TornModel: the tensors are part old model, part new.
            ModelError: the module was moved or cast since this object was made.
        """
        self._spec.check_range(offset, length)
        if self._is_torn:
            raise TornModel(
                "these tensors are part old model, part new model, because a transfer into them "
                "did not finish; receive the model again, or load it from a store"
            )
        if offset == 0:  # the first read of a transfer; checking every read would cost too much
            self._require_unmoved()
            await_gpus(self._tensors.values())
        payloads = (part.read(at, stop - at) for part, at, stop in self._under(offset, length))
        return tuple(itertools.chain.from_iterable(payloads))

    def write(self, offset: int, payload: memoryview) -> None:
        """Copy ``payload`` into the tensors, which are torn from then on until ``commit``.

        Raises:
            ModelError: a tensor cannot be filled, or the module was moved or cast since this object
                was made.
        """
        self._spec.check_range(offset, payload.nbytes)
        if payload.nbytes == 0:
            return
        if not self._is_torn:
            self._require_fillable()
            self._tear()
        taken = 0
        for part, start, stop in self._under(offset, payload.nbytes):
            part.write(start, payload[taken : taken + stop - start])
            taken += stop - start
        self._written.add(offset, offset + taken)

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        """Return the memory of a range within one contiguous tensor in host memory.

        All tensors are torn from then on until ``commit``.

        Raises:
            ModelError: as ``write`` does.
        """
        self._spec.check_range(offset, nbytes)
        under = list(self._under(offset, nbytes))
        if len(under) != 1:
            return None
        part, start, stop = under[0]
        if not isinstance(part, ArrayModel):
            return None  # staged tensors have no host memory of their own
        if self._is_torn:
            return part.lend(start, stop - start)
        self._require_fillable()
        view = part.lend(start, stop - start)
        if view is not None:
            self._tear()
        return view

    def filled(self, offset: int, nbytes: int) -> None:
        """Record that a lent range holds verified bytes."""
        self._spec.check_range(offset, nbytes)
        for part, start, stop in self._under(offset, nbytes):
            assert isinstance(part, ArrayModel), "only host memory is lent"
            part.filled(start, stop - start)
        self._written.add(offset, offset + nbytes)

    def prepare(self, progress: Progress | None = None) -> None:
        """Check that every byte was written; the tensors stay torn until ``commit``.

        Raises:
            StoreError: some bytes were never written.
        """
        require_complete(self._written, self._spec)

    def commit(self, progress: Progress | None = None) -> None:
        """End the torn state: the tensors hold the new model.

        Raises:
            StoreError: some bytes were never written.
        """
        require_complete(self._written, self._spec)
        for part in self._parts:
            part.commit()
        await_gpus(self._tensors.values())  # a strided tensor is filled by a kernel of its own
        self._end()
        # Last: ``_end`` informs autograd only while the tensors are torn.
        self._is_torn = False

    def discard(self) -> None:
        """Drop the record of writes; torn tensors stay torn until a model is committed."""
        for part in self._parts:
            part.discard()
        self._end()

    def watch(self) -> Check:
        """Return a check that raises ``SourceChanged`` if a tensor was modified since this call.

        The class documentation names the writes that PyTorch does not count.
        """
        noted = versions(self._tensors)
        # After the counters are noted: they count what is queued, too.
        await_gpus(self._tensors.values())

        def check() -> None:
            if (now := versions(self._tensors)) != noted:
                name = next(name for name in noted if now[name] != noted[name])
                raise SourceChanged("it was written to while it was read", tensor=name)

        return check

    def close(self) -> None:
        """Free the host memory used for tensors on a device and for strided tensors."""
        for part in self._parts:
            part.close()

    def _require_fillable(self) -> None:
        """Check all tensors before the first one is modified."""
        if self._obstacle:
            raise ModelError(self._obstacle)
        self._require_unmoved()
        await_gpus(self._tensors.values())

    def _tear(self) -> None:
        self._is_torn = True
        # Before the first byte changes: a backward pass that begins in between already raises.
        inform_autograd(self._tensors.values())

    def _end(self) -> None:
        self._written.clear()
        if self._is_torn:
            inform_autograd(self._tensors.values())  # for results computed since the first byte

    def _under(
        self, offset: int, length: int
    ) -> Iterator[tuple[ArrayModel | StagedTensors, int, int]]:
        """Yield (part, start, stop) for each part in a range, as ``ModelSpec.spans`` does."""
        stop = offset + length
        index = bisect_right(self._starts, offset) - 1
        while offset < stop:
            start, end = self._starts[index], min(stop, self._starts[index + 1])
            if end > offset:
                yield self._parts[index], offset - start, end - start
                offset = end
            index += 1

    def _require_unmoved(self) -> None:
        if name := moved(self._tensors, self._now()):
            raise ModelError(
                f"tensor {name!r} has other memory than when this TorchModel was made: its module "
                "was moved or cast since (.to(), .half(), load_state_dict(assign=True)); "
                "make a new TorchModel"
            )


def _require_no_copies(tensors: Mapping[str, Tensor], again: Mapping[str, Tensor]) -> None:
    """Refuse entries that a hook copies, because filling a copy would have no effect.

    A copy is recognized by its memory, which differs in each ``state_dict()``.
    """
    if name := moved(tensors, again):
        raise ModelError(
            f"tensor {name!r} is a copy that state_dict() made, not the module's own memory; "
            "pass the tensors themselves as a dict, name → tensor"
        )


def _parts(
    tensors: Mapping[str, Tensor], is_staged: Callable[[Tensor], bool], staging_bytes: int
) -> Iterator[ArrayModel | StagedTensors]:
    """Yield one model for each run of tensors that are handled in the same way."""
    for staged, run in itertools.groupby(tensors.items(), lambda item: is_staged(item[1])):
        if staged:
            yield StagedTensors(dict(run), staging_bytes)
        else:
            arrays = {name: array_of(tensor) for name, tensor in run}
            yield ArrayModel(arrays, _are_fillable=True)  # all tensors were compared
