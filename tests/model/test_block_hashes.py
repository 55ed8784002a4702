from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from streamlink.model.block_hashes import BlockHashTracker, block_range
from streamlink.model.digest import BLOCK_BYTES, BLOCK_HASH_BYTES, block_hash_of
from tests.support.models import random_bytes

NBYTES = 3 * BLOCK_BYTES + 777
DATA = random_bytes(NBYTES)
PLACES = st.sampled_from(
    [
        *(0, 1, 777, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 5, 2 * BLOCK_BYTES),
        *(3 * BLOCK_BYTES, 3 * BLOCK_BYTES + 700, NBYTES),
    ]
)


def hashes_of(data: bytes) -> list[bytes]:
    return [block_hash_of(data[at : at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES)]


def take(tracker: BlockHashTracker, start: int, stop: int) -> None:
    tracker.take(start, memoryview(DATA)[start:stop])


def test_what_comes_in_order_leaves_nothing_unknown() -> None:
    tracker = BlockHashTracker(NBYTES)
    for start in range(0, NBYTES, 70_000):
        take(tracker, start, min(NBYTES, start + 70_000))
    assert list(tracker.unknown()) == []
    assert tracker.hashes == b"".join(hashes_of(DATA))


def test_whole_blocks_may_come_in_any_order() -> None:
    tracker = BlockHashTracker(NBYTES)
    for block in random.Random(1).sample(range(4), 4):
        take(tracker, *block_range(block, NBYTES))
    assert list(tracker.unknown()) == []
    assert tracker.hashes == b"".join(hashes_of(DATA))


@given(st.lists(st.tuples(PLACES, PLACES), max_size=12))
def test_a_known_block_hash_is_that_of_the_last_bytes(writes: list[tuple[int, int]]) -> None:
    """Every write brings other bytes, so a hash kept by mistake is wrong."""
    tracker, content = BlockHashTracker(NBYTES), bytearray(NBYTES)
    for number, (one, other) in enumerate(writes):
        start, stop = sorted((one, other))
        content[start:stop] = bytes([number + 1]) * (stop - start)
        tracker.take(start, memoryview(content)[start:stop])
    unknown = set(tracker.unknown())
    for block, block_hash in enumerate(hashes_of(bytes(content))):
        if block not in unknown:
            assert (
                tracker.hashes[block * BLOCK_HASH_BYTES : (block + 1) * BLOCK_HASH_BYTES]
                == block_hash
            )


def test_a_block_that_was_told_is_known() -> None:
    tracker = BlockHashTracker(10)
    tracker.take(2, memoryview(b"xx"))
    assert list(tracker.unknown()) == [0]
    tracker.set(0, b"l" * BLOCK_HASH_BYTES)
    assert list(tracker.unknown()) == []
    assert tracker.hashes == b"l" * BLOCK_HASH_BYTES
