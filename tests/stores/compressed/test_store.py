from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import CorruptStore, StoreError
from streamlink.model.digest import BLOCK_BYTES, HasBlockHashes, digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.stores.compressed import CompressedSource, CompressedStore
from streamlink.stores.compressed.format import HEAD
from tests.support.disk import flip, peak_of
from tests.support.models import (
    SourceContract,
    content,
    fill,
    float_spec,
    model_specs,
    pattern_model,
    random_bytes,
    save,
)

LARGE = float_spec(BLOCK_BYTES, BLOCK_BYTES)  # eight blocks


class TestCompressedSource(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> ModelSource:
        store = CompressedStore(tmp_path / "m.slz")
        save(store, pattern_model(self.spec))
        return store.open()


@given(spec=model_specs(), cuts=st.lists(st.integers(0, 300)), seed=st.none() | st.integers(0, 9))
def test_any_spec_and_pieces_round_trip(
    tmp_path_factory: pytest.TempPathFactory, spec: ModelSpec, cuts: list[int], seed: int | None
) -> None:
    data = random_bytes(spec.nbytes)
    store = CompressedStore(tmp_path_factory.getbasetemp() / "any.slz")
    sink = store.begin(spec)
    fill(sink, data, [cut for cut in cuts if cut < len(data)], seed)
    sink.commit()
    source = store.open()
    assert (source.spec, content(source, 13)) == (spec, data)
    source.close()


@pytest.mark.parametrize("min_saving", [0.125, 1.0])
def test_a_changed_byte_is_named(tmp_path: Path, min_saving: float) -> None:
    store = CompressedStore(tmp_path / "m.slz", min_saving=min_saving)
    save(store, pattern_model(LARGE))
    flip(tmp_path / "m.slz", len(HEAD) + 200)
    source = store.open()
    source.read(BLOCK_BYTES, LARGE.nbytes - BLOCK_BYTES)
    with pytest.raises(CorruptStore, match="not what was stored") as caught:
        source.read(7, 1)
    assert (caught.value.tensor, caught.value.offset) == ("t0", 0)


def test_a_frame_that_claims_another_size_is_refused(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    save(store, pattern_model(LARGE))
    flip(tmp_path / "m.slz", len(HEAD) + 6)  # inside the frame's content size
    with pytest.raises(CorruptStore, match="another number of bytes"):
        store.open().read(0, 1)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    save(store, pattern_model(LARGE))
    data = (tmp_path / "m.slz").read_bytes()
    (tmp_path / "m.slz").write_bytes(data[:-1])
    with pytest.raises(CorruptStore, match="cut short"):
        store.open()


def test_the_digest_comes_from_the_hashes(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    save(store, pattern_model(LARGE))
    flip(tmp_path / "m.slz", len(HEAD) + 1000)
    source = store.open()
    assert isinstance(source, HasBlockHashes)
    assert source.digest() == digest_of(pattern_model(LARGE))


def test_several_threads_read_the_same_bytes(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz", cache_blocks=2)
    data = save(store, pattern_model(LARGE))
    source = store.open()
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(content, source, 70_001) for _ in range(4)]
        assert all(read.result() == data for read in reads)


def test_a_closed_source_says_so(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    save(store, pattern_model(LARGE))
    source = store.open()
    source.close()
    with pytest.raises(StoreError, match="this source is closed"):
        source.read(0, 4)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        CompressedSource(tmp_path / "m.slz")


@pytest.mark.parametrize("min_saving", [0.125, 1.0])
def test_reading_and_writing_hold_a_few_blocks(tmp_path: Path, min_saving: float) -> None:
    store = CompressedStore(tmp_path / "m.slz", min_saving=min_saving)
    spec = float_spec(*[BLOCK_BYTES * 2] * 8)
    view = pattern_model(spec).read(0, BLOCK_BYTES)[0]
    sink = store.begin(spec)

    def write_and_read() -> None:
        for offset in range(0, spec.nbytes, BLOCK_BYTES):
            sink.write(offset, view)
        sink.commit()
        source = store.open()
        assert source.digest() == digest_of(source)

    assert peak_of(write_and_read) < 24 << 20
