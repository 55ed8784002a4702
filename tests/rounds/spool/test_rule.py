"""The rule of a spooled round, with a clock of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import RoundConfig
from streamlink.rounds.spool.rule import SpoolRule

NAMES = ("site-1", "site-2", "site-3")


def a_rule(*, min_clients: int = 2, grace: float = 10.0, train_timeout: float = 0.0) -> SpoolRule:
    rules = RoundConfig(
        min_clients=min_clients, wait_time_after_min_received=grace, train_timeout=train_timeout
    )
    return SpoolRule(rules, NAMES, now=0.0)


def test_a_round_waits_without_a_limit_while_too_few_have_arrived() -> None:
    rule = a_rule()
    rule.arrive("site-1", now=1.0)
    assert rule.seconds_left(now=1e6) == float("inf")


def test_it_is_over_at_once_when_everybody_has_arrived() -> None:
    rule = a_rule()
    for name in NAMES:
        rule.arrive(name, now=1.0)
    assert rule.seconds_left(now=1.0) == 0.0
    assert rule.is_enough


def test_a_straggler_has_the_grace_time_after_enough_have_arrived() -> None:
    rule = a_rule(grace=10.0)
    rule.arrive("site-1", now=1.0)
    rule.arrive("site-2", now=5.0)
    assert rule.seconds_left(now=6.0) == 9.0
    assert rule.seconds_left(now=15.0) == 0.0
    assert rule.asked == {"site-3"}


def test_a_third_update_does_not_begin_the_grace_time_anew() -> None:
    rule = a_rule(min_clients=1, grace=10.0)
    rule.arrive("site-1", now=0.0)
    rule.arrive("site-2", now=9.0)
    assert rule.seconds_left(now=9.0) == 1.0


def test_without_grace_the_round_is_over_with_the_minimum() -> None:
    rule = a_rule(grace=0.0)
    rule.arrive("site-1", now=1.0)
    rule.arrive("site-2", now=2.0)
    assert rule.seconds_left(now=2.0) == 0.0


def test_a_lost_client_is_waited_for_as_long_as_the_grace_time() -> None:
    rule = a_rule(grace=10.0)
    rule.arrive("site-1", now=0.0)
    rule.drop("site-2", is_gone=True, now=3.0)
    rule.drop("site-3", is_gone=False, now=3.0)
    assert rule.away(now=4.0) == {"site-2"}
    assert rule.seconds_left(now=4.0) == 9.0
    assert rule.seconds_left(now=13.0) == 0.0
    assert not rule.is_enough


def test_a_client_that_came_back_is_one_that_was_asked() -> None:
    rule = a_rule(grace=10.0)
    rule.drop("site-2", is_gone=True, now=3.0)
    rule.ask_again("site-2")
    assert rule.asked == set(NAMES)
    assert not rule.away(now=4.0)


def test_one_that_arrived_and_is_excluded_ends_the_grace_time_of_the_others() -> None:
    rule = a_rule(min_clients=2, grace=10.0)
    rule.arrive("site-1", now=1.0)
    rule.arrive("site-2", now=2.0)
    rule.forget("site-1")
    rule.drop("site-1", is_gone=False, now=5.0)
    assert rule.seconds_left(now=50.0) == float("inf")  # site-3 is needed now
    rule.arrive("site-3", now=60.0)
    assert rule.seconds_left(now=60.0) == 0.0
    assert rule.is_enough


def test_one_more_than_enough_that_is_excluded_leaves_the_grace_time_as_it_is() -> None:
    rule = a_rule(min_clients=1, grace=10.0)
    rule.arrive("site-1", now=1.0)
    rule.arrive("site-2", now=2.0)
    rule.forget("site-2")
    assert rule.seconds_left(now=6.0) == 5.0


def test_one_that_is_away_and_excluded_is_not_waited_for() -> None:
    rule = a_rule(min_clients=1, grace=10.0)
    rule.drop("site-1", is_gone=True, now=1.0)
    rule.forget("site-1")
    assert not rule.away(now=2.0)


def test_too_few_left_end_the_round_before_the_others_are_waited_for() -> None:
    rule = a_rule(min_clients=3)
    rule.drop("site-3", is_gone=False, now=1.0)
    assert rule.seconds_left(now=1.0) == 0.0
    assert not rule.is_enough


def test_train_timeout_ends_it_whoever_is_missing() -> None:
    rule = a_rule(min_clients=1, grace=1e9, train_timeout=60.0)
    rule.arrive("site-1", now=5.0)
    assert rule.seconds_left(now=50.0) == 10.0
    assert rule.seconds_left(now=60.0) == 0.0
    assert rule.is_late(now=60.0)
    assert rule.is_enough


def test_what_ended_a_round_is_told_in_words() -> None:
    met = a_rule(min_clients=1, grace=10.0, train_timeout=60.0)
    assert met.why_over(now=60.0) == "60 s had passed (train_timeout)"
    met.arrive("site-1", now=1.0)
    assert met.why_over(now=11.0) == (
        "the round's rule was met: 1 updates, min_clients is 1, and 10 s had passed "
        "(wait_time_after_min_received)"
    )
    failed = a_rule(min_clients=3)
    failed.drop("site-3", is_gone=False, now=1.0)
    assert failed.why_over(now=1.0) == "too few clients were left for min_clients=3"


@given(
    order=st.permutations(NAMES),
    seconds=st.lists(st.floats(0.0, 30.0), min_size=3, max_size=3),
    first=st.integers(1, 3),
)
def test_a_round_ends_with_the_first_that_it_takes_and_not_before(
    order: list[str], seconds: list[float], first: int
) -> None:
    rules = RoundConfig(
        min_clients=first, take_first=first, gather="spool", wait_time_after_min_received=1e9
    )
    rule, now = SpoolRule(rules, NAMES, now=0.0), 0.0
    for count, (name, wait) in enumerate(zip(order, seconds, strict=True)):
        now += wait
        if count == first:
            break
        assert not rule.is_full
        assert rule.seconds_left(now=now) > 0
        rule.arrive(name, now=now)
    assert rule.seconds_left(now=now) == 0.0
    assert rule.arrived == set(order[:first])
    assert rule.why_over(now=now) == f"the first {first} updates had arrived (take_first)"


def test_a_place_that_becomes_free_is_given_to_the_next() -> None:
    rules = RoundConfig(min_clients=2, take_first=2, gather="spool")
    rule = SpoolRule(rules, NAMES, now=0.0)
    rule.arrive("site-1", now=1.0)
    rule.arrive("site-2", now=2.0)
    rule.forget("site-2")
    assert rule.seconds_left(now=2.0) > 0
    rule.arrive("site-3", now=3.0)
    assert rule.seconds_left(now=3.0) == 0.0


FATES = st.sampled_from(["arrive", "out", "away", "back"])


@given(
    fates=st.lists(st.tuples(st.sampled_from(NAMES), FATES, st.floats(0.1, 30)), max_size=12),
    min_clients=st.integers(1, 3),
)
def test_whatever_happens_a_round_with_a_time_limit_ends(
    fates: list[tuple[str, str, float]], min_clients: int
) -> None:
    rule, now = a_rule(min_clients=min_clients, train_timeout=100.0), 0.0
    for name, fate, seconds in fates:
        now += seconds
        if fate == "arrive" and name in rule.asked:
            rule.arrive(name, now=now)
        elif fate in ("out", "away") and name in rule.asked:
            rule.drop(name, is_gone=fate == "away", now=now)
        elif fate == "back" and name in rule.away(now=now):
            rule.ask_again(name)
    while (left := rule.seconds_left(now=now)) > 0:
        now += left
    assert now <= max(100.0, sum(seconds for _, _, seconds in fates)) + 1e-6
