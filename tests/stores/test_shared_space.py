"""One limit for all ends that keep versions in one directory: what counts, and what makes way."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlink.errors import StoreError
from streamlink.stores.expiry import unless_in_use
from streamlink.stores.shared_space import HEAD_BYTES, SharedSpace
from streamlink.stores.versions import Versions

SPEC = bytes(range(32))
SIZE = 100_000


def opened(shared: Path, name: str, room: int) -> Versions:
    """Return what ``name`` keeps, where ``room`` models fit in all."""
    return Versions(shared, "client", name, most=3, most_bytes=room * SIZE)


def keep(versions: Versions, number: int) -> bool:
    writer = versions.begin("job", SPEC, SIZE)
    if writer is None:
        return False
    writer.add(memoryview(bytes([number]) * SIZE))
    writer.commit(f"digest {number}")
    return True


def kept(shared: Path) -> list[str]:
    """Return the folder and the number of each file that counts."""
    found = [*shared.glob("*/*.version"), *shared.glob("*/*.partial")]
    return sorted(f"{each.parent.name} {int(each.stem)}" for each in found)


def ended(shared: Path, name: str, *ages: int) -> None:
    """Let a client that has ended leave one version of each age (days), the oldest first."""
    with opened(shared, name, 100) as versions:
        for number, _ in enumerate(ages):
            assert keep(versions, number)
    for path, age in zip(sorted((shared / f"client-{name}").iterdir()), ages, strict=True):
        os.utime(path, (time.time() - age * 86400,) * 2)


def test_the_oldest_of_those_that_have_ended_makes_way_first(tmp_path: Path) -> None:
    ended(tmp_path, "a", 9, 2)
    ended(tmp_path, "b", 5)
    with opened(tmp_path, "c", 3) as versions:
        assert keep(versions, 1)
        assert kept(tmp_path) == ["client-a 2", "client-b 1", "client-c 1"]
        assert keep(versions, 2)
        assert kept(tmp_path) == ["client-a 2", "client-c 1", "client-c 2"]
    assert not (tmp_path / "client-b").exists(), "nothing is left in it"


def test_those_that_have_ended_make_way_before_the_older_ones_of_this_end(tmp_path: Path) -> None:
    with opened(tmp_path, "a", 3) as versions:
        assert keep(versions, 1)
        assert keep(versions, 2)
        ended(tmp_path, "b", 0)
        assert keep(versions, 3)
    assert kept(tmp_path) == ["client-a 1", "client-a 2", "client-a 3"]


def test_those_of_an_end_that_runs_stay_and_what_does_not_fit_beside_them_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, "a", 2) as first, opened(tmp_path, "b", 2) as second:
        assert keep(first, 1)
        assert keep(first, 2)
        assert not keep(second, 3)
        assert kept(tmp_path) == ["client-a 1", "client-a 2"]
        assert first.digests("job", SPEC) == ("digest 2", "digest 1")
        assert keep(first, 4), "its own oldest makes way"
        assert first.digests("job", SPEC) == ("digest 4", "digest 2")
    assert "0 are left of the limit" in caplog.text


def test_two_that_run_beside_each_other_stay_within_the_limit(tmp_path: Path) -> None:
    with opened(tmp_path, "a", 3) as first, opened(tmp_path, "b", 3) as second:
        for number in range(4):
            keep(first, number)
            keep(second, number)
            assert len(kept(tmp_path)) <= 3
        assert first.digests("job", SPEC)
        assert second.digests("job", SPEC)


def test_what_another_end_begins_to_write_counts_whole_at_once(tmp_path: Path) -> None:
    with opened(tmp_path, "a", 1) as first, opened(tmp_path, "b", 1) as second:
        writer = first.begin("job", SPEC, SIZE)
        assert writer is not None
        assert not keep(second, 1)
        writer.discard()
        assert keep(second, 1)


def test_nothing_makes_way_for_what_does_not_fit_all_the_same(tmp_path: Path) -> None:
    ended(tmp_path, "a", 1)
    with opened(tmp_path, "b", 2) as first, opened(tmp_path, "c", 2) as second:
        assert keep(first, 1)
        assert second.begin("job", SPEC, SIZE + 1) is None
    assert kept(tmp_path) == ["client-a 1", "client-b 1"]


def test_a_start_removes_what_is_above_the_limit_its_own_last(tmp_path: Path) -> None:
    ended(tmp_path, "a", 9, 8)
    ended(tmp_path, "b", 1, 1)
    with opened(tmp_path, "a", 3):
        assert kept(tmp_path) == ["client-a 1", "client-a 2", "client-b 2"]
    with opened(tmp_path, "a", 1):
        assert kept(tmp_path) == ["client-a 2"]


def test_a_start_leaves_those_of_an_end_that_runs(tmp_path: Path) -> None:
    ended(tmp_path, "b", 1)
    with opened(tmp_path, "a", 2) as versions:
        assert keep(versions, 1)
        with opened(tmp_path, "b", 1):
            assert kept(tmp_path) == ["client-a 1"]


def test_what_an_end_that_was_killed_had_begun_counts_and_makes_way(tmp_path: Path) -> None:
    folder = tmp_path / "server-a job"
    folder.mkdir()
    (folder / "000000000007.partial").write_bytes(bytes(HEAD_BYTES + SIZE))
    with opened(tmp_path, "b", 2) as versions:
        assert keep(versions, 1)
        assert kept(tmp_path) == ["client-b 1", "server-a job 7"]
        assert keep(versions, 2)
        assert kept(tmp_path) == ["client-b 1", "client-b 2"]


def test_what_else_is_in_the_directory_neither_counts_nor_goes(tmp_path: Path) -> None:
    ended(tmp_path, "a", 1)
    others = ["file", "client-a/remainder", "store/model.version", "store/000000000001.safetensors"]
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(9 * SIZE))
    with opened(tmp_path, "b", 1) as versions:
        assert keep(versions, 1)
    assert not (tmp_path / "client-a" / "000000000001.version").exists()
    assert all((tmp_path / name).exists() for name in others)


def test_one_that_cannot_be_removed_goes_on_counting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended(tmp_path, "a", 1)
    real = os.unlink

    def unlink(path: Path) -> None:
        if path.parent.name == "client-a":
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    with opened(tmp_path, "b", 1) as versions:
        assert not keep(versions, 1)
    assert kept(tmp_path) == ["client-a 1"]
    assert "cannot be removed" in caplog.text


def test_whoever_starts_waits_while_another_makes_room(tmp_path: Path) -> None:
    """It looks whether folders are used, which takes their locks for a moment."""
    ended(tmp_path, "a", 1)
    is_started = threading.Event()

    def start() -> None:
        with opened(tmp_path, "a", 1):
            is_started.set()

    work = threading.Thread(target=start)
    with SharedSpace(tmp_path / "client-b", SIZE).alone():
        with unless_in_use(tmp_path / "client-a") as is_free:
            assert is_free
            work.start()
            assert not is_started.is_set()
    work.join()
    assert is_started.is_set()


def test_one_that_makes_room_for_ever_is_named_when_the_wait_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: Iterator[float] = iter(range(0, 1000, 6))
    with SharedSpace(tmp_path / "client-b", SIZE).alone(), monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(times))
        with pytest.raises(StoreError, match=r"held the lock .* for 10 s"):
            opened(tmp_path, "a", 1)
    with opened(tmp_path, "a", 1):
        pass


def test_a_process_that_was_forked_meanwhile_holds_no_lock(tmp_path: Path) -> None:
    """It has a copy of the descriptor, and a lock ends with the last one."""
    fds = []
    with SharedSpace(tmp_path / "client-a", SIZE).alone():
        same = os.stat(tmp_path).st_ino
        for number in os.listdir("/dev/fd"):
            try:
                if os.fstat(int(number)).st_ino == same:
                    fds.append(os.dup(int(number)))
            except OSError:
                continue  # the one it was listed with
    assert fds
    with unless_in_use(tmp_path) as is_free:
        assert is_free
    for fd in fds:
        os.close(fd)


def test_one_that_is_committed_while_it_is_counted_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old name has been read then, and is there no more."""
    real = os.listdir
    with opened(tmp_path, "a", 2) as first, opened(tmp_path, "b", 1) as second:
        writer = first.begin("job", SPEC, SIZE)
        assert writer is not None
        writer.add(memoryview(bytes(SIZE)))

        def listdir(folder: Path) -> list[str]:
            names = real(folder)
            if folder.name == "client-a":
                writer.commit("digest")
            return names

        with monkeypatch.context() as patched:
            patched.setattr(os, "listdir", listdir)
            assert not keep(second, 1)
    assert kept(tmp_path) == ["client-a 1"]
