"""The results of NVIDIA FLARE's own benchmarks: where they are stored, and their table."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

from benchmarks.links.kept import RESULTS
from benchmarks.links.theirs import OUTPUT, main, read_theirs, their_rows


def test_each_of_their_times_is_beside_ours_of_as_many_bytes() -> None:
    seconds = {"streamlink, computed model": [1.0, 2.0, 9.0], "NVFlare's own": [5.0]}
    tensors = {"streamlink": [4.0], "NVFlare's own: tensors": [2.0]}
    benches = [
        {"ours": "streamlink, computed model", "nbytes": 4 * 10**9, "seconds": seconds},
        {"ours": "streamlink", "nbytes": 10**9, "seconds": tensors},
    ]
    ours, theirs, our_tensors, their_tensors = their_rows({"benches": benches})
    assert ours[1:] == ("4000000000", "3", "2.00", "2000", "1.00")
    assert theirs[1:] == ("4000000000", "1", "5.00", "800", "2.50")
    assert our_tensors[-1] == "1.00"
    assert their_tensors[-1] == "0.50"


def test_what_it_measures_goes_where_the_reports_of_the_record_look_for_it() -> None:
    assert signature(main).parameters["output"].default == RESULTS / OUTPUT


def test_where_it_was_never_run_there_is_nothing_of_it(tmp_path: Path) -> None:
    assert read_theirs(tmp_path) is None
    assert their_rows(None) == []
