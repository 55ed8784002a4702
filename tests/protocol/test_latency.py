"""Acknowledgement times: in which bucket they fall, and that they add up."""

import pytest

from streamlink.protocol.frames import Ack
from streamlink.protocol.latency import BOUNDS, AckClock, AckTimes
from tests.support.machines import KiB, streaming_sender, write_all


def counted(*seconds: float) -> AckTimes:
    clock = AckClock()
    for each in seconds:
        clock.add(each)
    return clock.so_far()


def test_a_time_is_counted_where_it_is_not_above_the_bound() -> None:
    counts = counted(0.001, 0.0011, 61.0).counts
    assert (counts[0], counts[1], counts[-1]) == (1, 1, 1)
    assert sum(counts) == 3
    assert len(counts) == len(BOUNDS) + 1


def test_the_times_of_two_streams_add_up() -> None:
    both = counted(0.001, 2.0) + counted(3.0)
    assert both.counts == counted(0.001, 2.0, 3.0).counts
    assert both.seconds == pytest.approx(5.001)


def test_a_sender_measures_from_the_moment_a_chunk_leaves() -> None:
    sender = streaming_sender()
    write_all(sender, now=10.0)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=10.3)
    assert sender.stats.ack_times == counted(10.3 - 10.0)
