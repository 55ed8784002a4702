"""How many connections carry a stream, on lines that are only a formula."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlink.transport.lane_rule import (
    FIRST_HOLD_SECONDS,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SAMPLE_SECONDS,
    LaneRule,
)

MB = 1e6
RateOf = Callable[[int, float], float]
"""``rate(lanes, now)`` gives what so many connections carry at that time (bytes per second)."""


class Road:
    """A stream whose connections are made and closed at once, and a clock that is a number."""

    def __init__(self, rule: LaneRule, rate: RateOf) -> None:
        self.rule, self.rate = rule, rate
        self.now, self.received, self.lanes = 0.0, 0.0, 1
        self.history: list[int] = []

    def run(self, seconds: float) -> list[int]:
        """Let time pass; returns how many there were at each sample."""
        first = len(self.history)
        for _ in range(round(seconds / SAMPLE_SECONDS)):
            self.now += SAMPLE_SECONDS
            self.received += self.rate(self.lanes, self.now) * SAMPLE_SECONDS
            self.lanes = self.rule.wanted(round(self.received), lanes=self.lanes, now=self.now)
            self.history.append(self.lanes)
        return self.history[first:]


def line(*, each: float, all_of_it: float = 1e12, noise: float = 0.0, seed: int = 0) -> RateOf:
    """Return a line that gives each connection so much, and all together no more than that."""
    chance = random.Random(seed)
    return lambda lanes, _: min(each * lanes, all_of_it) * chance.uniform(1 - noise, 1 + noise)


def share(counts: list[int], *wanted: int) -> float:
    """Return for what part of the time there were so many."""
    return sum(each in wanted for each in counts) / len(counts)


def test_where_each_connection_brings_more_there_are_soon_as_many_as_may_be() -> None:
    road = Road(LaneRule(most=4), line(each=10 * MB))
    assert max(road.run(10.0)) == 2
    assert road.run(20.0)[-1] == 4
    assert share(road.run(600.0), 4) > 0.9  # now and then one less is tried


def test_where_one_fills_the_line_there_is_nearly_always_one() -> None:
    road = Road(LaneRule(most=4), line(each=10 * MB, all_of_it=10 * MB))
    assert max(road.run(1800.0)) == 2
    assert share(road.history, 1) > 0.9


def test_one_less_is_not_tried_soon_after_the_last_has_shown_that_it_is_needed() -> None:
    road = Road(LaneRule(most=4), line(each=10 * MB, all_of_it=20 * MB))
    climbed = road.run(70.0)
    assert min(climbed[climbed.index(2) :]) == 2
    assert 1 in road.run(60.0)


def test_a_trial_of_one_less_ends_as_soon_as_it_is_plainly_slower() -> None:
    road = Road(LaneRule(most=2), line(each=10 * MB))
    road.run(20.0)
    trials = [len(list(same)) for lanes, same in groupby(road.run(600.0)) if lanes == 1]
    assert trials
    assert max(trials) * SAMPLE_SECONDS <= 4.0


def test_no_more_are_kept_than_fill_the_line() -> None:
    road = Road(LaneRule(most=8), line(each=10 * MB, all_of_it=30 * MB))
    road.run(60.0)
    assert share(road.run(1200.0), 3) > 0.8


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_adds_no_connections(seed: int) -> None:
    road = Road(LaneRule(most=8), line(each=9 * MB, all_of_it=9 * MB, noise=0.4, seed=seed))
    assert share(road.run(3600.0), 1, 2) > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_a_gain_is_found_in_the_noise(seed: int) -> None:
    road = Road(LaneRule(most=4), line(each=10 * MB, noise=0.3, seed=seed))
    road.run(120.0)
    assert share(road.run(600.0), 3, 4) > 0.8


def test_a_line_that_changes_is_followed() -> None:
    def rate(lanes: int, now: float) -> float:
        return 10 * MB * (lanes if now < 100 or now > 1500 else 1)

    road = Road(LaneRule(most=4), rate)
    road.run(60.0)
    assert share(road.run(40.0), 4) > 0.8
    road.run(700.0)
    assert share(road.run(700.0), 1, 2) > 0.9
    road.run(700.0)
    assert share(road.run(300.0), 4) > 0.8


def test_a_stream_that_stands_still_proves_nothing() -> None:
    road = Road(LaneRule(most=4), lambda lanes, now: 0.0 if now % 3 < 1 else 10 * MB * lanes)
    assert max(road.run(600.0)) == 1


def test_a_fixed_number_stays_whatever_is_measured() -> None:
    road = Road(LaneRule(most=4, fixed=3), line(each=10 * MB, all_of_it=10 * MB))
    assert set(road.run(600.0)) == {3}


def test_where_only_one_may_be_nothing_is_tried() -> None:
    assert set(Road(LaneRule(most=1), line(each=10 * MB)).run(600.0)) == {1}


def test_the_pauses_between_trials_that_change_nothing_grow() -> None:
    road = Road(LaneRule(most=2), line(each=10 * MB, all_of_it=10 * MB))
    road.run(2000.0)
    changes = enumerate(pairwise(road.history))
    starts = [at * SAMPLE_SECONDS for at, (before, after) in changes if before < after]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps == sorted(gaps)
    assert gaps[0] >= FIRST_HOLD_SECONDS
    assert gaps[-1] > 4 * gaps[0]


# --- connections that are lost -------------------------------------------------------------


def test_after_a_loss_the_next_waits_longer_each_time() -> None:
    rule, now, waited = LaneRule(most=4, fixed=2), 0.0, []
    for _ in range(8):
        rule.lost(now=now)
        lost_at = now
        while rule.wanted(0, lanes=1, now=now) == 1:
            now += 1.0
        waited.append(now - lost_at)
    assert waited[0] == FIRST_PAUSE_SECONDS
    assert waited == sorted(waited)
    assert waited[-1] == LONGEST_PAUSE_SECONDS


def test_losses_far_apart_are_taken_one_by_one() -> None:
    rule = LaneRule(most=4, fixed=2)
    for now in (0.0, 1000.0, 2000.0):
        rule.lost(now=now)
        assert rule.wanted(0, lanes=1, now=now) == 1
        assert rule.wanted(0, lanes=1, now=now + FIRST_PAUSE_SECONDS) == 2


def test_one_that_cannot_be_made_is_not_asked_for_at_once() -> None:
    road = Road(LaneRule(most=4), line(each=10 * MB))
    while road.rule.wanted(round(road.received), lanes=1, now=road.now) == 1:
        road.now += SAMPLE_SECONDS
        road.received += 10 * MB
    road.rule.lost(now=road.now)
    assert max(road.run(FIRST_HOLD_SECONDS - 1.0)) == 1


# --- whatever happens ----------------------------------------------------------------------

happenings = st.lists(
    st.tuples(st.floats(0, 1e9), st.integers(1, 8), st.floats(0.01, 30.0), st.booleans()),
    max_size=200,
)


@given(st.integers(1, 8), happenings)
def test_there_is_always_one_and_never_too_many_and_they_change_one_by_one(
    most: int, happened: list[tuple[float, int, float, bool]]
) -> None:
    rule, now, received = LaneRule(most=most), 0.0, 0.0
    before = 1
    for nbytes, lanes, seconds, is_lost in happened:
        now += seconds
        received += nbytes
        if is_lost:
            rule.lost(now=now)
        carrying = min(lanes, before)
        wanted = rule.wanted(round(received), lanes=carrying, now=now)
        assert 1 <= wanted <= most
        assert wanted <= before + 1
        before = max(wanted, before)


@settings(max_examples=30)
@given(st.integers(1, 8), st.floats(0.0, 0.2), st.integers(0, 1000))
def test_on_any_steady_line_it_stays_near_the_fewest_that_are_as_fast(
    fills: int, noise: float, seed: int
) -> None:
    road = Road(LaneRule(most=8), line(each=MB, all_of_it=fills * MB, noise=noise, seed=seed))
    road.run(300.0)
    late = road.run(900.0)
    mean = sum(min(each, fills) for each in late) / len(late)
    assert mean > 0.7 * fills, "it gives away too much"
    assert sum(late) / len(late) < fills + 1.5, "it keeps connections that bring nothing"
