from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from weights import (
    CLIENTS,
    KINDS,
    PRIMES,
    UNIT,
    delta,
    expected_shift,
    fill,
    round_shift,
    spec,
    train,
    weight,
)

from streamlink.model.spec import TensorSpec
from streamlink.rounds.aggregate.mean import WeightedMean

SETS_OF_SIX = [s for size in range(1, 7) for s in combinations(range(6), size)]
FIRST_CLIENTS = [tuple(range(count)) for count in range(1, CLIENTS + 1)]


def elements(kind: str, key: int, start: int, count: int) -> npt.NDArray[Any]:
    out = np.empty(count, np.float32)
    fill(kind)(TensorSpec(f"key_{key:02d}", "F32", (10**9,)), start, out)
    return out


# --- the model --------------------------------------------------------------


def test_the_model_has_the_keys_and_bytes_asked_for() -> None:
    model = spec(64, 2_000_000_000)
    assert [t.name for t in model.tensors][:2] == ["key_00", "key_01"]
    assert {(t.dtype, t.nbytes) for t in model.tensors} == {("F32", 2_000_000_000)}
    assert len(model.tensors) == 64


@pytest.mark.parametrize(
    ("keys", "key_bytes", "words"), [(0, 4, "0 keys"), (1, 6, "multiple of 4"), (1, -4, "multiple")]
)
def test_an_impossible_model_is_refused_in_words(keys: int, key_bytes: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spec(keys, key_bytes)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="choose from pattern, random"):
        fill("zeros")


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 999), st.integers(0, 200_000), st.integers(1, 70_000), st.integers(0, 2000))
def test_a_range_is_the_same_wherever_it_is_cut(
    kind: str, key: int, start: int, count: int, skipped: int
) -> None:
    whole = elements(kind, key, start, count + skipped)
    assert elements(kind, key, start + skipped, count).tobytes() == whole[skipped:].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_initial_weights_are_whole_units_with_room_above(kind: str) -> None:
    units = elements(kind, 7, 400_000_000, 200_000).astype(np.float64) / UNIT
    assert np.array_equal(units, np.rint(units))
    assert np.abs(units).max() <= 2**23


@pytest.mark.parametrize("kind", KINDS)
def test_another_key_or_a_shifted_range_shows(kind: str) -> None:
    ours = elements(kind, 3, 5000, 4096)
    others = [elements(kind, key, 5000, 4096) for key in (*range(3), *range(4, 64), 1011)]
    shifted = [elements(kind, 3, 5000 + (1 << power), 4096) for power in range(27)]
    assert all(np.mean(ours == other) < 0.01 for other in others + shifted)


def test_pattern_compresses_to_nearly_nothing_and_random_hardly() -> None:
    def ratio(kind: str) -> float:
        raw = elements(kind, 5, 1_000_000, 1 << 18).tobytes()
        return len(raw) / len(zstandard.ZstdCompressor(level=1).compress(raw))

    assert ratio("pattern") > 300
    assert 1 <= ratio("random") < 1.3


def test_random_weights_are_the_ones_of_every_other_machine() -> None:
    assert (elements("random", 0, 0, 3) / UNIT).tolist() == [-69418, -1592937, 2511989]


def test_random_weights_do_not_repeat_with_either_table() -> None:
    assert all(all(prime % d for d in range(2, 257)) for prime in PRIMES)
    assert len(set(PRIMES)) == 2


# --- the training -----------------------------------------------------------


def test_training_adds_the_delta_in_float32() -> None:
    result = train(np.array([1.0, 2.0], np.float32), delta(1))
    assert result.dtype == np.float32
    assert result.tolist() == [1 + delta(1), 2 + delta(1)]


def units_of(contributors: tuple[int, ...]) -> Fraction:
    return round_shift(contributors) / Fraction(UNIT)


@pytest.mark.product
@pytest.mark.parametrize("contributors", [*SETS_OF_SIX, *FIRST_CLIENTS])
def test_the_mean_is_whole_and_as_computed_by_hand(contributors: tuple[int, ...]) -> None:
    weighed = sum(Fraction(weight(c)) * Fraction(delta(c)) for c in contributors)
    mean = weighed / sum(Fraction(weight(c)) for c in contributors)
    assert Fraction(expected_shift([contributors])) == mean != 0
    assert units_of(contributors).denominator == 1


@given(st.sets(st.integers(0, CLIENTS - 1), min_size=1, max_size=5))
def test_the_mean_over_any_five_clients_is_whole(contributors: set[int]) -> None:
    assert units_of(tuple(contributors)).denominator == 1


def test_no_two_sets_of_the_first_six_clients_have_the_same_mean() -> None:
    assert len({round_shift(contributors) for contributors in SETS_OF_SIX}) == 63


def test_no_two_counts_of_first_clients_have_the_same_mean() -> None:
    assert len({round_shift(contributors) for contributors in FIRST_CLIENTS}) == CLIENTS


@pytest.mark.product
@pytest.mark.parametrize("contributors", FIRST_CLIENTS[1:])
def test_dropping_any_one_contributor_shows(contributors: tuple[int, ...]) -> None:
    left = [tuple(c for c in contributors if c != dropped) for dropped in contributors]
    assert round_shift(contributors) not in {round_shift(those) for those in left}


@pytest.mark.product
@pytest.mark.parametrize("contributors", [*SETS_OF_SIX, *FIRST_CLIENTS])
def test_ignoring_unequal_weights_shows(contributors: tuple[int, ...]) -> None:
    unequal = len({weight(c) for c in contributors}) > 1
    wrong = round_shift(contributors, weighted=False)
    assert (wrong != round_shift(contributors)) == unequal


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 16, 64])
def test_three_rounds_of_real_arithmetic_give_the_expected_shift(kind: str, count: int) -> None:
    initial = elements(kind, 1, 77, 5000)
    model, reducer = initial, WeightedMean([weight(c) for c in range(count)])
    for _ in range(3):
        updates = [train(model, delta(c)) for c in range(count)]
        model = np.empty_like(initial)
        reducer.combine("F32", updates, model)
    exact = initial.astype(np.float64) + expected_shift([range(count)] * 3)
    assert np.array_equal(model.astype(np.float64), exact)


def test_rounds_of_different_contributors_add_up() -> None:
    rounds = [(0, 1), (1,), (0, 1, 2)]
    assert expected_shift(rounds) == float(sum(map(round_shift, rounds)))
    assert expected_shift([]) == 0.0


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ([()], "each once"),
        ([(0, 1), (1, 1)], "each once"),
        ([(64,)], "no delta for client 64"),
        ([(1, 3, 5, 7, 9, 0)], r"round 0: the mean over clients \[0, 1, 3, 5, 7, 9\] is not exact"),
        ([(0, 1)] * 1000, "run fewer rounds"),
    ],
)
def test_rounds_without_an_exact_result_are_refused(
    rounds: list[tuple[int, ...]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        expected_shift(rounds)


def test_two_clients_have_exact_room_for_two_hundred_rounds() -> None:
    assert expected_shift([(0, 1)] * 200) == 200 * expected_shift([(0, 1)])
