"""A receiver learns the round trip and the rate from its own side."""

from __future__ import annotations

import pytest

from streamlink.config import StreamConfig
from streamlink.protocol.window_need import IDLE_SECONDS, WindowNeed

MiB = 1 << 20
CONFIG = StreamConfig()


def moving(need: WindowNeed, *, rate: float, round_trip: float, seconds: float) -> float:
    """Let a stream of that rate move, whose sender waits for credit; returns the time."""
    now, received = 0.0, 0
    while now < seconds:
        need.granted(received, now=now)
        now += round_trip
        received = int(rate * now)
        need.arrived(received, now=now)
        need.window_bytes(received, now=now)
    return now


@pytest.mark.parametrize(
    ("rate", "round_trip", "window"),
    [
        (1 * MiB, 0.01, 1.0),  # the first window is the least while anything moves
        (10 * MiB, 0.01, 1.2),
        (10 * MiB, 0.2, 5.0),
        (60 * MiB, 0.2, 24.0),  # more than a window: twice what the line holds
        (200 * MiB, 0.05, 20.0),
        (200 * MiB, 0.03, 16.0),
        (400 * MiB, 0.2, 48.0),  # the largest
    ],
)
def test_the_window_holds_two_round_trips_and_a_tenth_of_a_second(
    rate: float, round_trip: float, window: float
) -> None:
    need = WindowNeed(CONFIG, consumed=0, now=0.0)
    now = moving(need, rate=rate, round_trip=round_trip, seconds=3.0)
    assert need.round_trip == pytest.approx(round_trip)
    assert need.window_bytes(int(rate * now), now=now) / MiB == pytest.approx(window, rel=0.05)


def test_the_shortest_round_trip_counts_and_bytes_of_older_credit_measure_none() -> None:
    need = WindowNeed(CONFIG, consumed=0, now=0.0)
    need.granted(100, now=0.0)
    need.granted(200, now=0.1)  # the first is still measured
    need.arrived(100, now=0.2)
    assert need.round_trip == 0
    need.arrived(101, now=0.3)
    assert need.round_trip == pytest.approx(0.3)
    need.arrived(150, now=0.4)  # nothing is measured
    need.granted(300, now=1.0)
    need.arrived(400, now=2.0)
    assert need.round_trip == pytest.approx(0.3)


def test_a_stream_on_which_nothing_arrives_needs_nothing_and_begins_again() -> None:
    need = WindowNeed(CONFIG, consumed=0, now=0.0)
    now = moving(need, rate=100 * MiB, round_trip=0.2, seconds=3.0)
    consumed = int(100 * MiB * now)
    assert need.window_bytes(consumed, now=now + IDLE_SECONDS + 0.1) == 0
    need.arrived(consumed + 1, now=now + 5)
    assert need.window_bytes(consumed + 1, now=now + 5) == CONFIG.initial_window_bytes


def test_the_silence_of_a_long_round_trip_is_not_idleness() -> None:
    need = WindowNeed(CONFIG, consumed=0, now=0.0)
    now = moving(need, rate=1 * MiB, round_trip=2.0, seconds=20.0)
    wanted = need.window_bytes(int(MiB * now), now=now)
    assert wanted > 4 * MiB
    assert need.window_bytes(int(MiB * now), now=now + 5.0) > CONFIG.initial_window_bytes
    assert need.window_bytes(int(MiB * now), now=now + 6.1) == 0


def test_a_slow_reader_needs_no_more_however_fast_bytes_arrive() -> None:
    need = WindowNeed(CONFIG, consumed=0, now=0.0)
    for step in range(1, 30):
        need.arrived(step * 10 * MiB, now=step / 10)
        assert need.window_bytes(step * 1000, now=step / 10) == CONFIG.initial_window_bytes
