"""What rounding changes is measured once for each element, whatever is read again."""

from __future__ import annotations

import numpy as np
import pytest

from streamlink.model.rounding import RoundingError, RoundingMeter, meter_of

VALUES = np.array([3.0, -4.0, 0.5, 2.0], np.float32)
ROUNDED = np.array([3.5, -4.0, 0.25, 2.0], np.float32)


def test_it_finds_the_largest_difference_and_the_share_of_the_norm() -> None:
    meter = RoundingMeter(["int8"])
    meter.add(0, VALUES, ROUNDED)
    share = float(np.linalg.norm(ROUNDED - VALUES) / np.linalg.norm(VALUES))
    found = meter.measured
    assert found == RoundingError(("int8",), 4, 0.5, found.relative_rms)
    assert found.relative_rms == pytest.approx(share)
    assert str(meter.measured).startswith("int8 max_abs=0.5 relative_rms=")


def test_ranges_that_overlap_count_once_and_gaps_are_no_fault() -> None:
    whole, pieces = RoundingMeter(["fp16"]), RoundingMeter(["fp16"])
    whole.add(0, VALUES, ROUNDED)
    for start, stop in ((0, 2), (0, 1), (1, 3), (0, 4), (2, 4)):
        pieces.add(4 * start, VALUES[start:stop], ROUNDED[start:stop])
    assert pieces.measured == whole.measured
    pieces.add(4000, VALUES, ROUNDED)
    assert pieces.measured.elements == 8


def test_nan_and_infinity_have_no_difference() -> None:
    meter = RoundingMeter(["bf16"])
    values = np.array([np.nan, np.inf, 1.0], np.float32)
    meter.add(0, values, values + np.array([0, 0, 0.125], np.float32))
    assert meter.measured == RoundingError(("bf16",), 1, 0.125, 0.125)


def test_of_nothing_there_is_no_share() -> None:
    meter = RoundingMeter([])
    meter.add(0, np.zeros(3), np.zeros(3))
    assert meter.measured == RoundingError((), 3, 0.0, 0.0)


def test_of_numbers_whose_squares_are_infinite_there_is_no_share() -> None:
    meter = RoundingMeter(["int8"])
    meter.add(0, np.array([1e300, -1e300]), np.array([1.5e300, -1e300]))
    assert meter.measured == RoundingError(("int8",), 2, 1.5e300 - 1e300, 0.0)


def test_what_rounds_nothing_has_nothing_to_report() -> None:
    assert meter_of(object()) is None

    class Electricity:
        meter = "1234 kWh"

    assert meter_of(Electricity()) is None
