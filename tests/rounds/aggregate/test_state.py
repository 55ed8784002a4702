"""The state of an aggregator: read and written range by range, and one step counts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlink as sl
from streamlink.errors import RoundError, StoreError
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.state import StateKeeper
from tests.support.peers import ODD
from tests.support.states import advanced, change, passed

SLOTS = {"momentum": 0.0, "second_moment": 0.25}
PART = ModelSpec((TensorSpec("a", "BF16", (300,)), TensorSpec("n", "I64", (7,))))


def present(keeper: StateKeeper, spec: ModelSpec = PART) -> list[str]:
    with closing(keeper.begin()) as step:
        return passed(step, spec)


def test_a_slot_begins_with_its_first_value_and_goes_on_with_what_was_put(tmp_path: Path) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, PART)
    first = [("float32", [0.0] * 300), ("float32", [0.25] * 300)]
    second = [("float32", [0.5] * 300), ("float32", [0.75] * 300)]
    assert present(keeper) == [str(first), "[]"]
    advanced(keeper, PART, 0.5)
    assert present(keeper) == [str(second), "[]"]


@settings(max_examples=10)
@given(longest=st.integers(1, 4000))
def test_any_cut_into_ranges_stores_the_same(
    longest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keepers = [StateKeeper(tmp_path_factory.mktemp("state"), SLOTS, ODD) for _ in range(2)]
    for keeper, each in zip(keepers, (1 << 30, longest), strict=True):
        advanced(keeper, ODD, 1.0, each)
        advanced(keeper, ODD, 2.0, each)
    assert present(keepers[0], ODD) == present(keepers[1], ODD)


def test_a_slot_is_a_model_with_the_elements_that_have_a_state(tmp_path: Path) -> None:
    advanced(StateKeeper(tmp_path, SLOTS, ODD, run="ab"), ODD, 0.0)
    with closing(sl.open_model(tmp_path / "step-1-ab" / "momentum")) as slot:
        found = {tensor.name: tensor.dtype for tensor in slot.spec.tensors}
    expected = dict.fromkeys(("f16", "scalar", "bf16", "f32"), "F32")
    assert found == expected | {"f64": "F64", "c64": "C64"}


def test_a_step_counts_only_once_the_round_is_committed(tmp_path: Path) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, PART, run="ab")
    advanced(keeper, PART, 1.0)
    before = present(keeper)
    with closing(keeper.begin()) as step:  # the server is killed after the state's commit
        change(step, PART, 1.0)
        step.commit()
    assert present(StateKeeper(tmp_path, SLOTS, PART, run="ab", steps=1)) == before


def test_a_later_process_goes_on_with_the_step_that_counts(tmp_path: Path) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, PART, run="ab")
    advanced(keeper, PART, 1.0)
    later = StateKeeper(tmp_path, SLOTS, PART, run="ab", steps=1)
    assert present(later) == present(keeper)


def test_at_most_two_steps_are_kept_and_nothing_else_is_removed(tmp_path: Path) -> None:
    (tmp_path / "step-9-cd").mkdir()  # of another run
    (tmp_path / "notes").mkdir()
    keeper = StateKeeper(tmp_path, SLOTS, PART, run="ab")
    for _ in range(4):
        advanced(keeper, PART, 1.0)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["notes", "step-3-ab", "step-4-ab"]


def test_what_is_not_committed_is_discarded(tmp_path: Path) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, PART)
    with closing(keeper.begin()) as step:
        change(step, PART, 1.0)
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_a_missing_step_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RoundError, match="the state after round 3 of this run is missing; give"):
        StateKeeper(tmp_path, SLOTS, PART, run="ab", steps=3)


def test_the_state_of_another_model_is_refused(tmp_path: Path) -> None:
    advanced(StateKeeper(tmp_path, SLOTS, ODD, run="ab"), ODD, 0.0)
    with pytest.raises(RoundError, match="does not fit the model"):
        StateKeeper(tmp_path, SLOTS, PART, run="ab", steps=1)


def test_a_damaged_state_is_detected_when_it_is_read(tmp_path: Path) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, PART, run="ab")
    advanced(keeper, PART, 1.0)
    (shard,) = (tmp_path / "step-1-ab" / "momentum").glob("*.safetensors")
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with closing(keeper.begin()) as step, pytest.raises(StoreError, match="momentum"):
        step.take(PART.tensors[0].numpy_dtype, 300)


def test_a_model_without_such_elements_needs_no_files(tmp_path: Path) -> None:
    whole = ModelSpec((TensorSpec("n", "I64", (7,)),))
    keeper = StateKeeper(tmp_path / "state", SLOTS, whole)
    advanced(keeper, whole, 1.0)
    assert present(keeper, whole) == ["[]"]
    assert not (tmp_path / "state").exists()
