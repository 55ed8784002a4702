"""The memory beyond their windows that streams on long lines share."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from streamlink.transport.long_windows import LongWindows


class Stream:
    """Anything that can be referred to weakly."""


asked = st.tuples(st.integers(0, 3), st.integers(0, 100), st.booleans())


@given(st.lists(asked, max_size=30), st.integers(0, 150))
def test_all_have_no_more_than_there_is_and_keep_what_they_have(
    calls: list[tuple[int, int, bool]], most: int
) -> None:
    pool, streams, has = LongWindows(), [Stream() for _ in range(4)], [0] * 4
    for number, wanted, leaves in calls:
        if leaves:
            pool.leave(streams[number])
            has[number] = 0
            continue
        free = most - sum(has)
        now = pool.deal(streams[number], wanted, most)
        assert now == max(has[number], min(wanted, has[number] + free))
        has[number] = now
        assert pool.dealt_bytes == sum(has) <= most


def test_what_a_stream_had_that_is_gone_comes_back() -> None:
    pool, stream = LongWindows(), Stream()
    pool.deal(stream, 5, 10)
    del stream
    gc.collect()
    assert pool.dealt_bytes == 0
