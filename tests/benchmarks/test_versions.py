"""What may be said of two versions that ran in turn."""

from benchmarks.versions import compared, is_precise

GB = 1e9
STEADY = [1.0 * GB, 1.1 * GB, 0.9 * GB, 1.0 * GB, 1.05 * GB]


def test_a_version_whose_median_ratio_is_too_low_is_found_out() -> None:
    assert compared([0.96 * rate for rate in STEADY], STEADY, "abc").met is False


def test_the_median_decides_and_not_the_spread_of_single_pairs() -> None:
    there = [1.0 * GB] * 5
    here = [0.9 * GB, 1.1 * GB, 1.0 * GB, 0.95 * GB, 1.05 * GB]
    result = compared(here, there, "abc")
    assert result.met is True
    assert result.rows[0][2] == "1.00x (0.92..1.08)"


def test_a_faster_version_is_met() -> None:
    there = [1.0 * GB] * 5
    assert compared([2.0 * GB] * 5, there, "abc").met is True


def test_ratios_that_agree_are_precise_after_the_fewest_pairs() -> None:
    assert not is_precise(STEADY[:4], STEADY[:4])
    assert is_precise(STEADY, STEADY)


def test_ratios_that_scatter_ask_for_more_pairs() -> None:
    there = [1.0 * GB] * 5
    assert not is_precise([0.7 * GB, 1.3 * GB, 1.0 * GB, 0.8 * GB, 1.2 * GB], there)
