"""Which ranges are encoded: those that arrive sooner encoded than plain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.encodings.worth import (
    FIRST_TRIES,
    LIMITED_RANGES,
    SAMPLE_BYTES,
    STEADY_RANGES,
    TRY_EVERY,
    Worth,
)

MB = 10**6


@dataclass
class Bench:
    """A line, a clock and an encoder, as a test wants them."""

    rate: float
    speed: float = 200.0 * MB
    share: float = 0.7
    is_in_flight: bool = True
    is_limited: bool = False
    now: float = 0.0
    has_base: bool = True
    encoded_bytes: int = 0

    def __post_init__(self) -> None:
        self.worth = Worth(self, lambda: self.now)

    def offer(self, nbytes: int = MB) -> bool:
        """Let the next range be encoded if that is worth it; returns whether it was."""
        part = self.worth.bytes_to_encode(nbytes, has_base=self.has_base)
        if part:
            self.encoded_bytes += part
            self.now += part / self.speed
            self.worth.note(nbytes=part, encoded_bytes=int(part * self.share))
        return part == nbytes


def steady(rate: float, **more: Any) -> Bench:
    """Return a bench of a line that is faster than codecs, and has carried some ranges."""
    bench = Bench(rate, **more)
    assert not any(bench.offer() for _ in range(STEADY_RANGES))
    assert bench.encoded_bytes == 0
    return bench


def test_nothing_is_encoded_before_the_line_is_known() -> None:
    assert not Bench(0.0).offer()


def test_all_is_encoded_for_a_slow_line() -> None:
    bench = Bench(12.5 * MB)
    assert all(bench.offer() for _ in range(100))


def test_where_no_codec_is_fast_enough_without_a_base_nothing_is_tried() -> None:
    bench = steady(3000.0 * MB, has_base=False)
    assert not any(bench.offer() for _ in range(10 * TRY_EVERY))
    assert bench.encoded_bytes == 0
    bench.rate = 12.5 * MB
    assert all(bench.offer() for _ in range(10))


def test_what_a_fast_line_carries_is_sampled_and_nothing_of_it_is_encoded() -> None:
    bench = steady(3000.0 * MB)
    assert not any(bench.offer() for _ in range(100 * TRY_EVERY))
    assert bench.encoded_bytes == FIRST_TRIES * SAMPLE_BYTES


def test_where_encoding_pays_on_a_fast_line_all_is_encoded_after_the_samples() -> None:
    bench = steady(1200.0 * MB, speed=3500.0 * MB, share=0.0)
    encoded = [bench.offer() for _ in range(10 * TRY_EVERY)]
    assert encoded == [at >= FIRST_TRIES for at in range(10 * TRY_EVERY)]


def test_where_a_range_of_a_fast_line_might_pay_it_is_sampled_now_and_then() -> None:
    bench = steady(1200.0 * MB, speed=3500.0 * MB, share=1.0)
    assert not any(bench.offer() for _ in range(FIRST_TRIES + 10 * TRY_EVERY))
    assert bench.encoded_bytes == (FIRST_TRIES + 10) * SAMPLE_BYTES
    bench.share = 0.0  # the next tensor has not changed
    assert sum(bench.offer() for _ in range(40 * TRY_EVERY)) > 10 * TRY_EVERY


def test_a_range_of_a_fast_line_that_is_no_longer_than_a_sample_is_encoded_whole() -> None:
    assert steady(3000.0 * MB).offer(SAMPLE_BYTES)


@pytest.mark.parametrize(("rate", "speed"), [(125.0 * MB, 200.0 * MB), (1200.0 * MB, 3500.0 * MB)])
def test_of_the_first_tries_the_fastest_counts(rate: float, speed: float) -> None:
    for fast in range(FIRST_TRIES):
        bench = steady(rate, share=0.0)
        for number in range(FIRST_TRIES):
            bench.speed = speed if number == fast else 0.1 * MB  # its thread did not run
            bench.offer()
        bench.speed = speed
        assert all(bench.offer() for _ in range(10))


def test_tries_that_were_all_interrupted_do_not_end_encoding_on_a_slow_line() -> None:
    bench = Bench(12.5 * MB, speed=0.1 * MB)
    assert all(bench.offer() for _ in range(FIRST_TRIES))
    bench.speed = 200.0 * MB
    assert all(bench.offer() for _ in range(10))


def test_a_rate_that_wavers_is_known_all_the_same() -> None:
    bench = Bench(100.0 * MB)
    for number in range(STEADY_RANGES):
        assert not bench.offer()
        bench.rate = (110.0 if number % 2 else 100.0) * MB
    assert bench.offer()


def test_a_line_whose_rate_still_grows_is_not_tried() -> None:
    bench = Bench(60.0 * MB)
    while bench.rate < 3000.0 * MB:
        assert not any(bench.offer() for _ in range(STEADY_RANGES))
        bench.rate *= 1.5
    assert bench.encoded_bytes == 0


def test_a_line_that_becomes_too_fast_is_no_longer_encoded() -> None:
    bench = steady(100.0 * MB, speed=500.0 * MB)
    assert all(bench.offer() for _ in range(10))
    bench.rate, before = 3000.0 * MB, bench.encoded_bytes
    assert not any(bench.offer() for _ in range(10 * TRY_EVERY))
    assert bench.encoded_bytes == before


def test_a_line_that_gets_slow_has_its_ranges_encoded() -> None:
    bench = steady(3000.0 * MB)
    assert not any(bench.offer() for _ in range(10))
    bench.rate = 12.5 * MB
    assert all(bench.offer() for _ in range(10))


def test_where_a_range_might_pay_it_is_tried_now_and_then() -> None:
    bench = steady(100.0 * MB, share=1.0)
    assert sum(bench.offer() for _ in range(FIRST_TRIES + 10 * TRY_EVERY)) == FIRST_TRIES + 10
    bench.share = 0.1  # the next tensor shrinks by more
    assert sum(bench.offer() for _ in range(20 * TRY_EVERY)) > 10 * TRY_EVERY


def test_a_line_that_waits_for_its_encoder_gets_plain_bytes() -> None:
    bench = Bench(12.5 * MB)
    assert bench.offer()
    bench.is_in_flight = False
    assert not bench.offer()


@pytest.mark.parametrize(("share", "between"), [(0.7, 0), (0.25, 4), (0.05, 20)])
def test_a_plain_range_that_shows_the_line_at_most_doubles_the_bytes(
    share: float, between: int
) -> None:
    bench = Bench(12.5 * MB, share=share)
    assert bench.offer()
    bench.is_in_flight = False
    bench.offer()
    offered = [bench.offer() for _ in range(3 * (between + 1))]
    plain = [at for at, is_encoded in enumerate(offered) if not is_encoded]
    assert len(plain) == (3 if between else len(offered))
    assert {later - sooner for sooner, later in pairwise(plain)} <= {between + 1}


def test_a_model_that_has_not_changed_needs_no_plain_range_to_show_the_line() -> None:
    bench = Bench(12.5 * MB, speed=2000.0 * MB, share=0.0)
    assert bench.offer()
    bench.is_in_flight = False
    assert all(bench.offer() for _ in range(1000))


def test_under_a_bandwidth_limit_the_pace_of_the_ranges_is_the_rate() -> None:
    bench = Bench(900.0 * MB, is_in_flight=False, is_limited=True)
    encoded = []
    for _ in range(100):
        encoded.append(bench.offer(128 * 1024))
        bench.now += 0.05
    assert encoded == [at > 0 for at in range(100)], "the first one shows no pace yet"


def test_ranges_that_a_limit_permits_in_a_burst_go_by_the_pace_of_the_last_ones() -> None:
    bench = Bench(900.0 * MB, is_limited=True)
    bench.offer(128 * 1024)
    for _ in range(20):
        bench.now += 0.1
        bench.is_in_flight, bench.is_limited = False, True
        assert bench.offer(128 * 1024)
        bench.is_in_flight, bench.is_limited = True, False
        assert bench.offer(128 * 1024)


def test_a_limit_that_codecs_cannot_keep_up_with_changes_nothing() -> None:
    bench = steady(3000.0 * MB)
    bench.is_in_flight, bench.is_limited = False, True
    for _ in range(10 * TRY_EVERY):
        assert not bench.offer()
        bench.now += 1 / 1000


def test_once_a_limit_is_lifted_the_line_is_the_rate_again() -> None:
    bench = Bench(900.0 * MB, is_in_flight=False, is_limited=True)
    for _ in range(10):
        bench.offer(128 * 1024)
        bench.now += 0.05
    bench.is_in_flight, bench.is_limited = True, False
    assert not all(bench.offer(MB) for _ in range(LIMITED_RANGES))
    assert not any(bench.offer(MB) for _ in range(TRY_EVERY - 2))


def test_one_range_that_took_long_does_not_end_encoding() -> None:
    bench = Bench(12.5 * MB)
    bench.speed = 0.1 * MB  # its thread did not run
    assert bench.offer()
    bench.speed = 200.0 * MB
    assert all(bench.offer() for _ in range(10))
    bench.speed = 0.1 * MB
    assert bench.offer()
    bench.speed = 200.0 * MB
    assert all(bench.offer() for _ in range(10))


def test_a_processor_that_is_too_slow_for_the_line_is_found_out() -> None:
    bench = Bench(12.5 * MB, speed=5.0 * MB)
    assert sum(bench.offer() for _ in range(1000)) < 100


@given(rate=st.floats(1e3, 1e10), speed=st.floats(50e6, 1e10), share=st.floats(0.01, 1.0))
def test_a_range_is_encoded_where_that_is_sooner_even_if_nothing_overlaps(
    rate: float, speed: float, share: float
) -> None:
    bench = Bench(rate, speed, share)
    for _ in range(STEADY_RANGES + FIRST_TRIES):
        bench.offer()
    plain, encoded = 1 / rate, 1 / speed + share / rate
    if encoded != pytest.approx(plain, rel=1e-3):  # a sample's length is a whole number of bytes
        assert (bench.worth.bytes_to_encode(MB, has_base=True) == MB) == (encoded < plain)
