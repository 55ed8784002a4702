"""Checks every element of the job's final model, and says what a wrong one looks like.

The model is read range by range through the same interface that sends it, so a check needs a few
megabytes whatever the model's size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from weights import (
    Fill,
    Floats,
    delta,
    expected_shift,
    fill,
    round_shift,
)

from streamlink import ModelSource, TensorSpec

Rounds = Sequence[Collection[int]]
Progress = Callable[[int], None]

_READ_ELEMENTS = 1 << 20  # 4 MiB asked of the source at a time
_BLOCK_ELEMENTS = 1 << 16  # 256 KiB compared at a time: fits the cache with what it is compared to
_WINDOW = 8  # elements that must all agree before a place is called the origin of wrong ones


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first wrong element: where it is, what it should be, and what it looks like."""

    key: str
    index: int
    expected: float
    found: float
    looks_like: str = ""

    def __str__(self) -> str:
        why = f": {self.looks_like}" if self.looks_like else ", which nothing known explains"
        return f"{self.key}[{self.index}] is {self.found!r}, expected {self.expected!r}{why}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How many elements were compared, how many were wrong, and the first of those."""

    elements: int
    wrong: int = 0
    first: Mismatch | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every element is exactly right."""
        return self.wrong == 0

    def __str__(self) -> str:
        if self.first is None:
            return f"all {self.elements} elements are exactly right"
        return f"{self.wrong} of {self.elements} elements are wrong; the first: {self.first}"


def verify(
    source: ModelSource, kind: str, rounds_contributors: Rounds, progress: Progress | None = None
) -> VerifyReport:
    """Compare every element with its initial value plus what the rounds should have added.

    Args:
        source: the final model; only read, never closed.
        kind: which initial weights the job began with, "pattern" or "random".
        rounds_contributors: for each round, the clients whose updates it should hold.
        progress: called with the number of bytes compared so far.

    Raises:
        ValueError: a tensor is not float32, or the rounds have no exact result.
    """
    check = _Check(source, fill(kind), rounds_contributors)
    elements = wrong = 0
    first: Mismatch | None = None
    for index, tensor in enumerate(source.spec.tensors):
        if tensor.dtype != "F32":
            raise ValueError(f"tensor {tensor.name} is {tensor.dtype}; this job's model is F32")
        for start in range(0, tensor.count, _READ_ELEMENTS):
            found = check.read(index, start, min(_READ_ELEMENTS, tensor.count - start))
            bad = check.wrong_elements(tensor, start, found)
            if bad.size and first is None:
                first = check.explain(index, start + int(bad[0]))
            wrong, elements = wrong + bad.size, elements + found.size
            if progress is not None:
                progress(4 * elements)
    return VerifyReport(elements, wrong, first)


class _Check:
    """One verification under way: where elements come from and what they should be."""

    def __init__(self, source: ModelSource, initial: Fill, rounds: Rounds) -> None:
        self._source = source
        self._initial = initial
        self._rounds = rounds
        self._shift = expected_shift(rounds)
        self._expected = np.empty(_BLOCK_ELEMENTS, np.float32)
        self._differs = np.empty(_BLOCK_ELEMENTS, np.bool_)

    def read(self, index: int, start: int, count: int) -> Floats:
        """Return elements ``[start, start + count)`` of tensor ``index``, uncopied if whole."""
        offset = self._source.spec.offset_of(index) + 4 * start
        payload = self._source.read(offset, 4 * count)
        return np.frombuffer(payload[0] if len(payload) == 1 else b"".join(payload), np.float32)

    def wrong_elements(self, tensor: TensorSpec, start: int, found: Floats) -> npt.NDArray[np.int_]:
        """Return the positions in ``found``, which begins at ``start``, that are not right."""
        wrong: list[npt.NDArray[np.int_]] = []
        for at in range(0, found.size, _BLOCK_ELEMENTS):
            block = found[at : at + _BLOCK_ELEMENTS]
            differs = self._differs[: block.size]
            expected = self._expected_block(tensor, start + at, block.size)
            # As bits, so that a NaN, or a zero of the other sign, is as wrong as it looks.
            np.not_equal(block.view(np.uint32), expected.view(np.uint32), out=differs)
            if differs.any():
                wrong.append(at + np.flatnonzero(differs))
        return np.concatenate(wrong) if wrong else np.empty(0, np.int_)

    def explain(self, index: int, element: int) -> Mismatch:
        """Describe the wrong element ``element`` of tensor ``index``."""
        tensor = self._source.spec.tensors[index]
        window = self.read(index, element, min(_WINDOW, tensor.count - element))
        initial = np.empty(1, np.float32)
        self._initial(tensor, element, initial)
        expected, found = float(initial[0]) + self._shift, float(window[0])
        mismatch = Mismatch(tensor.name, element, expected, found)
        causes = _matching_causes(self._rounds, self._shift, float(initial[0]), found)
        return replace(mismatch, looks_like=causes or self._origin(tensor, element, window))

    def _origin(self, tensor: TensorSpec, element: int, window: Floats) -> str:
        """Say where else in the model the elements of ``window`` belong, if anywhere."""
        if window.size < 2 or not np.isfinite(window).all():
            return ""
        for other in self._source.spec.tensors:
            if other is not tensor and other.count >= element + window.size:
                there = self._expected_block(other, element, window.size)
                if np.array_equal(there, window):
                    return f"it belongs to the same place of {other.name}"
        places = list(self._places(tensor, window))
        if not places:
            return ""
        nearest = min(places, key=lambda place: abs(place - element))
        return f"it belongs {nearest - element:+d} elements away, at {tensor.name}[{nearest}]"

    def _places(self, tensor: TensorSpec, window: Floats) -> Iterator[int]:
        """Yield each element of ``tensor`` from which on ``window`` would be right."""
        step = _BLOCK_ELEMENTS - window.size + 1
        for start in range(0, tensor.count - window.size + 1, step):
            size = min(_BLOCK_ELEMENTS, tensor.count - start)
            block = self._expected_block(tensor, start, size)
            found = np.flatnonzero(block[: size - window.size + 1] == window[0])
            for ahead in range(1, window.size):
                found = found[block[found + ahead] == window[ahead]]
            yield from (start + found).tolist()

    def _expected_block(self, tensor: TensorSpec, start: int, count: int) -> Floats:
        expected = self._expected[:count]
        self._initial(tensor, start, expected)
        np.add(expected, np.float32(self._shift), out=expected)
        return expected


def _matching_causes(rounds: Rounds, shift: float, initial: float, found: float) -> str:
    """Return the mistakes that would give exactly ``found``, in words; ``""`` if none does."""
    causes = [
        cause
        for cause, wrong_shift in _mistakes(rounds, Fraction(shift))
        if np.float32(initial + float(wrong_shift)) == np.float32(found)
    ]
    return "as if " + ", or ".join(causes) if causes else ""


def _mistakes(rounds: Rounds, shift: Fraction) -> Iterator[tuple[str, Fraction]]:
    """Yield each mistake worth naming, and the shift it would have led to."""
    unweighted = sum((round_shift(those, weighted=False) for those in rounds), Fraction(0))
    yield "no round had been applied", Fraction(0)
    yield "the weights had been ignored in every round", unweighted
    for number, contributors in enumerate(rounds):
        right = round_shift(contributors)
        for what, wrong in _mistakes_of_a_round(contributors):
            yield f"{what} round {number}", shift - right + wrong
        yield f"round {number} had been lost", shift - right
        yield f"round {number} had been applied twice", shift + right
    yield from _dropped_everywhere(rounds)


def _mistakes_of_a_round(contributors: Collection[int]) -> Iterator[tuple[str, Fraction]]:
    yield "the weights had been ignored in", round_shift(contributors, weighted=False)
    for client in contributors:
        others = [other for other in contributors if other != client]
        if others:
            yield f"client {client} had been dropped from", round_shift(others)
        if len(others) > 1:
            yield f"client {client}'s update alone had become", Fraction(delta(client))


def _dropped_everywhere(rounds: Rounds) -> Iterator[tuple[str, Fraction]]:
    for client in sorted({client for contributors in rounds for client in contributors}):
        left = [[other for other in those if other != client] for those in rounds]
        if len(rounds) > 1 and all(left):
            total = sum((round_shift(those) for those in left), Fraction(0))
            yield f"client {client} had been dropped from every round", total
