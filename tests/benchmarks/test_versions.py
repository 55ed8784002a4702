"""What may be said of two versions that ran in turn."""

from benchmarks.versions import compared

GB = 1e9


def test_a_version_slower_by_more_than_the_spread_is_found_out() -> None:
    there = [1.0 * GB, 1.1 * GB, 0.9 * GB, 1.0 * GB, 1.05 * GB]
    assert compared([0.7 * rate for rate in there], there, "abc").met is False


def test_a_difference_smaller_than_the_spread_is_none() -> None:
    there = [1.0 * GB] * 5
    here = [0.9 * GB, 1.1 * GB, 1.0 * GB, 0.95 * GB, 1.05 * GB]
    result = compared(here, there, "abc")
    assert result.met is True
    assert result.rows[0][2] == "1.00x (0.92..1.08)"


def test_a_faster_version_is_met() -> None:
    there = [1.0 * GB] * 5
    assert compared([2.0 * GB] * 5, there, "abc").met is True
