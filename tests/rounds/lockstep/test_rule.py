"""The rule of a lockstep round, with times given as numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import RoundConfig
from streamlink.errors import AbortCode, QuorumNotReached, StreamAborted
from streamlink.rounds.lockstep.rule import LockstepRule

NAMES = ("site-1", "site-2", "site-3")
RAISED = StreamAborted(AbortCode.TASK_FAILED, "no data", by_peer=True, who="site-1")
LOST = StreamAborted(AbortCode.SESSION_LOST, "it is gone", by_peer=True, who="site-1")


def a_rule(
    *,
    min_clients: int = 1,
    grace: float = 10.0,
    max_attempts: int = 3,
    train_timeout: float = 0.0,
    now: float = 0.0,
) -> LockstepRule:
    rules = RoundConfig(
        min_clients=min_clients,
        wait_time_after_min_received=grace,
        max_attempts=max_attempts,
        train_timeout=train_timeout,
    )
    return LockstepRule(rules, 7, now=now)


def test_an_attempt_needs_everybody_who_is_here() -> None:
    rule = a_rule()
    assert rule.begin(NAMES) == list(NAMES)
    assert (rule.attempt, rule.needed) == (1, set(NAMES))


def test_whoever_failed_while_it_was_here_is_not_in_the_next_attempt() -> None:
    rule = a_rule()
    rule.begin(NAMES)
    rule.fail("site-1", RAISED)
    assert rule.lose([], now=1.0) == []
    assert rule.begin(NAMES) == ["site-2", "site-3"]
    assert rule.missing(["site-2", "site-3"]) == {"site-1": str(RAISED)}


def test_a_lost_client_has_the_grace_time_and_has_then_failed() -> None:
    rule = a_rule(grace=10.0)
    rule.begin(NAMES)
    rule.fail("site-1", LOST)
    assert rule.lose(["site-1"], now=5.0) == ["site-1"]
    assert rule.grace_left("site-1", now=12.0) == 3.0
    rule.expire("site-1", now=14.9)
    assert rule.lost == ["site-1"]
    rule.expire("site-1", now=15.0)
    assert rule.lost == []
    assert rule.begin(["site-2", "site-3"]) == ["site-2", "site-3"]


def test_a_lost_client_that_comes_back_is_forgiven() -> None:
    rule = a_rule()
    rule.begin(NAMES)
    rule.fail("site-1", LOST)
    rule.lose(["site-1"], now=5.0)
    rule.come_back("site-1")
    assert rule.begin(NAMES) == list(NAMES)
    assert rule.missing(NAMES) == {}


def test_a_client_lost_without_a_failure_of_its_own_is_waited_for_too() -> None:
    rule = a_rule(grace=10.0)
    rule.begin(NAMES)
    rule.fail("site-1", RAISED)
    assert rule.lose(["site-3"], now=0.0) == ["site-3"]
    rule.expire("site-3", now=10.0)
    assert "did not come back" in str(rule.failures["site-3"])
    assert rule.begin(["site-2"]) == ["site-2"]


def test_who_is_lost_while_others_are_waited_for_has_a_grace_time_of_its_own() -> None:
    rule = a_rule(grace=10.0)
    rule.begin(NAMES)
    rule.fail("site-1", LOST)
    rule.lose(["site-1"], now=0.0)
    rule.expire("site-1", now=10.0)
    assert rule.lose(["site-1", "site-2"], now=10.0) == ["site-2"]
    assert rule.grace_left("site-2", now=10.0) == 10.0


def test_who_was_awaited_while_the_attempt_ran_is_not_waited_for_again() -> None:
    rule = a_rule()
    rule.begin(NAMES)
    rule.fail("site-1", LOST, was_awaited=True)
    assert rule.lose(["site-1"], now=1.0) == []
    assert rule.begin(NAMES) == ["site-2", "site-3"]


def test_the_grace_time_begins_anew_after_each_attempt() -> None:
    rule = a_rule(grace=10.0)
    for now in (0.0, 100.0):
        rule.begin(NAMES)
        rule.fail("site-1", LOST)
        assert rule.lose(["site-1"], now=now) == ["site-1"]
        assert rule.grace_left("site-1", now=now) == 10.0
        rule.come_back("site-1")


def test_nobody_is_waited_for_whom_an_operator_excluded() -> None:
    rule = a_rule()
    rule.begin(NAMES)
    rule.fail("site-1", LOST)
    rule.lose(["site-1"], now=0.0)
    out = StreamAborted(AbortCode.CANCELLED, "excluded by the operator: noise", by_peer=False)
    rule.exclude("site-1", out)
    assert rule.lost == []
    assert rule.begin(NAMES) == ["site-2", "site-3"]
    assert rule.missing(["site-2", "site-3"]) == {"site-1": str(out)}


def test_nobody_is_waited_for_who_was_not_asked() -> None:
    rule = a_rule()
    rule.begin(["site-1", "site-2"])
    rule.fail("site-1", RAISED)
    assert rule.lose(["site-3"], now=0.0) == []


def test_too_few_clients_give_the_round_up_and_name_who_failed() -> None:
    rule = a_rule(min_clients=3)
    rule.begin(NAMES)
    rule.fail("site-1", RAISED)
    with pytest.raises(QuorumNotReached, match=r"round 7: 2 of 3 clients left") as given_up:
        rule.begin(NAMES)
    assert given_up.value.failures == {"site-1": RAISED}


def test_a_round_has_as_many_attempts_as_its_settings_say() -> None:
    rule = a_rule(max_attempts=2)
    for name in ("site-1", "site-2"):
        rule.begin(NAMES)
        rule.fail(name, RAISED)
    with pytest.raises(QuorumNotReached, match=r"round 7 failed 2 times \(max_attempts\)"):
        rule.begin(NAMES)


def test_a_client_may_resume_within_attempts_as_often_as_a_round_has_attempts() -> None:
    rule = a_rule(max_attempts=2)
    rule.begin(NAMES)
    for _ in range(2):
        assert rule.may_resume("site-1")
        rule.resume("site-1")
    assert not rule.may_resume("site-1")
    assert rule.may_resume("site-2")


def test_who_left_between_two_attempts_is_reported_as_gone() -> None:
    rule = a_rule()
    rule.begin(NAMES)
    rule.fail("site-1", RAISED)
    rule.begin(["site-3"])
    assert rule.missing(["site-3"]) == {
        "site-1": str(RAISED),
        "site-2": "its session ended, and it did not come back",
    }


def test_train_timeout_counts_from_the_beginning_of_the_round() -> None:
    assert a_rule(train_timeout=60.0, now=5.0).deadline == 65.0
    assert a_rule(now=5.0).deadline is None


FATES = st.sampled_from(["raised", "lost", "awaited", "back", "excluded"])


@given(
    fates=st.lists(st.tuples(st.sampled_from(NAMES), FATES), max_size=12),
    min_clients=st.integers(1, 3),
    max_attempts=st.integers(1, 4),
)
def test_whatever_happens_a_round_ends_and_nobody_who_failed_is_asked_again(
    fates: list[tuple[str, str]], min_clients: int, max_attempts: int
) -> None:
    rule = a_rule(min_clients=min_clients, max_attempts=max_attempts)
    with pytest.raises(QuorumNotReached):
        fail_again_and_again(rule, fates, min_clients)
    assert rule.attempt <= max_attempts


def fail_again_and_again(
    rule: LockstepRule, fates: list[tuple[str, str]], min_clients: int
) -> None:
    now = 0.0
    while True:
        peers = rule.begin(NAMES)
        assert len(peers) >= min_clients
        assert not rule.failures.keys() & set(peers)
        name, fate = fates.pop() if fates else (peers[0], "raised")
        name = name if name in peers else peers[0]
        rule.fail(name, LOST, was_awaited=fate == "awaited")
        for each in rule.lose([] if fate == "raised" else [name], now=now):
            if fate == "back":
                rule.come_back(each)
            elif fate == "excluded":
                rule.exclude(each, RAISED)
            else:
                now += rule.grace_left(each, now=now)
                rule.expire(each, now=now)
        assert not rule.lost
