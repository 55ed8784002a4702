from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from streamlink.errors import CorruptStore, StoreError, StoreFull
from streamlink.stores import files
from tests.support.disk import without_rights


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    return path


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told_as_such(path: Path, number: int) -> None:
    with (
        pytest.raises(StoreFull, match="file: no room while writing"),
        files.disk_errors(path, "writing"),
    ):
        raise OSError(number, os.strerror(number))


def test_other_failures_name_path_and_step(path: Path) -> None:
    with pytest.raises(StoreError, match="file: writing failed: Input/output error"):
        with files.disk_errors(path, "writing"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_our_own_errors_pass_unchanged(path: Path) -> None:
    error = CorruptStore("damaged", path="p")
    with pytest.raises(CorruptStore) as caught, files.disk_errors(path, "writing"):
        raise error
    assert caught.value is error


def test_short_writes_and_reads_are_gone_on_with(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, preadv, pread = os.pwrite, os.preadv, os.pread
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:3], at))
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:3]], at))
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 3), at))
    fd = os.open(path, os.O_RDWR)
    files.write_all(fd, memoryview(b"abcdefgh"), 1)
    assert files.read_bytes(fd, 10, 0, path) == b"0abcdefgh9"
    os.close(fd)


def test_reading_beyond_the_end_tells_what_is_missing(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(CorruptStore, match="the file ends 4 bytes too early"):
        files.read_into(fd, memoryview(bytearray(6)), 8, path)
    os.close(fd)


def test_replacing_makes_the_name_durable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    files.replace(path, path.with_name("final"))
    assert path.with_name("final").read_bytes() == b"0123456789"
    assert synced == [path.parent]


def test_a_second_writer_is_refused_until_the_first_is_gone(path: Path) -> None:
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    files.lock(first, path)
    with pytest.raises(StoreError, match="another writer"):
        files.lock(second, path)
    os.close(first)
    files.lock(second, path)
    os.close(second)


def test_missing_room_is_told_in_bytes(tmp_path: Path) -> None:
    files.require_free(tmp_path, 0, 0)
    with pytest.raises(StoreFull, match=r"needs 1152921504606.8 MB, but only [0-9.]+ MB are free"):
        files.require_free(tmp_path, 1 << 60, 0)


def test_removing_what_is_gone_is_harmless(path: Path) -> None:
    files.remove(path)
    files.remove(path)
    assert not path.exists()


def test_a_flusher_starts_writeback_and_syncs_now_and_then(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *args: calls.append(args))
    monkeypatch.setattr(os, "fdatasync", lambda fd: calls.append(("sync", fd)))
    flusher = files.Flusher(7, path.parent, 0)
    for number in range(64):
        flusher.wrote(number << 23, 8 << 20)
    assert calls[0] == (7, 0, 32 << 20, os.POSIX_FADV_DONTNEED)
    assert calls[1] == (7, 32 << 20, 32 << 20, os.POSIX_FADV_DONTNEED)
    assert [index for index, call in enumerate(calls) if call[0] == "sync"] == [7, 15]


def test_a_flusher_stops_at_the_reserve(path: Path) -> None:
    flusher = files.Flusher(7, path.parent, 1 << 60)
    flusher.wrote(0, 1 << 20)
    with pytest.raises(StoreFull, match=r"that must stay free .reserve_bytes."):
        flusher.wrote(1 << 20, 32 << 20)


def test_steps_are_counted() -> None:
    told: list[int] = []
    steps = files.Steps(told.append)
    steps.done()
    steps.done()
    files.Steps(None).done()
    assert told == [1, 2]


def test_the_file_that_was_refused_is_named_beside_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused, files.disk_errors(tmp_path, "writing"):
        os.unlink(tmp_path / "missing")
    assert str(refused.value) == (
        f"{tmp_path}: writing failed: No such file or directory: {tmp_path / 'missing'}"
    )
    file = tmp_path / "file"
    file.touch()
    with (
        pytest.raises(StoreError, match=r"file: writing failed: Not a directory$"),
        files.disk_errors(file, "writing"),
    ):
        os.listdir(file)


def test_missing_rights_are_told_with_the_file_and_the_user() -> None:
    with without_rights() as place:
        with pytest.raises(StoreError) as refused, files.disk_errors(place, "writing"):
            os.open(place / "shard", os.O_CREAT | os.O_WRONLY)
        user = os.geteuid()
    assert f"Permission denied: {place / 'shard'}; let this process (user {user})" in str(
        refused.value
    )
