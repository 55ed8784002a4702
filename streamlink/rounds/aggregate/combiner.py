"""Computes the new model from the updates, one piece at a time.

A ``Combiner`` goes through the *model* from its first byte to its last, and writes the sink in that
order. Tensors of the round's part are combined from the updates; the others are copied from the
base, the model that the clients were given. It never waits: ``gather`` calls it when bytes are
there, and ``update_source`` hides where they come from. So the result is the same bits either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from streamlink.errors import (
    ModelError,
    NonFiniteRound,
    NonFiniteUpdate,
    QuorumNotReached,
    RoundError,
    SpecMismatch,
    StreamlinkError,
)
from streamlink.link import UpdateKind
from streamlink.model.computed import RangeFunction
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSink, ModelSource, lends, watch
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.aggregators import MEAN
from streamlink.rounds.aggregate.state_step import StateStep
from streamlink.rounds.aggregate.validate import first_non_finite

__all__ = ["PIECE_BYTES", "Combiner", "Contribution", "ContributorFailed", "NonFinite", "Step"]

PIECE_BYTES = BLOCK_BYTES
"""The new model is computed in pieces of at most this much (bytes): a block of the digest tree."""

NonFinite = Literal["accept", "reject", "fail"]
"""``RoundConfig.non_finite``: what NaN or infinity in an update leads to."""

# Complex numbers of two float64: a piece ends behind the element that its limit would cut.
_LARGEST_ELEMENT_BYTES = 16


class Step(Enum):
    """A step of the gathering, for hooks; an exception from a hook fails the round."""

    AGGREGATING = "aggregating"
    """Every update is announced and its description checked; no byte is computed yet."""

    AGGREGATED = "aggregated"
    """The last byte is computed and every update is whole; nothing is committed yet."""

    PERSISTED = "persisted"
    """The new model is committed: raising does not undo it."""


class ContributorFailed(RoundError):
    """One client's update failed, or must not count; ``__cause__`` says why.

    Args:
        peer_name: the client.
        error: the cause.
        was_awaited: the client was lost, and did not come back within its grace time.
    """

    def __init__(
        self, peer_name: str, error: StreamlinkError, *, was_awaited: bool = False
    ) -> None:
        self.peer_name = peer_name
        self.was_awaited = was_awaited
        super().__init__(f"the update of {peer_name} failed", {peer_name: error})


class Contribution(Protocol):
    """What the ``Combiner`` needs of one client's update."""

    @property
    def peer_name(self) -> str:
        """The client's name."""

    @property
    def weight(self) -> float:
        """Its weight in the mean."""

    @property
    def kind(self) -> UpdateKind:
        """What its floating point and complex tensors are."""

    @property
    def filters(self) -> Sequence[RangeFunction]:
        """Functions that are applied to its elements, in this order, before they are combined."""

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes`` of the part."""


class Combiner:
    """Computes the new model from ``base`` and the ``contributions``, into ``sink``.

    Memory: one piece of the new model, and one of the base if an update has differences. While it
    computes a piece also that piece of every update, and what the filters returned for it.

    Args:
        base: the model the clients were given. Read, never closed.
        part: the tensors that the updates have: an ordered subset of the base's.
        contributions: in the order of accumulation. A fixed order is what makes the result
            reproducible: floating point addition is not associative.
        sink: takes the new model, from 0 to its end; the caller commits or discards it.
        non_finite: what to do about NaN or infinity in an update, after its filters. An update of
            weight 0 is not checked, since nothing of it counts.
        aggregator: combines the elements.
        state: the aggregator's, if it keeps one; the caller commits or closes it.

    Raises:
        QuorumNotReached: every update has weight 0.
        ModelError: the weights have no sum.
        SpecMismatch: ``part`` is no ordered subset of the base's tensors.
    """

    def __init__(
        self,
        base: ModelSource,
        part: ModelSpec,
        contributions: Sequence[Contribution],
        sink: ModelSink,
        *,
        non_finite: NonFinite = "reject",
        aggregator: Aggregator = MEAN,
        state: StateStep | None = None,
    ) -> None:
        if not any(each.weight for each in contributions):
            raise QuorumNotReached("every update has weight 0, so there is no mean of them")
        self._base = base
        # From before the first read on; ``compute`` calls it after the last.
        self._check_base = watch(base)
        self._spec = base.spec
        self._contributions = list(contributions)
        self._sink, self._lender = sink, lends(sink)
        self._non_finite = non_finite
        self._is_filtered = any(each.filters for each in contributions)
        self._aggregation = aggregator.begin(
            [each.weight for each in contributions], [each.kind for each in contributions]
        )
        self._state = state
        self._stretches = _stretches(self._spec, part)
        self._stretch = 0
        self._out = np.empty(PIECE_BYTES + _LARGEST_ELEMENT_BYTES, np.uint8)
        self._base_piece, self._base_piece_at = memoryview(b""), 0
        self.position = 0
        """Bytes of the new model that are computed."""
        self.used = 0
        """Bytes of each update that are used."""

    @property
    def is_done(self) -> bool:
        """Whether the last byte is computed."""
        return self.position == self._spec.nbytes

    def ahead(self, reach: int) -> int:
        """Return how many bytes of the new model can be computed now: whole elements, one piece.

        Args:
            reach: how many bytes of the part are here of every update.

        Returns:
            0: the next element is not here yet.
        """
        stop, is_part = self._stretches[self._stretch]
        # A piece ends at a multiple of its size, as the blocks of digests and stores do.
        limit = min(stop, (self.position // PIECE_BYTES + 1) * PIECE_BYTES)
        if not is_part:
            return limit - self.position
        reach += self.position - self.used
        if reach > limit:
            # An element that the piece's limit cuts belongs to this piece: whole elements only.
            before, itemsize = self._cut_at(limit)
            reach = min(reach, limit + (itemsize - before if before else 0))
        return reach - self._cut_at(reach)[0] - self.position

    def compute(self, nbytes: int) -> int:
        """Compute the next ``nbytes``, as ``ahead`` returned; return how many each update gave.

        Raises:
            ContributorFailed: an update has NaN or infinity, and ``non_finite`` is ``"reject"``.
            NonFiniteRound: the same, and it is ``"fail"``.
            ModelError: a filter returned another dtype or length.
            SourceChanged: another process wrote to the base meanwhile.
            StoreError: the base cannot be read, or the new model not be stored.
        """
        stop, is_part = self._stretches[self._stretch]
        used = self._combine(nbytes) if is_part else self._copy(nbytes)
        self.used += used
        if self.position == stop:
            self._stretch += 1
        # Only now: the check covers every read of the base, and the caller has not committed yet.
        if self.is_done:
            self._check_base()
        return used

    # --- one piece ------------------------------------------------------------------------

    def _copy(self, nbytes: int) -> int:
        for view in self._base.read(self.position, nbytes):
            self._sink.write(self.position, view)
            self.position += view.nbytes
        return 0

    def _combine(self, nbytes: int) -> int:
        inputs = [each.take(nbytes) for each in self._contributions]
        # Computed in its place where the sink has it in memory: that saves a pass over the piece.
        place = self._lender.lend(self.position, nbytes) if self._lender is not None else None
        target = self._out if place is None else np.frombuffer(place, np.uint8)
        done = 0
        for run in self._runs(nbytes):
            stop = done + run.nbytes
            values = [np.frombuffer(view[done:stop], run.dtype) for view in inputs]
            if self._is_filtered:
                values = [
                    _all_filtered(each.filters, run, array)
                    for each, array in zip(self._contributions, values, strict=True)
                ]
            base = self._base_of(done, run) if self._aggregation.needs_base(run.dtype) else None
            out = target[done:stop].view(run.dtype)
            # One look at the result instead of at each update: no sum loses a NaN or an infinity.
            is_finite = self._aggregated(run.dtype, values, out, base)
            if not is_finite and self._non_finite != "accept":
                self._require_finite(values, self.position + done)
            done = stop
        if self._lender is not None and place is not None:
            self._lender.filled(self.position, nbytes)
        else:
            self._sink.write(self.position, self._out.data[:nbytes])
        self.position += nbytes
        return nbytes

    def _aggregated(
        self, dtype: np.dtype[Any], values: list[_Array], out: _Array, base: _Array | None
    ) -> bool:
        """Combine one run, as far as the state is at hand at once; return whether all is finite."""
        if self._state is None:
            return self._aggregation.combine(dtype, values, out, base)
        is_finite, done = True, 0
        while done < out.size:
            state = self._state.take(dtype, out.size - done)
            here = slice(done, done + state[0].size if state else out.size)
            ours = None if base is None else base[here]
            inputs = [each[here] for each in values]
            is_finite &= self._aggregation.combine(dtype, inputs, out[here], ours, state)
            self._state.put(state)
            done = here.stop
        return is_finite

    def _runs(self, nbytes: int) -> list[_Run]:
        """Return the next runs of one dtype each; with filters, one run for each tensor."""
        # Neighbours of one dtype share a run, and so one call of NumPy each: a model may have
        # 100,000 small tensors, and a call costs more than such a tensor. Filters need the tensor.
        runs: list[_Run] = []
        tensors, present = self._spec.tensors, ""
        for index, start, stop in self._spec.spans(self.position, nbytes):
            tensor = tensors[index]
            if tensor.dtype == present and not self._is_filtered:
                runs[-1].nbytes += stop - start
                continue
            present, dtype = tensor.dtype, tensor.numpy_dtype
            runs.append(_Run(tensor, start // dtype.itemsize, dtype, stop - start))
        return runs

    def _require_finite(self, inputs: Sequence[_Array], position: int) -> None:
        """Raise for the first update that has NaN or infinity in the run at ``position``.

        There may be none: then the base is not finite, or base plus differences overflowed.
        """
        for contribution, values in zip(self._contributions, inputs, strict=True):
            index = first_non_finite(values) if contribution.weight else -1
            if index < 0:
                continue
            number, inside = self._spec.locate(position + index * values.itemsize)
            tensor = self._spec.tensors[number]
            error = NonFiniteUpdate(
                contribution.peer_name, tensor.name, inside // tensor.itemsize, self._non_finite
            )
            if self._non_finite == "fail":
                raise NonFiniteRound(contribution.peer_name, error) from error
            raise ContributorFailed(contribution.peer_name, error) from error

    def _base_of(self, done: int, run: _Run) -> _Array:
        """Return the base's elements of ``run``, which begins ``done`` bytes into the piece."""
        start = self.position + done
        stop, held = start + run.nbytes, self._base_piece_at
        if not held <= start <= stop <= held + self._base_piece.nbytes:
            # To the end of the piece at once: updates may arrive in much smaller steps, and a store
            # reads and verifies whole blocks, so it would read the same block again and again.
            end = max(stop, min(self._spec.nbytes, (start // PIECE_BYTES + 1) * PIECE_BYTES))
            self._base_piece = join(self._base.read(start, end - start))
            held = self._base_piece_at = start
        return np.frombuffer(self._base_piece[start - held : stop - held], run.dtype)

    def _cut_at(self, offset: int) -> tuple[int, int]:
        """Return how many bytes of an element lie before ``offset``, and that element's size."""
        if offset >= self._spec.nbytes:
            return 0, 1
        index, inside = self._spec.locate(offset)
        itemsize = self._spec.tensors[index].itemsize
        return inside % itemsize, itemsize


_Array = npt.NDArray[Any]


@dataclass(slots=True)
class _Run:
    tensor: TensorSpec  # the first one
    start: int  # its first element here
    dtype: np.dtype[Any]
    nbytes: int


def _stretches(whole: ModelSpec, part: ModelSpec) -> list[tuple[int, bool]]:
    """Return the model as stretches that are in the part or not, in turn: (end, is in the part)."""
    stretches: list[tuple[int, bool]] = []
    position = found = 0
    for tensor in whole.tensors:
        is_part = found < len(part.tensors) and part.tensors[found] == tensor
        found += is_part
        # Only computing passes a stretch, and there is nothing to compute in one without bytes.
        if not tensor.nbytes:
            continue
        position += tensor.nbytes
        if stretches and stretches[-1][1] == is_part:
            stretches.pop()
        stretches.append((position, is_part))
    if found < len(part.tensors):
        name = part.tensors[found].name
        raise SpecMismatch(f"tensor {name!r} of the part is not in the model, or not in this order")
    return stretches


def _all_filtered(filters: Sequence[RangeFunction], run: _Run, values: _Array) -> _Array:
    for function in filters:
        values = _filtered(function, run, values)
    return values


def _filtered(function: RangeFunction, run: _Run, values: _Array) -> _Array:
    # Read-only: the array may be a view of a store in memory, and a filter that worked in place
    # would change the update itself.
    values = values.view()  # so that the flag below does not change the filter's own array
    values.flags.writeable = False
    result = np.ascontiguousarray(function(run.tensor, run.start, values))
    if result.dtype != run.dtype or result.shape != values.shape:
        raise ModelError(
            f"a filter made shape {result.shape} of {result.dtype} out of {values.size} elements "
            f"of tensor {run.tensor.name!r} ({run.tensor.dtype}); it must keep both"
        )
    return result
