"""A line that holds more than a window, in virtual time: the window grows to what it takes."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from tests.support.virtual_link import Schedule, VirtualLink

MiB = 1 << 20
CONTENT = bytes(range(256)) * (384 * 1024)  # 96 MiB
RATE = 12e6
STEP = 0.05
# The start of a stream is left out: it takes as many round trips with any window.
DEFAULT = LinkConfig.model_validate({"stream": {"initial_window_bytes": "16MiB"}})


def moved(config: LinkConfig, latency: float, *, most: int, reads: float = 0.0) -> VirtualLink:
    """Move the content while each end gets up to ``most`` bytes beyond its window."""
    schedule = Schedule(latency=latency, up_rate=RATE, read_seconds=reads)
    link = VirtualLink(CONTENT, config, schedule)
    while not link.is_over:
        link.run(until=link.now + STEP)
        link.stretch(most)
    assert bytes(link.got) == CONTENT
    return link


def test_a_long_and_fast_line_is_filled_where_there_is_memory_for_it() -> None:
    full = moved(DEFAULT, 1.0, most=32 * MiB)
    short = moved(DEFAULT, 1.0, most=0)
    at_best = len(CONTENT) / RATE
    assert short.now > 1.5 * at_best  # 16 MiB for each round trip of 2 s
    assert full.now < short.now - 2.0
    assert min(full.extra.values()) > 8 * MiB


@pytest.mark.parametrize(
    ("mbit", "round_trip", "few"),
    [(1000, 0.2, 5.0), (1000, 0.3, 6.0), (100, 0.2, 2.1), (100, 0.3, 2.3)],
)
def test_a_long_line_is_full_after_few_round_trips(
    mbit: int, round_trip: float, few: float
) -> None:
    rate = mbit * 125e3
    content = CONTENT * 4 if mbit == 1000 else CONTENT
    schedule = Schedule(latency=round_trip / 2, up_rate=rate)
    link = VirtualLink(content, LinkConfig(), schedule)
    while not link.is_over:
        link.run(until=link.now + round_trip / 10)
        link.stretch(32 * MiB)
    lost = link.now - len(content) / rate
    # The window grows from 4 MiB to a bandwidth-delay product of 25 or 37.5 MB, or holds one of 2.5
    # from the beginning; the handshake and the end count, too.
    assert lost < few * round_trip


def test_a_stream_may_begin_with_more_than_a_window_on_any_line() -> None:
    config = LinkConfig.model_validate({"stream": {"initial_window_bytes": "48MiB"}})
    extra = moved(config, 0.0005, most=32 * MiB).extra
    assert extra["receiver"] == 32 * MiB
    assert extra["sender"] > 24 * MiB  # no more than it has credit for


@pytest.mark.parametrize("latency", [0.0005, 0.02, 0.2])
def test_a_line_that_a_window_fills_takes_no_more(latency: float) -> None:
    assert moved(DEFAULT, latency, most=32 * MiB).extra == {"sender": 0, "receiver": 0}


def test_a_window_does_not_grow_for_a_slow_reader() -> None:
    chunks = len(CONTENT) // (2 * MiB)
    link = moved(DEFAULT, 1.0, most=32 * MiB, reads=40.0 / chunks)
    assert link.extra["receiver"] == 0


def test_a_window_that_somebody_has_set_stays() -> None:
    stream = {"window_bytes": "16MiB", "initial_window_bytes": "16MiB"}
    config = LinkConfig.model_validate({"stream": stream})
    assert moved(config, 1.0, most=32 * MiB).extra == {"sender": 0, "receiver": 0}
