"""Models in PyTorch: a module's own tensors, read where they lie and received into place.

``TorchModel`` is for tensors what ``ArrayModel`` is for arrays. Runs of contiguous tensors in host
memory *are* an ``ArrayModel`` over the same memory; runs of others are ``StagedTensors``, which go
through a bounded buffer. There is never a second model, nor a second whole tensor.

PyTorch is an extra: only this module, ``staged`` and ``tensors`` import it, and nobody them unless
there are tensors at hand.
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
    checked,
    moved,
    obstacle,
    require_disjoint,
    tell_autograd,
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

    Parameters, persistent buffers and counters travel, in the order and under the names of
    ``state_dict()``. Make it when the module is where it shall stay: ``.to()``, ``.half()`` and
    ``load_state_dict(assign=True)`` give a module other memory, and then it is refused. Tensors
    must not change while someone holds a view of them, so do not train while a model is sent: an
    optimizer's step meanwhile raises ``SourceChanged``, told by PyTorch's version counters. They
    do not count what is written through ``.data`` or a NumPy view, and inference tensors have
    none; of those only the digest at the other end tells, and not all.

    *Tied weights*, two names of the very same memory, travel once, under the first name. The other
    end, and any file, know the first name only; ``tied`` tells the others.

    *Autograd* notices: what was computed from the old values cannot be differentiated any more.

    *On a device* a range is copied to host memory, and from it, with synchronous copies on the
    current stream; whoever computes on another one synchronizes first. The code for devices is
    tested with tensors in host memory, through the same copies; it was not run on a GPU.

    Args:
        model: a module, or name → tensor in logical order. Any shape and strides.
        staging_bytes: host memory held while tensors on a device, or strided ones, are filled,
            and the most that one copy from or to them moves; at least 16. Reading them lends as
            many bytes as were asked for.

    Raises:
        UnsupportedDtype: a tensor's elements cannot travel.
        ModelError: an entry is no tensor with memory of its own (sparse, meta, partly shared ...).
        ValueError: ``staging_bytes`` is too small.
    """

    def __init__(
        self,
        model: torch.nn.Module | Mapping[str, Tensor],
        *,
        staging_bytes: int = 8 << 20,
        _is_staged: Callable[[Tensor], bool] = _needs_staging,  # tests stage what needs no staging
    ) -> None:
        if staging_bytes < _MIN_STAGING_BYTES:
            raise ValueError(
                f"staging_bytes must be at least {_MIN_STAGING_BYTES}, not {staging_bytes}"
            )
        self._now = dict(model).copy if isinstance(model, Mapping) else model.state_dict
        self._tensors = {name: checked(name, entry) for name, entry in self._now().items()}
        _require_no_copies(self._tensors, self._now())
        self._tied = ties(self._tensors)
        kept = {name: each for name, each in self._tensors.items() if name not in self._tied}
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
        """The tensors, in logical order, each piece of memory once."""
        return self._spec

    @property
    def tied(self) -> dict[str, str]:
        """Each name that does not travel, to the name under which its memory does."""
        return dict(self._tied)

    @property
    def is_torn(self) -> bool:
        """Whether a model has begun to arrive and is not committed: part old, part new."""
        return self._is_torn

    def read(self, offset: int, length: int) -> Payload:
        """Return views of contiguous tensors in host memory, and copies of ranges of others.

        Raises:
            TornModel: the tensors are part old model, part new.
            ModelError: the module was moved or cast since.
        """
        self._spec.check_range(offset, length)
        if self._is_torn:
            raise TornModel(
                "these tensors hold part of an old and part of a new model, because a transfer "
                "into them did not finish; receive the model again, or load it from a store"
            )
        if offset == 0:  # where whoever reads a model begins; to look each time would be dear
            self._require_unmoved()
        payloads = (part.read(at, stop - at) for part, at, stop in self._under(offset, length))
        return tuple(itertools.chain.from_iterable(payloads))

    def write(self, offset: int, payload: memoryview) -> None:
        """Copy ``payload`` into the tensors, which are torn from now on until ``commit``.

        Raises:
            ModelError: a tensor cannot be filled, or the module was moved or cast since.
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

        All tensors are torn from now on until ``commit``.

        Raises:
            ModelError: as ``write`` does.
        """
        self._spec.check_range(offset, nbytes)
        under = list(self._under(offset, nbytes))
        if len(under) != 1:
            return None
        part, start, stop = under[0]
        if not isinstance(part, ArrayModel):
            return None  # it has no host memory to stay in
        if self._is_torn:
            return part.lend(start, stop - start)
        self._require_fillable()
        view = part.lend(start, stop - start)
        if view is not None:
            self._tear()
        return view

    def filled(self, offset: int, nbytes: int) -> None:
        """Take note that lent bytes are here and verified."""
        self._spec.check_range(offset, nbytes)
        for part, start, stop in self._under(offset, nbytes):
            assert isinstance(part, ArrayModel), "only host memory is lent"
            part.filled(start, stop - start)
        self._written.add(offset, offset + nbytes)

    def prepare(self, progress: Progress | None = None) -> None:
        """Check that all of it was written; the tensors stay torn until ``commit``.

        Raises:
            StoreError: part of them was never written.
        """
        require_complete(self._written, self._spec)

    def commit(self, progress: Progress | None = None) -> None:
        """Declare the tensors whole.

        Raises:
            StoreError: part of them was never written.
        """
        require_complete(self._written, self._spec)
        for part in self._parts:
            part.commit()
        self._end()
        self._is_torn = False

    def discard(self) -> None:
        """Forget what was written; tensors that were torn stay torn until a whole model is in."""
        for part in self._parts:
            part.discard()
        self._end()

    def watch(self) -> Check:
        """Return a check that raises ``SourceChanged`` where a tensor was written to since.

        See above for writes that PyTorch does not count.
        """
        noted = versions(self._tensors)

        def check() -> None:
            if (now := versions(self._tensors)) != noted:
                name = next(name for name in noted if now[name] != noted[name])
                raise SourceChanged("it was written to while it was read", tensor=name)

        return check

    def close(self) -> None:
        """Nothing is held but the tensors, and host memory for those on a device."""
        for part in self._parts:
            part.close()

    def _require_fillable(self) -> None:
        """Find what cannot be filled before any tensor has been touched."""
        if self._obstacle:
            raise ModelError(self._obstacle)
        self._require_unmoved()

    def _tear(self) -> None:
        self._is_torn = True
        tell_autograd(self._tensors.values())

    def _end(self) -> None:
        self._written.clear()
        if self._is_torn:
            tell_autograd(self._tensors.values())  # of results made since the first byte

    def _under(
        self, offset: int, length: int
    ) -> Iterator[tuple[ArrayModel | StagedTensors, int, int]]:
        """Yield (part, start, stop) for each part under a range, as ``ModelSpec.spans`` does."""
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
                f"tensor {name!r} is not where it was when this TorchModel was made: its module "
                "was moved or cast since (.to(), .half(), load_state_dict(assign=True)); "
                "make a new TorchModel"
            )


def _require_no_copies(tensors: Mapping[str, Tensor], again: Mapping[str, Tensor]) -> None:
    """Find what a hook copies: filling a copy would be lost. Each ``state_dict()`` has its own."""
    if name := moved(tensors, again):
        raise ModelError(
            f"tensor {name!r} is a copy that state_dict() made, not the module's own memory; "
            "pass the tensors themselves, name → tensor"
        )


def _parts(
    tensors: Mapping[str, Tensor], is_staged: Callable[[Tensor], bool], staging_bytes: int
) -> Iterator[ArrayModel | StagedTensors]:
    """Yield a model for each run of tensors that are handled alike."""
    for staged, run in itertools.groupby(tensors.items(), lambda item: is_staged(item[1])):
        if staged:
            yield StagedTensors(dict(run), staging_bytes)
        else:
            arrays = {name: array_of(tensor) for name, tensor in run}
            yield ArrayModel(arrays, _are_fillable=True)  # all tensors were compared
