"""What an interrupted transfer leaves: found again, verified, never taken for a model."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import CorruptStore, StoreError, StoreFull
from streamlink.model.digest import BLOCK_BYTES, BLOCK_HASH_BYTES, block_hash_of
from streamlink.model.interfaces import Preparing, ResumableSink, ResumableStore
from streamlink.model.spec import ModelSpec
from streamlink.stores import CompressedStore, MemoryStore, SafetensorsStore, open_model
from streamlink.stores.safetensors.index import INDEX_NAME, ShardIndex
from streamlink.stores.safetensors.journal import Journal, find_partials, partial_name
from tests.support.disk import flip, names_in, with_rights, without_rights
from tests.support.models import content, float_spec, pattern_model, save
from tests.support.resumable_contract import ResumableContract

MiB = 1 << 20
SPEC = float_spec(5, 3 * MiB // 4, 0, 3 * MiB // 2, 3)
"""9 MiB and a little, in shards of 2 MiB, one tensor larger than a shard."""
DATA = content(pattern_model(SPEC))


def a_store(path: Path) -> SafetensorsStore:
    return SafetensorsStore(path, shard_bytes=2 * MiB)


def write(sink: ResumableSink, start: int, stop: int, piece: int = 300_000) -> None:
    for at in range(start, stop, piece):
        sink.write(at, memoryview(DATA)[at : min(at + piece, stop)])


def interrupted(path: Path, stop: int = 5 * MiB + 7, identity: str = "one") -> int:
    """Leave a transfer that came to ``stop``; return its mark."""
    sink = a_store(path).begin(SPEC, identity)
    write(sink, 0, stop)
    sink.suspend()
    return sink.durable


def again(path: Path, identity: str = "one", spec: ModelSpec = SPEC) -> ResumableSink | None:
    return a_store(path).resume(spec.digest, identity)


class TestSafetensorsStoreThatResumes(ResumableContract):
    @pytest.fixture
    def stores(self, tmp_path: Path) -> Callable[[], ResumableStore]:
        return lambda: a_store(tmp_path)


def test_a_safetensors_store_is_resumable_and_the_others_are_not(tmp_path: Path) -> None:
    assert isinstance(a_store(tmp_path), ResumableStore)
    assert not isinstance(CompressedStore(tmp_path / "x.slz"), ResumableStore)
    assert not isinstance(MemoryStore(), ResumableStore)


@pytest.mark.parametrize("stop", [0, 1, MiB - 1, MiB, 2 * MiB + 5, SPEC.nbytes - 1, SPEC.nbytes])
def test_it_goes_on_at_the_last_whole_block(tmp_path: Path, stop: int) -> None:
    mark = interrupted(tmp_path, stop)
    assert mark == (stop if stop == SPEC.nbytes else stop - stop % BLOCK_BYTES)
    sink = again(tmp_path)
    assert sink is not None
    assert sink.durable == mark
    assert b"".join(map(bytes, sink.saved())) == DATA[:mark]
    write(sink, mark, SPEC.nbytes)
    sink.commit()
    source = a_store(tmp_path).open()
    assert content(source) == DATA
    assert names_in(tmp_path) == {INDEX_NAME, *ShardIndex.read(tmp_path).files}


def test_marks_come_early_and_then_at_every_step(tmp_path: Path) -> None:
    sink, marks = a_store(tmp_path).begin(SPEC, "one"), []
    for at in range(0, SPEC.nbytes, MiB):
        write(sink, at, min(SPEC.nbytes, at + MiB))
        marks.append(sink.durable // MiB)
    assert marks == [1, 2, 2, 4, 4, 4, 4, 8, 8, 8]


def test_every_byte_is_on_the_disk_before_the_journal_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, order = a_store(tmp_path).begin(SPEC, "one"), []
    original = os.fdatasync

    def noted(fd: int) -> None:
        order.append(Path(os.readlink(f"/proc/self/fd/{fd}")).suffix)
        original(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    write(sink, 0, MiB)
    assert order == [".part", ".part", ".partial"]  # the first block lies in two shards


def test_what_comes_out_of_order_is_not_durable(tmp_path: Path) -> None:
    sink = a_store(tmp_path).begin(SPEC, "one")
    write(sink, 2 * MiB, 6 * MiB)
    assert sink.durable == 0
    write(sink, 0, 2 * MiB)
    assert sink.durable == 2 * MiB


def test_a_partial_is_no_model_and_does_not_touch_the_one_that_is_there(tmp_path: Path) -> None:
    interrupted(tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))
    with pytest.raises(StoreError, match="no safetensors model here"):
        open_model(tmp_path)
    for part in tmp_path.glob("*.part"):
        with pytest.raises(CorruptStore):
            open_model(part)
    old = save(a_store(tmp_path), pattern_model(float_spec(9), seed=3))
    interrupted(tmp_path)
    assert content(a_store(tmp_path).open()) == old


@pytest.mark.parametrize(("identity", "spec"), [("two", SPEC), ("one", float_spec(4)), ("", SPEC)])
def test_another_transfer_does_not_go_on_with_it(
    tmp_path: Path, identity: str, spec: ModelSpec
) -> None:
    interrupted(tmp_path)
    assert again(tmp_path, identity, spec) is None
    assert again(tmp_path / "nowhere") is None


def test_the_next_attempt_removes_it_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = interrupted(tmp_path)
    with caplog.at_level(logging.INFO):
        a_store(tmp_path).begin(SPEC, "two").discard()
    assert (
        f"removing the partial model of another transfer, {mark} of {SPEC.nbytes} bytes"
        in caplog.text
    )
    assert names_in(tmp_path) == set()


def test_an_attempt_without_identity_is_not_kept(tmp_path: Path) -> None:
    interrupted(tmp_path, identity="")
    assert names_in(tmp_path) == set()


def test_a_changed_byte_is_found_by_reading_back(tmp_path: Path) -> None:
    interrupted(tmp_path)
    shard = sorted(tmp_path.glob("*.part"))[1]
    flip(shard, shard.stat().st_size // 2)
    sink = again(tmp_path)
    assert sink is not None
    with pytest.raises(CorruptStore, match="not what was stored"):
        list(sink.saved())


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_journal_that_ends_badly_counts_up_to_its_last_whole_record(
    tmp_path: Path, is_cut: bool
) -> None:
    interrupted(tmp_path)
    (journal,) = tmp_path.glob("*.partial")
    if is_cut:
        journal.write_bytes(journal.read_bytes()[:-1])
    else:
        flip(journal, journal.stat().st_size - 20)
    sink = again(tmp_path)
    assert sink is not None
    assert sink.durable == 4 * MiB
    write(sink, 4 * MiB, SPEC.nbytes)
    sink.suspend()
    (partial,) = find_partials(tmp_path)
    assert partial.mark == SPEC.nbytes


@pytest.mark.parametrize("offset", [0, 9, 30, 150])
def test_a_journal_with_a_damaged_head_is_none(
    tmp_path: Path, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    interrupted(tmp_path)
    (journal,) = tmp_path.glob("*.partial")
    flip(journal, offset)
    with caplog.at_level(logging.INFO):
        assert again(tmp_path) is None
    assert "cannot be resumed" in caplog.text


def test_a_missing_file_lets_it_begin_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interrupted(tmp_path)
    next(tmp_path.glob("*.part")).unlink()
    assert again(tmp_path) is None
    assert "is missing" in caplog.text
    assert names_in(tmp_path) == set()


@pytest.mark.parametrize("count", range(1, 5))
def test_a_commit_that_was_interrupted_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    sink, left = a_store(tmp_path).begin(SPEC, "one"), [count]
    original = os.replace

    def failing(*args: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(*args)

    write(sink, 0, SPEC.nbytes)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(StoreFull):
            sink.commit()
    sink.suspend()
    following = again(tmp_path)
    assert following is not None
    assert following.durable == SPEC.nbytes
    following.commit()
    assert content(a_store(tmp_path).open()) == DATA


def test_a_journal_that_outlived_its_commit_is_not_gone_on_with(tmp_path: Path) -> None:
    interrupted(tmp_path, SPEC.nbytes)
    (journal,) = tmp_path.glob("*.partial")
    text = journal.read_bytes()
    sink = again(tmp_path)
    assert sink is not None
    sink.commit()
    journal.write_bytes(text)
    assert again(tmp_path) is None
    assert content(a_store(tmp_path).open()) == DATA


def test_a_full_disk_keeps_what_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = a_store(tmp_path).begin(SPEC, "one")
    write(sink, 0, 3 * MiB)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StoreFull, match="no room while writing"):
            write(sink, 3 * MiB, 4 * MiB)
        sink.suspend()
    following = again(tmp_path)
    assert following is not None
    assert following.durable == 2 * MiB


def test_only_the_rest_has_to_fit_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = interrupted(tmp_path)
    real = os.statvfs(tmp_path)
    free = (SPEC.nbytes - mark) // real.f_frsize + 1
    fields = [*real[:4], free, *real[5:10]]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    sink = again(tmp_path)
    assert sink is not None
    sink.suspend()
    with pytest.raises(StoreFull, match="needs"):
        a_store(tmp_path).begin(SPEC, "two")


def test_only_one_writer_goes_on(tmp_path: Path) -> None:
    sink = a_store(tmp_path).begin(SPEC, "one")
    write(sink, 0, MiB)
    with pytest.raises(StoreError, match="another writer uses this store"):
        again(tmp_path)
    assert sink.durable == MiB


@given(marks=st.lists(st.integers(1, 40), unique=True).map(sorted), cut=st.integers(0, 3000))
def test_any_beginning_of_a_journal_tells_a_mark_that_was_made(
    tmp_path_factory: pytest.TempPathFactory, marks: list[int], cut: int
) -> None:
    spec = float_spec(40 * MiB // 4)
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal.create(folder, "01234567", "one", spec, 1)
    head = (folder / partial_name("01234567")).stat().st_size
    before, ends = 0, {head: 0}
    for mark in marks:
        journal.advance(mark * MiB, block_hash_of(b"x") * (mark - before))
        before = mark
        ends[(folder / partial_name("01234567")).stat().st_size] = mark
    journal.close()
    path = folder / partial_name("01234567")
    path.write_bytes(path.read_bytes()[: head + cut])
    (partial,) = find_partials(folder)
    length = max(end for end in ends if end <= head + cut)
    assert (partial.mark, partial.length) == (ends[length] * MiB, length)
    assert len(partial.hashes) == ends[length] * BLOCK_HASH_BYTES


def test_a_directory_in_place_of_a_journal_is_named(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    wrong = tmp_path / "model-01234567.partial"
    wrong.mkdir()
    said = f"{wrong}: this is a directory, and the journal of a transfer should be here"
    for identity in ("", "name"):
        with pytest.raises(StoreError, match=said):
            store.begin(SPEC, identity)
    with pytest.raises(StoreError, match=said):
        store.resume(SPEC.digest, "name")


def test_a_journal_that_may_not_be_read_is_named() -> None:
    with without_rights() as place:
        with with_rights():
            (place / "model-01234567.partial").touch(0)
        with pytest.raises(StoreError, match=r"model-01234567\.partial: .*Permission denied; let"):
            SafetensorsStore(place).resume(SPEC.digest, "name")


def test_a_prepared_model_can_be_suspended_and_committed_by_another(tmp_path: Path) -> None:
    sink = a_store(tmp_path).begin(SPEC, "one")
    write(sink, 0, SPEC.nbytes)
    assert isinstance(sink, Preparing)
    sink.prepare()
    sink.suspend()
    following = again(tmp_path)
    assert following is not None
    assert following.durable == SPEC.nbytes
    assert b"".join(map(bytes, following.saved())) == DATA
    following.commit()
    assert content(a_store(tmp_path).open()) == DATA


def test_discarding_a_prepared_model_leaves_no_file_of_it(tmp_path: Path) -> None:
    sink = a_store(tmp_path).begin(SPEC, "one")
    write(sink, 0, SPEC.nbytes)
    assert isinstance(sink, Preparing)
    sink.prepare()
    sink.discard()
    assert not tmp_path.exists() or list(tmp_path.iterdir()) == []
