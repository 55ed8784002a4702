"""Rate limits on frames that move nothing."""

from __future__ import annotations

from streamlink.protocol.limits import TokenBucket


def taken(bucket: TokenBucket, *, now: float) -> int:
    """Take tokens until there are none left; returns how many there were."""
    count = 0
    while bucket.take_token(now=now):
        count += 1
    return count


def test_a_burst_is_allowed_and_then_as_many_a_second_as_the_limit_says() -> None:
    bucket = TokenBucket(2.0, burst=3.0)
    assert taken(bucket, now=0.0) == 3
    assert taken(bucket, now=0.4) == 0
    assert taken(bucket, now=1.0) == 2


def test_time_never_fills_more_than_the_burst() -> None:
    bucket = TokenBucket(2.0, burst=3.0)
    taken(bucket, now=0.0)
    assert taken(bucket, now=1e6) == 3


def test_a_burst_is_that_of_eight_seconds_unless_it_is_named() -> None:
    assert taken(TokenBucket(100.0), now=0.0) == 800


def test_tokens_for_work_come_beside_the_burst_and_go_first() -> None:
    bucket = TokenBucket(2.0, burst=3.0)
    bucket.add_tokens(5)
    assert taken(bucket, now=0.0) == 8


def test_a_time_that_goes_back_takes_no_tokens_away() -> None:
    bucket = TokenBucket(2.0, burst=3.0)
    assert bucket.take_token(now=10.0)
    assert taken(bucket, now=5.0) == 2
