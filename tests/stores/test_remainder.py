"""What rounding leaves of an update is kept until the next one, and never mixed up."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from streamlink.errors import StoreError
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.remainder import Remainder

SPEC = ModelSpec((TensorSpec("a", "F32", (3, 2)), TensorSpec("b", "F64", (5,))))
A, B = SPEC.tensors
LEFT = np.arange(6, dtype=np.float32) / 8


def opened(
    path: Path,
    update: str = "round 1",
    *,
    owner: str = "job",
    spec: ModelSpec = SPEC,
    is_resumed: bool = False,
) -> Remainder:
    return Remainder(path, spec, owner=owner, update=update, is_resumed=is_resumed)


def kept(path: Path) -> None:
    """Keep ``LEFT`` of the first tensor, as one process does."""
    with opened(path) as remainder:
        remainder.put(A, 0, LEFT)
        remainder.commit()


def of_a(path: Path, owner: str = "job") -> list[float]:
    with opened(path, "round 2", owner=owner) as remainder:
        return list(remainder.take(A, 0, 6))


def test_before_the_first_update_nothing_is_left(tmp_path: Path) -> None:
    with opened(tmp_path / "new" / "folder") as remainder:
        assert list(remainder.take(B, 1, 3)) == [0, 0, 0]


def test_what_is_committed_is_there_for_the_next_update_in_another_process(tmp_path: Path) -> None:
    kept(tmp_path)
    with opened(tmp_path, "round 2") as remainder:
        assert list(remainder.take(A, 2, 3)) == list(LEFT[2:5])
        assert not remainder.take(B, 0, 5).any()  # nothing was left of it
        assert remainder.take(A, 0, 6).dtype == np.float32


def test_an_update_that_fails_changes_nothing(tmp_path: Path) -> None:
    kept(tmp_path)
    with opened(tmp_path, "round 2") as remainder:
        remainder.put(A, 0, 2 * LEFT)
        assert list(remainder.take(A, 0, 6)) == list(LEFT)
    assert of_a(tmp_path) == list(LEFT)


def test_an_update_that_is_resumed_goes_on_with_what_was_left_of_its_beginning(
    tmp_path: Path,
) -> None:
    kept(tmp_path)
    with opened(tmp_path, "round 2") as remainder:
        remainder.put(A, 0, 3 * LEFT[:4])
    with opened(tmp_path, "round 2", is_resumed=True) as remainder:
        assert list(remainder.take(A, 0, 6)) == list(LEFT)
        remainder.put(A, 4, 4 * LEFT[4:])
        remainder.commit()
    with opened(tmp_path, "round 3") as remainder:
        assert list(remainder.take(A, 0, 6)) == [*(3 * LEFT[:4]), *(4 * LEFT[4:])]


@pytest.mark.parametrize("begun", ["", "round 1"])
def test_without_the_beginning_nothing_is_left_of_that(
    tmp_path: Path, begun: str, caplog: pytest.LogCaptureFixture
) -> None:
    if begun:
        with opened(tmp_path, begun) as remainder:
            remainder.put(A, 0, LEFT)
    with opened(tmp_path, "round 2", is_resumed=True) as remainder:
        remainder.put(A, 4, LEFT[4:])
        remainder.commit()
    assert "no remainder of the first part of round 2" in caplog.text
    assert of_a(tmp_path) == [0, 0, 0, 0, *LEFT[4:]]


def test_that_of_another_model_or_job_is_dropped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path)
    assert of_a(tmp_path, owner="another job") == [0] * 6
    assert "is dropped: it belongs to another job, another model" in caplog.text
    assert of_a(tmp_path) == [0] * 6  # for good

    kept(tmp_path)
    longer = ModelSpec((A, TensorSpec("b", "F64", (6,))))
    with opened(tmp_path, spec=longer) as remainder:
        assert not remainder.take(A, 0, 6).any()


@pytest.mark.parametrize("where", [10, 4096 + 7, -1])
def test_a_damaged_one_is_dropped_and_logged(
    tmp_path: Path, where: int, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path)
    path = tmp_path / "remainder"
    data = bytearray(path.read_bytes())
    data[where] ^= 4
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert of_a(tmp_path) == [0] * 6
    assert "damaged" in caplog.text


def test_a_file_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    kept(tmp_path)
    path = tmp_path / "remainder"
    path.write_bytes(path.read_bytes()[:-1])
    assert of_a(tmp_path) == [0] * 6


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreError, match="another writer"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file.*keeping the remainder of an update failed"):
        opened(tmp_path / "file")


def test_it_never_has_more_than_two_files(tmp_path: Path) -> None:
    for number in range(4):
        with opened(tmp_path, f"round {number}") as remainder:
            remainder.put(A, 0, LEFT)
            if number % 2:
                remainder.commit()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert sizes == [4096 + SPEC.nbytes]
