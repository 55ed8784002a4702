"""Chunks that travel encoded: offsets and credit count the model's bytes, rates the line's."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamlink.config import LinkConfig, StreamConfig
from streamlink.config.values import KiB, MiB
from tests.support.virtual_link import Schedule, VirtualLink

CONFIG = LinkConfig(stream=StreamConfig(chunk_bytes=64 * KiB, window_bytes=1 * MiB))
SMALL = StreamConfig(
    chunk_bytes=4 * KiB,
    min_chunk_bytes=1 * KiB,
    window_bytes=16 * KiB,
    initial_window_bytes=8 * KiB,
    max_repairs=6,  # as many as the property below damages: they may all be of one chunk
)
SHRINKS, RATE = 4, 1_000_000


def moved(nbytes: int, shrinks: int, latency: float = 0.05) -> VirtualLink:
    schedule = Schedule(latency=latency, up_rate=RATE)
    link = VirtualLink(bytes(nbytes), CONFIG, schedule, shrinks=shrinks)
    link.run()
    assert len(link.got) == nbytes
    return link


def test_a_slow_line_carries_an_encoded_model_in_the_time_of_what_travels() -> None:
    plain, encoded = moved(4 * MiB, 1), moved(4 * MiB, SHRINKS)
    assert encoded.now < plain.now / SHRINKS * 1.3  # its beginning is slow, as that of the other is


def test_both_ends_count_what_travelled_and_measure_the_line_by_it() -> None:
    link = moved(4 * MiB, SHRINKS)
    for end in (link.sender, link.receiver):
        assert end.stats.moved_bytes == 4 * MiB
        assert end.stats.wire_bytes == 1 * MiB
        assert end.stats.mean_rate == pytest.approx(RATE, rel=0.25)
    assert link.sender.stats.rate == pytest.approx(RATE, rel=0.1)


def test_plain_chunks_save_nothing() -> None:
    for end in (link := moved(1 * MiB, 1)).sender, link.receiver:
        assert (end.stats.saved_bytes, end.stats.wire_bytes) == (0, 1 * MiB)


@given(
    shrinks=st.integers(2, 9),
    cuts=st.frozensets(st.integers(3, 200), max_size=4),
    damaged=st.frozensets(st.integers(0, 60), max_size=6),
    nbytes=st.integers(1, 150 * KiB),
)
@example(shrinks=2, cuts=frozenset(), damaged=frozenset(range(6)), nbytes=1)
def test_cuts_and_damage_cost_an_encoded_model_nothing(
    shrinks: int, cuts: frozenset[int], damaged: frozenset[int], nbytes: int
) -> None:
    schedule = Schedule(cuts=cuts, damaged=damaged, up_rate=500_000)
    link = VirtualLink(bytes(nbytes), LinkConfig(stream=SMALL), schedule, shrinks=shrinks)
    link.run()
    assert (link.sender.error, link.receiver.error) == (None, None)
    assert len(link.got) == nbytes
    sent, received = link.sender.stats, link.receiver.stats
    assert sent.wire_bytes == received.wire_bytes <= nbytes


@given(
    lost_at=st.integers(0, 150 * KiB),
    cuts=st.frozensets(st.integers(3, 200), max_size=4),
    damaged=st.frozensets(st.integers(0, 60), max_size=6),
    nbytes=st.integers(1, 150 * KiB),
    read_seconds=st.sampled_from([0.0, 0.02]),
)
def test_a_base_that_cannot_be_read_any_more_costs_what_came_behind_that_byte(
    lost_at: int, cuts: frozenset[int], damaged: frozenset[int], nbytes: int, read_seconds: float
) -> None:
    schedule = Schedule(cuts=cuts, damaged=damaged, up_rate=500_000, read_seconds=read_seconds)
    content = random.Random(nbytes).randbytes(nbytes)
    config = LinkConfig(stream=SMALL)
    link = VirtualLink(content, config, schedule, shrinks=3, base_lost_at=lost_at)
    link.run()
    assert (link.sender.error, link.receiver.error) == (None, None)
    assert bytes(link.got) == content
    if nbytes > lost_at + SMALL.chunk_bytes:
        assert link.sender.base == ""
