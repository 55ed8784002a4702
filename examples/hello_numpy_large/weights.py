"""The job's model and training, as arithmetic: any element's right value after any round is known.

Nothing here is stored. The initial weights are functions of (key, element); training adds a
constant that differs from client to client; and all numbers are chosen so that no step ever rounds,
which lets ``verify.py`` compare every element exactly.

*Why nothing rounds.* Every number is a whole multiple of ``UNIT``: initial weights of at most 2^23
units, and shifts and deltas that ``expected_shift`` keeps within another 2^23 units. float32 holds
whole numbers up to 2^24 exactly, and sums over clients are made in float64.

*Why the means are whole.* Client i weighs 1 + i % 2. Its delta is not chosen: what is chosen is
the mean over the first n clients, for each n, and the delta is what moves one mean to the next.
All are multiples of 2520, the least common multiple of 1..10, so the mean over any other set of a
total weight up to 10 (and 12, 14, 15, 18, ...) is whole too. Among the first six clients no two
sets have the same mean, so a dropped client always shows, and so do weights that were ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink import ModelSpec, TensorSpec

KINDS = ("pattern", "random")
CLIENTS = 64
UNIT = 2.0**-13

Floats = npt.NDArray[np.float32]
Fill = Callable[[TensorSpec, int, npt.NDArray[Any]], None]

_ROOM = 2**23  # units left above the initial weights
_STEP = 2520

# --- the model --------------------------------------------------------------


def spec(keys: int, key_bytes: int) -> ModelSpec:
    """Return ``keys`` float32 tensors "key_00", "key_01", ... of ``key_bytes`` bytes each.

    Raises:
        ValueError: ``key_bytes`` is not a whole number of float32 elements, or ``keys`` is below 1.
    """
    if keys < 1:
        raise ValueError(f"a model of {keys} keys is none; ask for at least 1")
    if key_bytes < 0 or key_bytes % 4:
        raise ValueError(f"a key of {key_bytes} bytes is not float32; take a multiple of 4")
    shape = (key_bytes // 4,)
    return ModelSpec(tuple(TensorSpec(f"key_{key:02d}", "F32", shape) for key in range(keys)))


def key_index(tensor: TensorSpec) -> int:
    """Return the number in a tensor's name: 7 for "key_07"."""
    return int(tensor.name.removeprefix("key_"))


def fill(kind: str) -> Fill:
    """Return the function that sets ``out`` to a tensor's initial elements from ``start`` on.

    ``"pattern"``: whole numbers that repeat after 1009 elements, in another order in each key; zstd
    makes next to nothing of them (1 MiB: 436 times less). ``"random"``: 24 random bits, which zstd
    hardly shortens (1.1 times); they do not repeat for 4.29e9 elements (17 GB) of a key.

    Raises:
        ValueError: there is no such kind.
    """
    if kind == "pattern":
        return _fill_pattern
    if kind == "random":
        return _RandomWeights().fill
    raise ValueError(f"no initial weights {kind!r}; choose from {', '.join(KINDS)}")


_PERIOD = 1009  # prime, so that no chunk or block size is a multiple of it


def _fill_pattern(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
    key = key_index(tensor)
    positions = (start + np.arange(_PERIOD)) % _PERIOD
    period = ((1 + key % (_PERIOD - 1)) * positions + key // (_PERIOD - 1)) % _PERIOD
    # 32 periods (126 KiB): long enough to copy at full speed, short enough to stay in the cache.
    tile = np.tile(period.astype(np.float32), min(32, 1 + out.size // _PERIOD))
    for at in range(0, out.size, tile.size):
        out[at : at + tile.size] = tile[: out.size - at]


PRIMES = (65521, 65519)
"""After so many elements each of the two tables of the random weights repeats."""


class _RandomWeights:
    """Sums of two tables of random numbers that repeat after different primes.

    Their sum repeats only after the product of the primes, and any range of it costs one addition
    for each element: much faster than drawing numbers.
    """

    STRIDES = (40503, 24697)  # how far apart in each table two neighbouring keys begin

    def __init__(self) -> None:
        self._first, self._second = (_random_table(prime) for prime in PRIMES)

    def fill(self, tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
        (p, q), (i, j) = PRIMES, self.STRIDES
        key, at = key_index(tensor), 0
        while at < out.size:
            a, b = (start + at + i * key) % p, (start + at + j * key) % q
            run = min(p - a, q - b, out.size - at)
            np.add(self._first[a : a + run], self._second[b : b + run], out=out[at : at + run])
            at += run


def _random_table(size: int) -> Floats:
    # Raw bits: NumPy promises that these stay the same, which it does not for integers().
    draws = (np.random.PCG64(size).random_raw(size) >> np.uint64(41)).astype(np.int64)
    return ((draws - 2**22) * UNIT).astype(np.float32)


# --- the training -----------------------------------------------------------


def train(values: Floats, delta: float) -> Floats:
    """Return what a client sends back for a range: each element with the client's delta added."""
    return values + np.float32(delta)


def weight(client: int) -> float:
    """Return how much client number ``client`` (from 0) counts in the mean."""
    return float(_weight(client))


def delta(client: int) -> float:
    """Return what client number ``client`` (from 0) adds to each element.

    Raises:
        ValueError: there are deltas for clients 0 to 63 only.
    """
    return _delta_units(client) * UNIT


def round_shift(contributors: Collection[int], *, weighted: bool = True) -> Fraction:
    """Return what a round of these clients adds to each element; ``weighted=False``: wrongly so.

    Raises:
        ValueError: there are no contributors, or one is named twice.
    """
    if not contributors or len(set(contributors)) < len(contributors):
        raise ValueError(f"a round needs contributors, each once, not {sorted(contributors)}")
    weights = {client: _weight(client) if weighted else 1 for client in contributors}
    units = sum(weights[client] * _delta_units(client) for client in contributors)
    return Fraction(units, sum(weights.values())) * Fraction(UNIT)


def expected_shift(rounds: Sequence[Collection[int]]) -> float:
    """Return what is added to each initial element by rounds of these contributors: exact.

    Raises:
        ValueError: the result could not be exact in float32: a mean is not a whole number of units,
            or the rounds lead too far from the initial weights.
    """
    shift = Fraction(0)
    for number, contributors in enumerate(rounds):
        step = round_shift(contributors)
        if (step / Fraction(UNIT)).denominator != 1:
            raise ValueError(
                f"round {number}: the mean over clients {sorted(contributors)} is not exact in "
                f"float32; their total weight must be at most 10, or they be the first clients"
            )
        trained = [shift + Fraction(delta(client)) for client in contributors]
        shift += step
        if max(map(abs, [shift, *trained])) > _ROOM * Fraction(UNIT):
            raise ValueError(f"after round {number} float32 has no exact room; run fewer rounds")
    return float(shift)


def _weight(client: int) -> int:
    return 1 + client % 2


def _delta_units(client: int) -> int:
    if not 0 <= client < CLIENTS:
        raise ValueError(f"no delta for client {client}; there are {CLIENTS}, counted from 0")
    moved = _first_sum(client + 1) - _first_sum(client)
    return moved // _weight(client)  # no remainder: a mean is twice a whole number of steps


def _first_sum(count: int) -> int:
    """Return the weighted sum of the first ``count`` deltas (units): weight times chosen mean.

    The mean jumps down for a client without a partner and up with the partner, so that deltas lie
    far outside the means; the last term was found by searching for one that leaves no coincidence.
    """
    total_weight = count + count // 2
    mean = 7 * (count // 2) - 9 * (count % 2) + (count - 1) ** 2 % 3
    return total_weight * 2 * _STEP * mean
