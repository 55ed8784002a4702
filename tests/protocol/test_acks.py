"""When a receiver tells where it stands."""

from __future__ import annotations

import pytest

from streamlink.protocol.acks import REPORT, AckRule
from streamlink.protocol.timers import Timers


def a_rule(in_window: int = 8, *, report_seconds: float = 0.5) -> tuple[AckRule, Timers]:
    """Return a rule for chunks of 10 bytes that has just told, and its clocks."""
    timers = Timers()
    rule = AckRule(10 * in_window, report_seconds=report_seconds, timers=timers)
    rule.agree(10)
    rule.told(now=0.0)
    return rule, timers


@pytest.mark.parametrize(("in_window", "speaks_for"), [(3, 1), (4, 2), (7, 2), (8, 3), (100, 3)])
def test_the_wider_the_window_the_more_full_chunks_share_an_ack(
    in_window: int, speaks_for: int
) -> None:
    rule, _ = a_rule(in_window)
    count = 0
    while not rule.is_due:
        rule.delivered(1, is_full=True, now=0.0)
        count += 1
    assert count == speaks_for


def test_chunks_that_come_together_count_each() -> None:
    rule, _ = a_rule()
    rule.delivered(3, is_full=True, now=0.0)
    assert rule.is_due


def test_a_small_chunk_is_acknowledged_at_once() -> None:
    rule, timers = a_rule()
    rule.delivered(1, is_full=False, now=0.0)
    assert (rule.is_due, timers.next_deadline()) == (True, None)


def test_an_ack_that_waits_is_due_a_moment_later() -> None:
    rule, timers = a_rule()
    rule.delivered(1, is_full=True, now=5.0)
    assert not rule.is_due
    assert timers.next_deadline() == pytest.approx(5.1)
    rule.expired()
    assert (rule.is_due, timers.next_deadline()) == (True, None)


def test_nobody_waits_before_the_size_of_a_chunk_is_agreed() -> None:
    rule = AckRule(800, report_seconds=0.5, timers=Timers())
    rule.delivered(1, is_full=True, now=0.0)
    assert rule.is_due


def test_an_ack_speaks_for_all_and_the_count_begins_anew() -> None:
    rule, timers = a_rule()
    rule.delivered(2, is_full=True, now=0.0)
    rule.told(now=0.0)
    rule.delivered(1, is_full=True, now=0.0)
    assert not rule.is_due
    rule.told(now=0.0)
    assert not timers.is_running(REPORT)


@pytest.mark.parametrize(
    ("untold", "is_credit_due", "is_all_taken", "is_due"),
    [
        (1, True, False, True),
        (2, False, True, True),
        (1, False, True, False),  # a second one may be close behind
        (2, False, False, False),
    ],
)
def test_what_was_taken_is_told_at_once_where_the_sender_may_wait_for_it(
    untold: int, is_credit_due: bool, is_all_taken: bool, is_due: bool
) -> None:
    rule, _ = a_rule()
    rule.delivered(untold, is_full=True, now=0.0)
    rule.taken(is_credit_due=is_credit_due, is_all_taken=is_all_taken, now=0.0)
    assert rule.is_due is is_due


@pytest.mark.parametrize(("report_seconds", "told_after"), [(0.5, 0.5), (30.0, 1.0)])
def test_what_was_taken_is_told_within_a_second(report_seconds: float, told_after: float) -> None:
    rule, timers = a_rule(report_seconds=report_seconds)
    rule.taken(is_credit_due=False, is_all_taken=False, now=0.1)
    rule.taken(is_credit_due=False, is_all_taken=False, now=0.2)
    assert not rule.is_due
    assert timers.next_deadline() == pytest.approx(told_after)
    rule.taken(is_credit_due=False, is_all_taken=False, now=told_after)
    assert rule.is_due
