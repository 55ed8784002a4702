"""Which ranges are encoded: those that a slow line gets to the other end sooner."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.encodings.worth import TRY_EVERY, Worth

MB = 10**6


@dataclass
class Bench:
    """A line, a clock and an encoder, as a test wants them."""

    rate: float
    speed: float = 200.0 * MB
    share: float = 0.7
    is_in_flight: bool = True
    now: float = 0.0

    def __post_init__(self) -> None:
        self.worth = Worth(self, lambda: self.now)

    def offer(self, nbytes: int = MB) -> bool:
        """Let the next range be encoded if that is worth it; returns whether it was."""
        if not self.worth.is_worth_it():
            return False
        self.now += nbytes / self.speed
        self.worth.note(nbytes=nbytes, encoded_bytes=int(nbytes * self.share))
        return True


def test_nothing_is_encoded_before_the_line_is_known() -> None:
    assert not Bench(0.0).offer()


def test_all_is_encoded_for_a_slow_line() -> None:
    bench = Bench(12.5 * MB)
    assert all(bench.offer() for _ in range(100))


def test_of_all_that_a_fast_line_carries_one_range_is_tried() -> None:
    bench = Bench(3000.0 * MB)
    assert [bench.offer() for _ in range(10 * TRY_EVERY)].index(True) == 0
    assert not any(bench.offer() for _ in range(10 * TRY_EVERY))


def test_where_a_range_might_pay_it_is_tried_now_and_then() -> None:
    bench = Bench(100.0 * MB, share=1.0)
    assert sum(bench.offer() for _ in range(1 + 10 * TRY_EVERY)) == 11
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
    bench.offer()
    plain, encoded = 1 / rate, 1 / speed + int(MB * share) / MB / rate
    if encoded != pytest.approx(plain, rel=1e-6):
        assert bench.worth.is_worth_it() == (encoded < plain)
