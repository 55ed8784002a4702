"""The pacer of one direction: the limit holds in every span, and streams share it fairly."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config.bandwidth import DEBT_SECONDS, LEAST_CHUNK_BYTES, debt_seconds, least_rate
from streamlink.protocol.credit_cost import LARGEST_RATIO
from streamlink.protocol.pacing import HEADER_BYTES, Pacer

TEN_MBIT = 1.25e6
SPAN = 10.0

rates = st.sampled_from((20e3, 100e3, TEN_MBIT, 12.5e6, 125e6))
lateness = st.lists(st.floats(0, 0.04), min_size=1, max_size=50)


def pacer_of(rate: float, now: float = 0.0) -> Pacer[str]:
    pacer = Pacer[str]()
    pacer.limit(rate, now=now)
    return pacer


def dealt(
    pacer: Pacer[str], streams: tuple[str, ...], until: float, late: list[float], now: float = 0.0
) -> list[tuple[float, str, int]]:
    """Deal to streams that always want more, by a thread that wakes late; returns who got what."""
    found: list[tuple[float, str, int]] = []
    count = 0
    for stream in streams:
        pacer.ask(stream, pacer.part_bytes)
    while now < until:
        while (part := pacer.next(now=now)) is not None:
            found.append((now, *part))
            pacer.ask(part[0], pacer.part_bytes)
        wait = pacer.wait(now=now)
        assert wait is not None
        now += max(wait, 1e-4) + late[count % len(late)]
        count += 1
    return found


def shares(parts: list[tuple[float, str, int]], rate: float, until: float) -> list[float]:
    """The share of the limit in every span of ten seconds that begins or ends with a part."""
    times = [at for at, _, _ in parts]
    starts = [each for each in times if each + SPAN <= until]
    return [
        sum(size + HEADER_BYTES for at, _, size in parts if start <= at <= start + SPAN)
        / (rate * SPAN)
        for start in starts[:: max(1, len(starts) // 40)]
    ]


@given(rates, st.integers(1, 5), lateness)
def test_any_ten_seconds_have_95_to_100_percent_of_the_limit(
    rate: float, streams: int, late: list[float]
) -> None:
    parts = dealt(pacer_of(rate), tuple("abcde"[:streams]), 14.0, late)
    # A smaller part may be the last that fits.
    found = shares(parts, rate, 13.9)
    assert found
    assert max(found) <= 1.0
    assert min(found) >= 0.95


@given(rates, st.integers(2, 5))
def test_streams_that_always_want_more_get_the_same(rate: float, streams: int) -> None:
    parts = dealt(pacer_of(rate), tuple("abcde"[:streams]), 2.0, [0.0])
    counts = Counter(stream for _, stream, _ in parts)
    assert max(counts.values()) - min(counts[each] for each in "abcde"[:streams]) <= 1


@pytest.mark.parametrize("factor", [1.0, 1.5, 2.0, 4.0, 1000.0])
@pytest.mark.parametrize("timeout", [0.6, 1.0, 2.0, 5.0, 20.0, 300.0])
def test_at_no_limit_that_is_accepted_does_one_of_eight_streams_wait_for_the_timeout_even_in_debt(
    timeout: float, factor: float
) -> None:
    pacer = pacer_of(least_rate(timeout) * factor)
    pacer.bound_debt(debt_seconds(timeout))
    pacer.charge(10**9)
    parts = dealt(pacer, tuple("abcdefgh"), min(4 * timeout, timeout + 20), [0.0])
    for stream in "abcdefgh":
        times = [0.0, *(at for at, each, _ in parts if each == stream)]
        assert max(b - a for a, b in pairwise(times)) < timeout


def test_a_stream_that_wants_nothing_leaves_its_share_to_the_others() -> None:
    parts = dealt(pacer_of(TEN_MBIT), ("a",), 12.0, [0.0])
    assert min(shares(parts, TEN_MBIT, 12.0)) >= 0.95


def test_one_that_asks_twice_stands_in_the_line_once() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.ask("a", 1024)
    pacer.ask("a", 2048)
    assert pacer.next(now=1.0) == ("a", 1024)
    assert pacer.next(now=9.0) is None
    assert pacer.wait(now=9.0) is None


def test_one_that_has_left_is_given_nothing() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.ask("a", 1024)
    pacer.leave("a")
    pacer.leave("b")
    assert pacer.next(now=1.0) is None


def test_bytes_that_were_sent_again_are_paid_for_by_all() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.ask("a", 1024)
    pacer.charge(int(TEN_MBIT))  # a second's
    wait = pacer.wait(now=0.0)
    assert wait is not None
    assert 1.0 < wait < 1.1
    assert pacer.next(now=1.0) is None
    assert pacer.next(now=wait) == ("a", 1024)


def test_a_long_resume_holds_up_the_others_for_two_seconds_and_no_longer() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.ask("a", 1024)
    pacer.charge(100 * int(TEN_MBIT))
    wait = pacer.wait(now=0.0)
    assert wait is not None
    assert wait < 2.1


def test_a_debt_is_bounded_anew_by_a_shorter_timeout() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.charge(int(1.6 * TEN_MBIT))
    pacer.bound_debt(0.2)
    pacer.ask("a", 1024)
    wait = pacer.wait(now=0.0)
    assert wait is not None
    assert wait < 0.3
    assert pacer.portion(1).largest_ratio < LARGEST_RATIO


def test_a_debt_takes_no_longer_when_the_limit_is_lowered() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.charge(int(1.6 * TEN_MBIT))
    pacer.limit(20e3, now=0.0)
    pacer.ask("a", 1024)
    wait = pacer.wait(now=0.0)
    assert wait is not None
    assert wait < 2.2


def test_bytes_that_an_encoding_saved_are_given_to_others() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.ask("a", 65536)
    assert pacer.next(now=0.0) is None
    pacer.charge(-65536 - HEADER_BYTES)
    assert pacer.next(now=0.0) == ("a", 65536)


def test_a_limit_that_is_lifted_leaves_nobody_in_the_line() -> None:
    pacer = pacer_of(TEN_MBIT)
    pacer.ask("a", 65536)
    pacer.limit(None, now=0.0)
    pacer.ask("a", 65536)
    assert pacer.next(now=9.0) is None
    assert pacer.wait(now=9.0) is None


def test_parts_that_wait_when_the_limit_is_lowered_become_smaller_with_it() -> None:
    pacer = pacer_of(100e6)
    streams = [f"stream {number}" for number in range(10)]
    for stream in streams:
        pacer.ask(stream, pacer.part_bytes)
    pacer.limit(512e3, now=0.0)
    now, given = 0.0, dict[str, int]()
    while len(given) < len(streams):
        now += pacer.wait(now=now) or 0.0
        while found := pacer.next(now=now):
            given[found[0]] = found[1]
    assert set(given.values()) == {pacer.part_bytes}
    assert now <= 1.1 * len(streams) * (pacer.part_bytes + HEADER_BYTES) / 512e3


@given(rates, rates, lateness)
def test_a_new_limit_holds_from_the_moment_it_is_set(
    before: float, after: float, late: list[float]
) -> None:
    pacer = pacer_of(before)
    dealt(pacer, ("a",), 1.0, late)
    pacer.limit(after, now=1.1)
    pacer.leave("a")
    found = shares(dealt(pacer, ("a",), 13.0, late, now=1.1), after, 12.9)
    assert max(found) <= 1.0
    assert min(found) >= 0.95


@given(st.floats(100.0, 1e10))
def test_a_part_is_a_power_of_two_that_takes_at_most_60_ms(rate: float) -> None:
    part = pacer_of(rate).part_bytes
    assert part & (part - 1) == 0
    assert LEAST_CHUNK_BYTES <= part <= max(LEAST_CHUNK_BYTES, 0.06 * rate)


@given(rates, st.integers(1, 100))
def test_receivers_have_at_most_half_a_second_promised_or_two_parts_each(
    rate: float, streams: int
) -> None:
    pacer = pacer_of(rate)
    ahead = pacer.portion(streams).ahead_bytes
    assert 2 * pacer.part_bytes <= ahead <= max(2 * pacer.part_bytes, rate / 2)


@given(rates, st.integers(1, 100))
def test_receivers_whose_bytes_all_stop_shrinking_owe_no_more_than_is_made_up_for(
    rate: float, streams: int
) -> None:
    part, ahead, ratio = pacer_of(rate).portion(streams)
    promised = ahead + part  # as it is paid for
    assert streams * promised * (ratio - 1) <= DEBT_SECONDS * rate
    assert 1 <= ratio <= LARGEST_RATIO


@pytest.mark.parametrize(("streams", "least"), [(1, LARGEST_RATIO), (2, 4.0), (4, 3.25), (8, 2.0)])
@pytest.mark.parametrize("rate", [100e3, TEN_MBIT, 17.5e6, 125e6])
def test_a_few_receivers_may_expect_that_encodings_save_much(
    rate: float, streams: int, least: float
) -> None:
    assert pacer_of(rate).portion(streams).largest_ratio >= least
