"""Versions of models on a disk: what is kept, proven, dropped, and never believed."""

from __future__ import annotations

import errno
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamlink.errors import StoreError
from streamlink.stores.versions import Versions

SPEC = bytes(range(32))
SIZE = 3_000_000


def content(number: int, size: int = SIZE) -> bytes:
    return bytes([number]) * size


def keep(versions: Versions, number: int, *, owner: str = "job", size: int = SIZE) -> None:
    writer = versions.begin(owner, SPEC, size)
    assert writer is not None
    for start in range(0, size, 700_000):
        writer.add(memoryview(content(number, size))[start : start + 700_000])
    writer.commit(f"digest {number}")


def opened(
    shared: Path, most: int = 2, most_bytes: int = 1 << 30, *, name: str = "site-1"
) -> Versions:
    return Versions(shared, "kept-client", name, most=most, most_bytes=most_bytes)


def files(shared: Path, name: str = "site-1") -> list[str]:
    return sorted(each.name for each in shared.glob(f"kept-client-{name}/*"))


def test_the_newest_are_kept_and_can_be_read_anywhere(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        for number in (1, 2, 3):
            keep(versions, number)
        assert versions.digests("job", SPEC) == ("digest 3", "digest 2")
        assert len(files(tmp_path)) == 2
        version = versions.get("job", "digest 2", SPEC)
        assert version is not None
        assert b"".join(version.read(SIZE - 10, 10)) == content(2, 10)
        assert versions.get("job", "digest 1", SPEC) is None


def test_versions_of_another_job_or_of_other_tensors_are_never_named(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
        assert versions.digests("another job", SPEC) == ()
        assert versions.digests("job", bytes(32)) == ()
        assert versions.get("another job", "digest 1", SPEC) is None
        assert versions.get("job", "digest 1", bytes(32)) is None


def test_the_same_once_more_takes_no_place_of_another(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        for number in (1, 2, 2):
            keep(versions, number)
        assert versions.digests("job", SPEC) == ("digest 2", "digest 1")
        assert len(files(tmp_path)) == 2


def test_another_process_finds_them_and_counts_on(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
        keep(versions, 2)
    with opened(tmp_path) as versions:
        assert versions.digests("job", SPEC) == ("digest 2", "digest 1")
        keep(versions, 3)
        assert versions.digests("job", SPEC) == ("digest 3", "digest 2")


def test_one_process_at_a_time_has_the_directory(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreError, match="another writer"):
        opened(tmp_path)
    opened(tmp_path).close()


@pytest.mark.parametrize("at", [0, 10, 4095, 4096, 4096 + SIZE - 1])
def test_a_flipped_byte_is_found_by_the_next_process(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
        keep(versions, 2)
    path = sorted(tmp_path.glob("*/*"))[1]
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with opened(tmp_path) as versions:
        assert versions.digests("job", SPEC) == ("digest 1",)
        assert "is dropped" in caplog.text


@pytest.mark.parametrize("size", [0, 100, 4096, 4096 + SIZE - 1])
def test_a_file_that_was_cut_is_dropped(tmp_path: Path, size: int) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
    (path,) = tmp_path.glob("*/*")
    os.truncate(path, size)
    with opened(tmp_path) as versions:
        assert versions.digests("job", SPEC) == ()
    assert files(tmp_path) == []


@pytest.mark.parametrize("suffix", [".version", ".partial"])
@pytest.mark.parametrize("kind", ["symlink", "directory", "pipe"])
def test_what_is_no_file_costs_itself_alone(
    tmp_path: Path, kind: str, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
    folder = tmp_path / "kept-client-site-1"
    path = (folder / "000000000007").with_suffix(suffix)
    make: dict[str, Callable[[], None]] = {
        "symlink": lambda: path.symlink_to(folder / "000000000001.version"),
        "directory": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }
    make[kind]()
    with opened(tmp_path) as versions:
        assert versions.digests("job", SPEC) == ("digest 1",)
        keep(versions, 2)
        assert versions.digests("job", SPEC) == ("digest 2", "digest 1")
    assert ("is dropped" in caplog.text) is (suffix == ".version")
    assert ("cannot be removed" in caplog.text) is (kind == "directory")


@pytest.mark.parametrize("call", ["open", "pread"])
def test_a_file_that_cannot_be_read_costs_itself_alone(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
        keep(versions, 2)
    bad = sorted(tmp_path.glob("*/*"))[1]
    inode, real = bad.stat().st_ino, getattr(os, call)

    def failing(what: Any, *rest: Any) -> Any:
        is_bad = what == bad if call == "open" else os.fstat(what).st_ino == inode
        if is_bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(what, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing)
        with opened(tmp_path) as versions:
            assert versions.digests("job", SPEC) == ("digest 1",)
    assert f"{bad}: this version of a model is dropped" in caplog.text
    assert "Input/output error" in caplog.text


def test_one_that_cannot_be_removed_is_dropped_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    with opened(tmp_path) as versions:
        keep(versions, 1)
        version = versions.get("job", "digest 1", SPEC)
        assert version is not None
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", refused)
            versions.drop(version, "it is damaged")
        assert versions.digests("job", SPEC) == ()
    assert "cannot be removed" in caplog.text


def test_what_an_interrupted_process_has_begun_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
    (tmp_path / "kept-client-site-1" / "000000000009.partial").write_bytes(b"begun")
    with opened(tmp_path):
        assert len(files(tmp_path)) == 1


def test_one_that_somebody_has_written_to_since_is_not_used(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
        (path,) = tmp_path.glob("*/*")
        os.utime(path, ns=(0, 0))  # as a write would, whatever the clock's ticks
        assert versions.get("job", "digest 1", SPEC) is None
        assert versions.digests("job", SPEC) == ()


def test_one_that_is_dropped_can_be_read_by_whoever_has_it(tmp_path: Path) -> None:
    with opened(tmp_path, most=1) as versions:
        keep(versions, 1)
        version = versions.get("job", "digest 1", SPEC)
        keep(versions, 2)
        assert version is not None
        assert b"".join(version.read(0, 5)) == content(1, 5)
        assert len(files(tmp_path)) == 1


def test_one_that_does_not_fit_is_not_kept_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, most_bytes=2 * SIZE - 1) as versions:
        keep(versions, 1)
        for _ in range(2):
            assert versions.begin("job", SPEC, SIZE) is None
        assert versions.digests("job", SPEC) == ("digest 1",)
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "stream.kept_bytes" in warnings[0].getMessage()


def test_the_oldest_makes_way_for_the_next_where_not_all_fit(tmp_path: Path) -> None:
    with opened(tmp_path, most_bytes=3 * SIZE - 1) as versions:
        for number in range(5):
            keep(versions, number)
            assert versions.digests("job", SPEC)[0] == f"digest {number}"
        assert len(files(tmp_path)) == 2


def test_those_of_other_jobs_make_way_first(tmp_path: Path) -> None:
    with opened(tmp_path, most=3, most_bytes=3 * SIZE) as versions:
        keep(versions, 1)
        keep(versions, 2)
        keep(versions, 3, owner="another job")
        keep(versions, 4)
        assert versions.digests("another job", SPEC) == ()
        assert versions.digests("job", SPEC) == ("digest 4", "digest 2", "digest 1")


def test_none_makes_way_for_one_that_does_not_fit_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, most_bytes=2 * SIZE) as versions:
        keep(versions, 1)
        keep(versions, 2, owner="another job")
        assert versions.begin("job", SPEC, SIZE + 1) is None
        assert versions.digests("job", SPEC) == ("digest 1",)
        assert versions.digests("another job", SPEC) == ("digest 2",)


def test_a_limit_that_was_lowered_holds_from_the_next_start_on(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        keep(versions, 1)
        keep(versions, 2)
    with opened(tmp_path, most_bytes=2 * SIZE - 1) as versions:
        assert versions.digests("job", SPEC) == ("digest 2",)
    assert len(files(tmp_path)) == 1


def test_those_that_are_being_written_count_too(tmp_path: Path) -> None:
    with opened(tmp_path, most_bytes=2 * SIZE - 1) as versions:
        writer = versions.begin("job", SPEC, SIZE)
        assert writer is not None
        assert versions.begin("job", SPEC, SIZE) is None
        writer.discard()
        assert versions.begin("job", SPEC, SIZE) is not None


def test_one_that_is_not_whole_is_not_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as versions:
        writer = versions.begin("job", SPEC, SIZE)
        assert writer is not None
        writer.add(memoryview(b"only this"))
        writer.commit("digest")
        assert versions.digests("job", SPEC) == ()
        assert files(tmp_path) == []


def test_one_that_nobody_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    with opened(tmp_path, most_bytes=SIZE) as versions:
        writer = versions.begin("job", SPEC, SIZE)
        assert writer is not None
        writer.add(memoryview(b"begun"))
        del writer
        gc.collect()
        assert files(tmp_path) == []
        assert versions.begin("job", SPEC, SIZE) is not None


def test_a_disk_that_fills_up_costs_the_version_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(tmp_path) as versions:
        writer = versions.begin("job", SPEC, SIZE)
        assert writer is not None
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            writer.add(memoryview(content(1)))
        writer.add(memoryview(content(1)))
        writer.commit("digest")
        assert versions.digests("job", SPEC) == ()
        assert files(tmp_path) == []
    assert "No space left" in caplog.text


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="keeping versions of models"):
        opened(tmp_path / "file" / "inside")
