"""Peaks as the kernel counts them."""

import numpy as np

from streamlink.profiling.memory import available_bytes, peak_bytes, reset_peak, resident_bytes

MIB = 1 << 20


def test_a_peak_begins_anew_after_a_reset() -> None:
    before = resident_bytes()
    large = np.ones(64 * MIB, np.uint8)
    assert peak_bytes() >= before + 60 * MIB
    del large
    reset_peak()
    assert peak_bytes() < before + 60 * MIB


def test_what_is_available_is_a_number_of_bytes() -> None:
    assert available_bytes() > MIB
