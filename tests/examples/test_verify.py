from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from verify import VerifyReport, verify
from weights import KINDS, expected_shift, fill, round_shift, spec

from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import Payload
from streamlink.model.spec import ModelSpec, TensorSpec

ROUNDS = [(0, 1), (0, 1, 2), (0, 1, 2)]
COUNT = 150_000  # more than two blocks
Edit = Callable[[str, npt.NDArray[Any]], None]


def final_model(
    kind: str, shift: float, edit: Edit = lambda name, values: None, count: int = COUNT
) -> GeneratedModel:
    """The model after a job; ``edit`` may spoil a whole tensor before it is read."""
    initial = fill(kind)

    def trained(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
        values = np.empty(tensor.count, np.float32)
        initial(tensor, 0, values)
        values += np.float32(shift)
        edit(tensor.name, values)
        out[:] = values[start : start + out.size]

    return GeneratedModel(spec(3, 4 * count), trained)


def report_of(kind: str, edit: Edit) -> VerifyReport:
    return verify(final_model(kind, expected_shift(ROUNDS), edit), kind, ROUNDS)


def wrong_sum(replacement: float, number: int) -> float:
    """The shift when round ``number`` of ROUNDS added ``replacement`` instead."""
    return expected_shift(ROUNDS) - float(round_shift(ROUNDS[number])) + replacement


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_model_is_exact_in_every_element(kind: str) -> None:
    seen: list[int] = []
    report = verify(final_model(kind, expected_shift(ROUNDS)), kind, ROUNDS, seen.append)
    assert (report.is_exact, report.elements) == (True, 3 * COUNT)
    assert str(report) == "all 450000 elements are exactly right"
    assert seen == [4 * COUNT, 8 * COUNT, 12 * COUNT]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", [0, 65_535, 65_536, COUNT - 1])
def test_one_wrong_element_is_found_wherever_it_is(kind: str, index: int) -> None:
    def plant(name: str, values: npt.NDArray[Any]) -> None:
        if name == "key_01":
            values[index] = np.nextafter(values[index], np.float32(np.inf))

    report = report_of(kind, plant)
    assert report.first is not None
    assert (report.wrong, report.first.key, report.first.index) == (1, "key_01", index)
    assert report.first.found == np.nextafter(np.float32(report.first.expected), np.float32(np.inf))
    assert "which nothing known explains" in str(report)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_is_wrong(kind: str) -> None:
    def plant(name: str, values: npt.NDArray[Any]) -> None:
        values[5] = np.nan

    assert report_of(kind, plant).wrong == 3


def test_a_zero_of_the_other_sign_is_wrong() -> None:
    def plant(name: str, values: npt.NDArray[Any]) -> None:
        values[:1009][values[:1009] == 0] = -0.0

    assert verify(final_model("pattern", 0.0, plant), "pattern", []).wrong == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("number", "dropped"), [(0, 0), (0, 1), (1, 2), (2, 0)])
def test_a_dropped_contributor_is_named(kind: str, number: int, dropped: int) -> None:
    left = [client for client in ROUNDS[number] if client != dropped]
    model = final_model(kind, wrong_sum(float(round_shift(left)), number))
    report = verify(model, kind, ROUNDS)
    assert report.wrong == report.elements
    assert f"client {dropped} had been dropped from round {number}" in str(report)


@pytest.mark.parametrize("kind", KINDS)
def test_ignored_weights_are_named(kind: str) -> None:
    once = wrong_sum(float(round_shift(ROUNDS[1], weighted=False)), 1)
    always = float(sum(round_shift(those, weighted=False) for those in ROUNDS))
    first, second = (verify(final_model(kind, s), kind, ROUNDS) for s in (once, always))
    assert "the weights had been ignored in round 1" in str(first)
    assert "the weights had been ignored in every round" in str(second)


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ([], "no round had been applied"),
        (ROUNDS[1:], "round 0 had been lost"),
        ([*ROUNDS, ROUNDS[0]], "round 0 had been applied twice"),
        ([(0,), (0, 2), (0, 2)], "client 1 had been dropped from every round"),
        ([(0, 1), (2,), (0, 1, 2)], "client 2's update alone had become round 1"),
    ],
)
def test_other_sums_of_rounds_are_named(rounds: Sequence[Collection[int]], words: str) -> None:
    model = final_model("random", expected_shift(rounds))
    assert words in str(verify(model, "random", ROUNDS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_misplaced_range_is_found_with_its_origin(kind: str) -> None:
    def misplace(name: str, values: npt.NDArray[Any]) -> None:
        if name == "key_02":
            values[70_000:71_000] = values[70_300:71_300].copy()

    report = report_of(kind, misplace)
    assert report.first is not None
    assert (report.first.key, report.first.index) == ("key_02", 70_000)
    assert "belongs +300 elements away, at key_02[70300]" in str(report)


@pytest.mark.parametrize("kind", KINDS)
def test_swapped_keys_are_found_and_named(kind: str) -> None:
    shift = expected_shift(ROUNDS)

    def swap(name: str, values: npt.NDArray[Any]) -> None:
        other = {"key_00": "key_01", "key_01": "key_00"}.get(name, name)
        fill(kind)(TensorSpec(other, "F32", values.shape), 0, values)
        values += np.float32(shift)

    report = report_of(kind, swap)
    assert report.wrong > 1.9 * COUNT
    assert "it belongs to the same place of key_01" in str(report)


def test_the_last_elements_are_explained_without_reading_beyond_the_end() -> None:
    def plant(name: str, values: npt.NDArray[Any]) -> None:
        values[-1] = 12345.0

    assert "nothing known" in str(report_of("pattern", plant))


def test_payloads_in_odd_pieces_are_put_together() -> None:
    class Torn(GeneratedModel):
        def read(self, offset: int, length: int) -> Payload:
            (whole,) = super().read(offset, length)
            return whole[:3], whole[3:]

    assert verify(Torn(spec(2, 4000), fill("random")), "random", []).is_exact


def test_a_model_of_another_dtype_is_refused() -> None:
    model = GeneratedModel(ModelSpec((TensorSpec("key_00", "F64", (2,)),)), fill("pattern"))
    with pytest.raises(ValueError, match="key_00 is F64"):
        verify(model, "pattern", [])
