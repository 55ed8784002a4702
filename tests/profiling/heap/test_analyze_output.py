"""Where an analysis is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.profiling.heap.analyze import analyze
from streamlink.profiling.heap.observation import RunError
from tests.support.profiles import a_record


def test_a_folder_with_the_analysis_of_another_run_is_left_alone(tmp_path: Path) -> None:
    for name in ("run_1", "run_2"):
        a_record().write(tmp_path / name)
    analyze(tmp_path / "run_1", tmp_path / "out", plots=False)
    before = (tmp_path / "out" / "report.txt").read_text("utf-8")
    with pytest.raises(RunError, match=r"has the analysis of run_1; name another --output-dir"):
        analyze(tmp_path / "run_2", tmp_path / "out", plots=False)
    assert (tmp_path / "out" / "report.txt").read_text("utf-8") == before


def test_an_analysis_of_the_same_run_is_written_anew(tmp_path: Path) -> None:
    a_record().write(tmp_path / "run_1")
    analyze(tmp_path / "run_1", tmp_path / "out", plots=False)
    a_record("optimized", over=1).write(tmp_path / "run_1")
    text = analyze(tmp_path / "run_1", tmp_path / "out", plots=False).text
    assert "% lower than original" in text
