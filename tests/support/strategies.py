"""Hypothesis strategies: schedules for the virtual link, settings, frames good and bad."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from streamlink.config import LinkConfig
from streamlink.extent import Extent
from tests.support.machines import KiB, small_config
from tests.support.virtual_line import Fault, Kind
from tests.support.virtual_link import Pause, Schedule

seconds = st.floats(0.0, 5.0, allow_nan=False).map(lambda value: round(value, 3))
totals = st.integers(0, 48 * KiB) | st.sampled_from([0, 1, KiB, 4 * KiB, 8 * KiB, 16 * KiB])


@st.composite
def configs(draw: st.DrawFn, reconnect_timeout: float = 600.0) -> LinkConfig:
    """Small windows and chunks, down to a window of one chunk; deadlines no schedule reaches."""
    chunk = draw(st.sampled_from([4 * KiB, 5000, 8 * KiB]))
    return small_config(
        chunk_bytes=chunk,
        min_chunk_bytes=draw(st.sampled_from([KiB, 1500, 4 * KiB])),
        window_bytes=max(8 * KiB, chunk * draw(st.integers(1, 4))),
        initial_window_bytes=draw(st.sampled_from([4 * KiB, 16 * KiB])),
        max_repairs=draw(st.integers(0, 4)),
        reconnect_timeout=reconnect_timeout,
    )


class Part(NamedTuple):
    """An extent of a model of ``total`` bytes; the receiver may have its beginning from before."""

    total: int
    extent: Extent
    resumed_at: int | None


@st.composite
def parts(draw: st.DrawFn) -> Part:
    """Any extent of a small model, the empty one and the whole included."""
    total = draw(totals)
    start, stop = sorted(draw(st.tuples(st.integers(0, total), st.integers(0, total))))
    return Part(total, Extent(start, stop), draw(st.none() | st.integers(start, stop)))


pauses = st.builds(
    Pause, side=st.sampled_from(["sender", "receiver"]), at=seconds, seconds=st.floats(0.1, 500.0)
)

schedules = st.builds(
    Schedule,
    latency=seconds,
    damaged=st.frozensets(st.integers(0, 60), max_size=20),
    garbage=st.integers(0, (1 << 64) - 1),
    cuts=st.frozensets(st.integers(1, 120), max_size=6),
    away_seconds=seconds,
    is_noticed_late=st.booleans(),
    write_seconds=seconds,
    read_seconds=seconds,
    commit_seconds=seconds,
    commit_steps=st.integers(1, 4),
    pauses=st.lists(pauses, max_size=2).map(tuple),
)


def faults(*sides: str) -> st.SearchStrategy[tuple[Fault, ...]]:
    """Up to five things that go wrong on a line between two ends, for up to 90 s each."""
    fault = st.builds(
        Fault,
        kind=st.sampled_from(list(Kind)),
        at=st.floats(0.0, 60.0).map(lambda value: round(value, 2)),
        seconds=st.floats(0.1, 90.0).map(lambda value: round(value, 2)),
        side=st.sampled_from(["", *sides]),
    )
    return st.lists(fault, max_size=5).map(tuple)


scripts = st.builds(
    Schedule,
    latency=st.floats(0.0, 0.3),
    jitter=st.lists(st.floats(0.0, 0.2), max_size=4).map(tuple),
    up_rate=st.sampled_from([0.0, 2_000.0, 20_000.0]),
    down_rate=st.sampled_from([0.0, 300.0, 20_000.0]),
    faults=faults("sender", "receiver"),
    damaged=st.frozensets(st.integers(0, 40), max_size=8),
    damaged_control=st.frozensets(st.integers(0, 40), max_size=4),
    garbage=st.integers(0, (1 << 64) - 1),
    away_seconds=st.floats(0.05, 2.0),
    read_seconds=st.floats(0.0, 2.0),
    commit_seconds=st.floats(0.0, 5.0),
    commit_steps=st.integers(1, 4),
    pauses=st.lists(pauses, max_size=2).map(tuple),
)
"""Lines that are narrow and uneven, and break in every way a relay can break them."""
