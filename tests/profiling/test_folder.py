"""Folders and files of results are never overwritten."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamlink.profiling.folder import new_run_folder, write_json, write_text

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_two_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    made = [new_run_folder(tmp_path / "results", NOW).name for _ in range(3)]
    assert made == ["run_20260102_030405", "run_20260102_030405_2", "run_20260102_030405_3"]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"is": "first"})
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "a.json", {"is": "second"})
    assert "first" in (tmp_path / "a.json").read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]  # nothing half-written


def test_a_report_may_be_replaced(tmp_path: Path) -> None:
    for text in ("first", "second"):
        write_text(tmp_path / "a.txt", text, overwrite=True)
    assert (tmp_path / "a.txt").read_text("utf-8") == "second"
