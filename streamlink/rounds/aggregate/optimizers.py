"""Server optimizers: the mean of the updates is a step's direction, and not the new model itself.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar and McMahan, "Adaptive Federated
Optimization" (ICLR 2021), Algorithm 2. The shift of a round is the weighted mean of what the
clients changed: ``shift = sum(weight * (update - base)) / sum(weight)``. An optimizer treats it as
a gradient, and keeps sums over the rounds: the *slots*, which ``state`` stores beside the model.

    updates ──mean──▶ shift ──optimizer, slots──▶ step ──▶ base + step

The shift is computed in float64, as the mean is, since the new model may lie close to the old one.
The slots and the step are in the dtype in which the slots are stored, and the slots are updated in
place: float32, and float64 for F64 tensors. A complex number is treated as its two parts. Integers
and booleans have no gradient: the new model has their weighted mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.rounds.aggregate.aggregator import Aggregation
from streamlink.rounds.aggregate.compensated import ARRAYS, CompensatedMean
from streamlink.rounds.aggregate.mean import WeightedMean
from streamlink.rounds.aggregate.named import NamedSettings
from streamlink.rounds.aggregate.rounding import add_shift, default_nans, round_into
from streamlink.rounds.aggregate.validate import check_arrays, check_state, known_dtype

__all__ = ["FedAdam", "FedAvgM"]

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float64]

# Smaller blocks would stay in a smaller cache. But each call of NumPy releases the lock of the
# interpreter and has to wait for it again: in a server, fewer and longer calls are faster.
_BLOCK = 64 * 1024  # elements
_BLOCK_F64 = _BLOCK * 4 // (ARRAYS + 1)  # sums in twice the precision need more arrays


class _Optimizer(NamedSettings):
    """What the optimizers share: they differ in their slots and in their step."""

    eta: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The server's learning rate (ratio)."""

    is_wide: ClassVar[bool] = False
    """Whether a step is computed in float64 also where the slots are float32."""

    @property
    def slots(self) -> Mapping[str, float]:
        """The state: its names, and what it begins with. First the momentum, a factor of steps."""
        raise NotImplementedError

    def scratch_bytes(self, clients: int) -> int:
        """Return the memory of one aggregation (bytes)."""
        return 4 * _BLOCK * 8 + _BLOCK + WeightedMean([1.0]).scratch_bytes

    def begin(self, weights: Sequence[float], kinds: Sequence[UpdateKind]) -> Aggregation:
        """Return the aggregation of one round.

        Raises:
            ModelError: a weight is not allowed, or all are 0.
        """
        return _Step(self, weights, kinds)

    def step(self, shift: _Array, slots: Sequence[_Array], spare: _Array) -> None:
        """Replace ``shift`` by the step, and update the slots in place; ``spare`` is scratch.

        All have one dtype: float32 or float64.
        """
        raise NotImplementedError


class FedAvgM(_Optimizer):
    """Server momentum (FedAvgM): ``m = beta * m + shift``, and the step is ``eta * m``.

    Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated
    Visual Classification" (2019). ``m`` begins with 0. With ``beta`` 0 and ``eta`` 1 it is the
    weighted mean, to the last bit; a shift in float32 would not be.
    """

    name = "fedavgm"
    is_wide = True

    beta: float = Field(default=0.9, ge=0, lt=1)
    """The share of the earlier rounds' momentum that is kept (ratio)."""

    @property
    def slots(self) -> Mapping[str, float]:
        """The momentum."""
        return {"momentum": 0.0}

    def step(self, shift: _Array, slots: Sequence[_Array], spare: _Array) -> None:
        """Set ``shift`` to ``eta * m``."""
        (momentum,) = slots
        np.multiply(momentum, self.beta, out=momentum)
        np.add(momentum, shift, out=momentum)
        np.multiply(momentum, self.eta, out=shift)


class FedAdam(_Optimizer):
    """FedAdam: steps of about ``eta`` for elements that all rounds move alike, smaller for others.

    ``m = beta1 * m + (1 - beta1) * shift``, ``v = beta2 * v + (1 - beta2) * shift^2``, and the step
    is ``eta * m / (sqrt(v) + tau)``. As in Algorithm 2 of the paper, ``m`` begins with 0, ``v``
    with ``tau^2``, and neither is corrected for the bias of its beginning.
    """

    name = "fedadam"

    eta: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """The server's learning rate (ratio): about how far an element moves in a round."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """The share of the earlier rounds' momentum that is kept (ratio)."""

    beta2: float = Field(default=0.99, ge=0, lt=1)
    """The share of the earlier rounds' second moment that is kept (ratio)."""

    tau: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    """Adaptivity (ratio): the larger, the more is a step in proportion to the shift,
    and the less are small shifts enlarged."""

    @property
    def slots(self) -> Mapping[str, float]:
        """The momentum and the second moment."""
        return {"momentum": 0.0, "second_moment": self.tau**2}

    def step(self, shift: _Array, slots: Sequence[_Array], spare: _Array) -> None:
        """Set ``shift`` to ``eta * m / (sqrt(v) + tau)``."""
        momentum, second = slots
        np.multiply(momentum, self.beta1, out=momentum)
        np.multiply(shift, 1.0 - self.beta1, out=spare)
        np.add(momentum, spare, out=momentum)
        np.multiply(shift, shift, out=spare)
        np.multiply(spare, 1.0 - self.beta2, out=spare)
        np.multiply(second, self.beta2, out=second)
        np.add(second, spare, out=second)
        np.sqrt(second, out=spare)
        np.add(spare, self.tau, out=spare)
        np.multiply(momentum, self.eta, out=shift)
        np.divide(shift, spare, out=shift)


class _Step:
    """The step of one round."""

    def __init__(
        self, optimizer: _Optimizer, weights: Sequence[float], kinds: Sequence[UpdateKind]
    ) -> None:
        self._optimizer = optimizer
        self._slots = len(optimizer.slots)
        self._mean = WeightedMean(weights, kinds)
        self._count = len(weights)
        self._counted = [number for number, weight in enumerate(weights) if weight]
        self._compensated = CompensatedMean(
            [weights[number] for number in self._counted],
            [kinds[number] == UpdateKind.DIFFERENCES for number in self._counted],
            is_shift=True,
        )
        total = math.fsum(weights)
        self._shares = [
            (number, weights[number] / total, kinds[number] == UpdateKind.DIFFERENCES)
            for number in self._counted
        ]
        self._scratch = np.empty(4 * _BLOCK, np.float64)
        self._mask = np.empty(_BLOCK, np.bool_)

    def needs_base(self, dtype: str | np.dtype[Any]) -> bool:
        """Return whether ``combine`` needs the base's elements of this dtype."""
        return known_dtype(dtype).kind not in "iub"

    def combine(
        self,
        dtype: str | np.dtype[Any],
        inputs: Sequence[_Array],
        out: _Array,
        base: _Array | None = None,
        state: Sequence[_Array] = (),
    ) -> bool:
        """Set ``out`` to ``base`` and the step, and ``state`` to the new slots.

        See ``Aggregation``.
        """
        elements = known_dtype(dtype)
        if not self.needs_base(elements):
            return self._mean.combine(elements, inputs, out)
        if base is None:
            raise ModelError(f"a step of dtype {elements} needs the base it is from")
        check_arrays(self._count, elements, inputs, out, base)
        check_state(self._slots, elements, state, out.size)
        if elements.kind == "c":  # two numbers that know nothing of each other
            inputs, state = _parts(inputs), _parts(state)
            out, base = out.view(np.float32), base.view(np.float32)
        size = _BLOCK_F64 if elements == np.float64 else _BLOCK
        is_finite = True
        with np.errstate(all="ignore"):
            for start in range(0, out.size, size):
                block = slice(start, start + size)
                rows = [values[block] for values in inputs]
                slots = [values[block] for values in state]
                is_finite &= self._combine(rows, out[block], base[block], slots)
        return is_finite

    def _combine(
        self, inputs: Sequence[_Array], out: _Array, base: _Array, slots: Sequence[_Array]
    ) -> bool:
        if out.dtype == np.float64:
            is_finite = self._combine_f64(inputs, out, base, slots)
        elif self._optimizer.is_wide:
            is_finite = self._combine_wide(inputs, out, base, slots)
        else:
            is_finite = self._combine_narrow(inputs, out, base, slots)
        if not is_finite:
            # No slot has NaN where every step is finite: each is a factor of the step, or divides
            # it. At most it has an infinity that makes the step 0, and no update is to blame.
            for slot in slots:
                default_nans(slot, self._mask[: slot.size])
        return is_finite

    def _combine_f64(
        self, inputs: Sequence[_Array], out: _Array, base: _Array, slots: Sequence[_Array]
    ) -> bool:
        arrays, mask = self._rows(ARRAYS + 1, out.size)
        before, work = arrays[0], arrays[1:]
        np.copyto(before, base)
        counted = [inputs[number] for number in self._counted]
        shift = self._compensated.combine(counted, base, work)
        spare = work[0]
        self._optimizer.step(shift, slots, spare)
        add_shift(shift, before, mask)
        return round_into(before, spare, mask, out)

    def _combine_wide(
        self, inputs: Sequence[_Array], out: _Array, base: _Array, slots: Sequence[_Array]
    ) -> bool:
        (before, shift, spare, *wide), mask = self._rows(3 + len(slots), out.size)
        np.copyto(before, base, casting="unsafe")
        self._mean.shift(inputs, before, shift, spare)
        for values, slot in zip(wide, slots, strict=True):
            np.copyto(values, slot)
        self._optimizer.step(shift, wide, spare)
        for values, slot in zip(wide, slots, strict=True):
            np.copyto(slot, values, casting="same_kind")
        add_shift(shift, before, mask)
        return round_into(before, spare, mask, out)

    def _combine_narrow(
        self, inputs: Sequence[_Array], out: _Array, base: _Array, slots: Sequence[_Array]
    ) -> bool:
        (before, wide, spare), mask = self._rows(3, out.size)
        shift, term = (row.view(np.float32)[: out.size] for row in (wide, spare))
        self._shift(inputs, base, shift, term)
        self._optimizer.step(shift, slots, term)
        if out.dtype == np.float32:
            # The same bits as by way of float64, which has more than twice the digits.
            np.copyto(out, base)
            add_shift(shift, out, mask)
            return default_nans(out, mask)
        np.copyto(before, base, casting="unsafe")
        np.copyto(spare, shift)
        add_shift(spare, before, mask)
        return round_into(before, wide, mask, out)

    def _shift(self, inputs: Sequence[_Array], base: _Array, shift: _Array, term: _Array) -> None:
        """Set ``shift`` to the weighted mean of what the updates change, in float32.

        The difference of two elements of float32 or narrower is rounded once, however close they
        are. So each update's change is as good as if the client had sent it.
        """
        change = shift
        for number, share, is_difference in self._shares:
            if is_difference:
                np.copyto(change, inputs[number], casting="unsafe")
            elif inputs[number].dtype == np.float32:
                np.subtract(inputs[number], base, out=change)
            else:
                np.subtract(inputs[number], base, out=change, dtype=np.float32)
            np.multiply(change, share, out=change)
            if change is term:
                np.add(shift, term, out=shift)
            change = term

    def _rows(self, count: int, size: int) -> tuple[_Floats, npt.NDArray[np.bool_]]:
        """Return ``count`` scratch arrays of ``size`` elements, and a mask as long."""
        return self._scratch[: count * size].reshape(count, size), self._mask[:size]


def _parts(arrays: Sequence[_Array]) -> list[_Array]:
    return [values.view(np.float32) for values in arrays]
