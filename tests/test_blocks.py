"""The parts of blocks that bytes of a model consist of, and their hashes."""

from __future__ import annotations

import itertools

import pytest
import xxhash

from streamlink.blocks import BLOCK_BYTES, part_hashes
from tests.support.models import random_bytes

DATA = random_bytes(2 * BLOCK_BYTES + 5)


@pytest.mark.parametrize("cuts", [[], [1], [BLOCK_BYTES - 3, BLOCK_BYTES], [7, 7, len(DATA) - 1]])
@pytest.mark.parametrize(
    ("offset", "ends"),
    [
        (0, [BLOCK_BYTES, 2 * BLOCK_BYTES]),
        (3 * BLOCK_BYTES, [BLOCK_BYTES, 2 * BLOCK_BYTES]),
        (BLOCK_BYTES - 5, [5, BLOCK_BYTES + 5]),
        ((1 << 64) - 1, [1, BLOCK_BYTES + 1, 2 * BLOCK_BYTES + 1]),
    ],
)
def test_a_part_ends_where_a_block_does_however_the_bytes_are_cut(
    offset: int, ends: list[int], cuts: list[int]
) -> None:
    views = [memoryview(DATA)[a:b] for a, b in itertools.pairwise([0, *cuts, len(DATA)])]
    parts = [DATA[a:b] for a, b in itertools.pairwise(sorted({0, *ends, len(DATA)}))]
    assert part_hashes(offset, views) == b"".join(map(xxhash.xxh3_128_digest, parts))


@pytest.mark.parametrize("offset", [0, 7])
def test_no_bytes_have_no_parts(offset: int) -> None:
    assert part_hashes(offset, ()) == b""
    assert part_hashes(offset, (memoryview(b""),)) == b""


@pytest.mark.parametrize("at", [0, BLOCK_BYTES - 1, BLOCK_BYTES, len(DATA) - 1])
def test_each_byte_counts(at: int) -> None:
    changed = bytearray(DATA)
    changed[at] ^= 1
    assert part_hashes(0, (memoryview(changed),)) != part_hashes(0, (memoryview(DATA),))
