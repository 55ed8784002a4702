"""What is read of NVIDIA FLARE's own benchmark, which is not here."""

from __future__ import annotations

import subprocess
from inspect import signature
from pathlib import Path

import pytest

from benchmarks.links.kept import RESULTS
from benchmarks.links.theirs import (
    BENCH,
    OUTPUT,
    main,
    read_theirs,
    script_of,
    seconds_of,
    their_rows,
)

LINE = "[recv] stream 7 DONE: 1,000,000 bytes in 1,002.50 seconds (0.0 MB/s) OK"


def test_the_time_is_the_receivers() -> None:
    assert seconds_of(LINE, 10**6) == 1002.5


@pytest.mark.parametrize("line", [LINE.replace(" OK", " SIZE MISMATCH"), "[recv] nothing"])
def test_a_receiver_without_all_bytes_is_a_failure(line: str) -> None:
    with pytest.raises(OSError, match="something else than 1000000 bytes"):
        seconds_of(line, 10**6)


@pytest.mark.processes
def test_the_script_is_that_of_the_tag(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init")
    (tmp_path / BENCH).parent.mkdir(parents=True)
    (tmp_path / BENCH).write_text("first\n", "utf-8")
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-m", "first")
    git("tag", "1.0")
    (tmp_path / BENCH).write_text("second\n", "utf-8")
    assert script_of(tmp_path, "1.0") == "first\n"
    with pytest.raises(OSError, match=r"no dev_tools/f3/cellnet_bench.py at 2.0"):
        script_of(tmp_path, "2.0")


def test_each_of_their_times_is_beside_ours_of_as_many_bytes() -> None:
    seconds = {"streamlink, computed model": [1.0, 2.0, 9.0], "NVFlare's own": [5.0]}
    ours, theirs = their_rows({"nbytes": 4 * 10**9, "seconds": seconds})
    assert ours[1:] == ("3", "2.00", "2000", "1.00")
    assert theirs[1:] == ("1", "5.00", "800", "2.50")


def test_what_it_measures_goes_where_the_reports_of_the_record_look_for_it() -> None:
    assert signature(main).parameters["output"].default == RESULTS / OUTPUT


def test_where_it_was_never_run_there_is_nothing_of_it(tmp_path: Path) -> None:
    assert read_theirs(tmp_path) is None
    assert their_rows(None) == []
