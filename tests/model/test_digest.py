from __future__ import annotations

import hashlib
import itertools

import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from streamlink.blocks import part_hashes
from streamlink.errors import ModelError
from streamlink.extent import Extent
from streamlink.model.digest import (
    BLOCK_BYTES,
    DigestBuilder,
    block_count,
    block_hash_of,
    digest_of,
    root_hash,
)
from streamlink.model.spec import ModelSpec, TensorSpec
from tests.support.models import float_spec, pattern_model, random_bytes


def spec_of_bytes(length: int) -> ModelSpec:
    return ModelSpec((TensorSpec("w", "U8", (length,)),))


DATA = random_bytes(2 * BLOCK_BYTES + 12345)
SPEC = spec_of_bytes(len(DATA))


def digest_in_pieces(cuts: list[int]) -> str:
    builder, edges = DigestBuilder(SPEC), sorted({0, len(DATA), *cuts})
    for start, stop in itertools.pairwise(edges):
        builder.update(memoryview(DATA)[start:stop])
    return builder.hexdigest()


def test_the_root_is_what_its_definition_says() -> None:
    hashes = [
        xxhash.xxh3_128(DATA[start : start + BLOCK_BYTES]).digest()
        for start in range(0, len(DATA), BLOCK_BYTES)
    ]
    head = b"streamlink model digest 1\0" + SPEC.digest + len(DATA).to_bytes(8, "little")
    assert digest_in_pieces([]) == hashlib.sha256(head + b"".join(hashes)).hexdigest()


@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=8))
def test_pieces_of_any_size_give_the_same_root(cuts: list[int]) -> None:
    assert digest_in_pieces(cuts) == digest_in_pieces([])


@pytest.mark.parametrize("length", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
def test_hashes_are_told_in_order_and_give_the_root(length: int) -> None:
    told: list[tuple[int, bytes]] = []
    spec = spec_of_bytes(length)
    builder = DigestBuilder(
        spec, on_block_hash=lambda block, block_hash: told.append((block, block_hash))
    )
    builder.update(memoryview(DATA)[:length])
    assert [block for block, _ in told] == list(range(block_count(length)))
    assert root_hash(spec, [block_hash for _, block_hash in told]) == builder.hexdigest()


@given(start=st.integers(0, len(DATA)), cuts=st.lists(st.integers(0, len(DATA)), max_size=4))
@example(start=BLOCK_BYTES, cuts=[])
@example(start=len(DATA), cuts=[])
def test_the_digest_of_a_tail_does_not_depend_on_its_pieces(start: int, cuts: list[int]) -> None:
    builder = DigestBuilder(SPEC, extent=Extent(start, SPEC.nbytes))
    assert builder.offset == start
    edges = sorted({start, len(DATA), *(cut for cut in cuts if cut > start)})
    for first, stop in itertools.pairwise(edges):
        builder.update(memoryview(DATA)[first:stop])
    blocks = [start, *range(start - start % BLOCK_BYTES + BLOCK_BYTES, len(DATA), BLOCK_BYTES)]
    hashes = [
        block_hash_of(DATA[a:b]) for a, b in itertools.pairwise([*blocks, len(DATA)]) if a < b
    ]
    head = b"streamlink model digest 1\0" + SPEC.digest + len(DATA).to_bytes(8, "little")
    mark = start.to_bytes(8, "little") if start else b""
    assert builder.hexdigest() == hashlib.sha256(head + mark + b"".join(hashes)).hexdigest()


@given(
    edges=st.lists(st.integers(0, len(DATA)), min_size=2, max_size=2).map(sorted),
    cuts=st.lists(st.integers(0, len(DATA)), max_size=4),
)
@example(edges=[BLOCK_BYTES, 2 * BLOCK_BYTES], cuts=[])
@example(edges=[7, 7], cuts=[])
@example(edges=[0, 5], cuts=[])
def test_the_digest_of_an_extent_does_not_depend_on_its_pieces(
    edges: list[int], cuts: list[int]
) -> None:
    extent = Extent(*edges)
    builder = DigestBuilder(SPEC, extent=extent)
    inside = [cut for cut in cuts if extent.start < cut < extent.stop]
    for first, stop in itertools.pairwise(sorted({*edges, *inside})):
        builder.update(memoryview(DATA)[first:stop])
    whole = DigestBuilder(SPEC, extent=extent)
    whole.update(memoryview(DATA)[extent.start : extent.stop])
    assert builder.digest() == whole.digest()
    with pytest.raises(ModelError, match="reach beyond"):
        builder.update(memoryview(b"x"))


@given(
    edges=st.lists(st.integers(0, len(DATA)), min_size=2, max_size=2).map(sorted),
    cuts=st.lists(st.integers(0, len(DATA)), max_size=4),
)
@example(edges=[0, len(DATA)], cuts=[BLOCK_BYTES])
@example(edges=[7, 2 * BLOCK_BYTES + 1], cuts=[BLOCK_BYTES, 2 * BLOCK_BYTES])
@example(edges=[7, len(DATA)], cuts=[BLOCK_BYTES - 1, BLOCK_BYTES])
def test_two_ends_that_hash_each_whole_block_once_have_the_same_digest(
    edges: list[int], cuts: list[int]
) -> None:
    extent = Extent(*edges)
    plain, sender, receiver = (DigestBuilder(SPEC, extent=extent) for _ in range(3))
    inside = [cut for cut in cuts if extent.start < cut < extent.stop]
    for start, stop in itertools.pairwise(sorted({*edges, *inside})):
        view = memoryview(DATA)[start:stop]
        plain.update(view)
        sent = sender.update_all((view[:3], view[3:]))
        is_whole = not ({start, stop} - {*edges, 0, BLOCK_BYTES, 2 * BLOCK_BYTES})
        assert sent == (part_hashes(start, (view,)) if is_whole else b"")
        assert receiver.update_hashed(len(view), part_hashes(start, (view,))) == is_whole
        if not is_whole:
            receiver.update(view)
    assert plain.digest() == sender.digest() == receiver.digest()


def test_hashes_of_bytes_beyond_the_extent_are_not_taken() -> None:
    builder = DigestBuilder(SPEC, extent=Extent(0, 8))
    assert not builder.update_hashed(9, bytes(16))
    assert not builder.update_hashed(8, b"")
    assert builder.offset == 0


def test_the_same_bytes_in_another_extent_have_another_digest() -> None:
    def digest(start: int, stop: int) -> bytes:
        builder = DigestBuilder(SPEC, extent=Extent(start, stop))
        builder.update(memoryview(bytes(stop - start)))
        return builder.digest()

    end = SPEC.nbytes
    extents = [(0, 8), (8, 16), (8, 15), (0, 0), (16, 16), (end - 8, end), (end - 16, end - 8)]
    assert len({digest(*each) for each in extents}) == len(extents)


def test_the_digest_of_an_extent_over_all_is_the_models() -> None:
    builder = DigestBuilder(SPEC, extent=Extent(0, SPEC.nbytes))
    builder.update(memoryview(DATA))
    assert builder.hexdigest() == digest_in_pieces([])


def test_an_extent_outside_of_the_model_has_no_digest() -> None:
    with pytest.raises(ValueError, match="not inside a model"):
        DigestBuilder(SPEC, extent=Extent(0, SPEC.nbytes + 1))


def test_joined_hashes_give_the_same_root() -> None:
    hashes = [block_hash_of(DATA[at : at + BLOCK_BYTES]) for at in range(0, len(DATA), BLOCK_BYTES)]
    assert root_hash(SPEC, [b"".join(hashes)]) == root_hash(SPEC, hashes)
    with pytest.raises(ModelError, match="2 block hashes for a model of 3 blocks"):
        root_hash(SPEC, hashes[:2])


def test_equal_bytes_under_another_spec_have_another_root() -> None:
    assert digest_of(pattern_model(float_spec(4))) != digest_of(pattern_model(float_spec(3, 1)))


@pytest.mark.parametrize("piece", [1, 1000, 1 << 30])
def test_a_source_is_read_in_any_pieces(piece: int) -> None:
    told: list[int] = []
    source = pattern_model(float_spec(300, 0, 57))
    assert digest_of(source, piece, told.append) == digest_of(source)
    assert told[-1] == source.spec.nbytes


def test_too_few_and_too_many_bytes_are_refused() -> None:
    builder = DigestBuilder(spec_of_bytes(3))
    builder.update(memoryview(b"ab"))
    assert builder.offset == 2
    with pytest.raises(ModelError, match="requested after only 2 of them"):
        builder.digest()
    with pytest.raises(ModelError, match=r"reach beyond \[0, 3\), the part"):
        builder.update(memoryview(b"cd"))
