"""One limit for all ends that keep versions in one directory: what counts, and what makes way."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from streamlink.stores.expiry import unless_in_use
from streamlink.stores.shared_space import HEAD_BYTES
from tests.support.keeping import SIZE, SPEC, clock_of_sleepers, ended, keep, kept, opened, seen_by


def test_the_oldest_of_those_that_have_ended_makes_way_first(tmp_path: Path) -> None:
    ended(tmp_path, "a", 9, 2)
    ended(tmp_path, "b", 5)
    with opened(tmp_path, "c", 3) as versions:
        assert keep(versions, 1)
        assert kept(tmp_path) == ["kept-client-a 2", "kept-client-b 1", "kept-client-c 1"]
        assert keep(versions, 2)
        assert kept(tmp_path) == ["kept-client-a 2", "kept-client-c 1", "kept-client-c 2"]
    assert not (tmp_path / "kept-client-b").exists(), "nothing is left in it"


def test_those_that_have_ended_make_way_before_the_older_ones_of_this_end(tmp_path: Path) -> None:
    with opened(tmp_path, "a", 3) as versions:
        assert keep(versions, 1)
        assert keep(versions, 2)
        ended(tmp_path, "b", 0)
        assert keep(versions, 3)
    assert kept(tmp_path) == ["kept-client-a 1", "kept-client-a 2", "kept-client-a 3"]


def test_those_of_an_end_that_runs_stay_and_what_does_not_fit_beside_them_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, "a", 2) as first, opened(tmp_path, "b", 2) as second:
        assert keep(first, 1)
        assert keep(first, 2)
        assert not keep(second, 3)
        assert kept(tmp_path) == ["kept-client-a 1", "kept-client-a 2"]
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
    assert kept(tmp_path) == ["kept-client-a 1", "kept-client-b 1"]


def test_what_an_end_that_was_killed_had_begun_counts_and_makes_way(tmp_path: Path) -> None:
    folder = tmp_path / "server-a job"
    folder.mkdir()
    (folder / "000000000007.partial").write_bytes(bytes(HEAD_BYTES + SIZE))
    with opened(tmp_path, "b", 2) as versions:
        assert keep(versions, 1)
        assert kept(tmp_path) == ["kept-client-b 1", "server-a job 7"]
        assert keep(versions, 2)
        assert kept(tmp_path) == ["kept-client-b 1", "kept-client-b 2"]


def stay(monkeypatch: pytest.MonkeyPatch, folder: str, code: int) -> None:
    """Let no file of ``folder`` be removed, for the reason ``code``."""
    real = os.unlink

    def unlink(path: Path) -> None:
        if path.parent.name == folder:
            raise OSError(code, os.strerror(code), str(path))
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)


def test_one_that_cannot_be_removed_goes_on_counting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended(tmp_path, "a", 1)
    stay(monkeypatch, "kept-client-a", errno.EROFS)
    with opened(tmp_path, "b", 1) as versions:
        assert not keep(versions, 1)
    assert kept(tmp_path) == ["kept-client-a 1"]
    assert "cannot be removed" in caplog.text


def test_one_that_cannot_be_removed_keeps_no_other_from_making_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended(tmp_path, "a", 9)
    ended(tmp_path, "b", 1)
    stay(monkeypatch, "kept-client-a", errno.EPERM)
    with opened(tmp_path, "c", 3) as versions:
        for number in range(4):
            assert keep(versions, number)
        assert kept(tmp_path) == ["kept-client-a 1", "kept-client-c 3", "kept-client-c 4"]
        assert versions.digests("job", SPEC) == ("digest 3", "digest 2")
    assert caplog.text.count("cannot be removed") == 1, "not once for each model"


def test_one_of_its_own_that_cannot_be_removed_goes_on_being_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", str(path))

    with opened(tmp_path, "a", 2) as versions:
        assert keep(versions, 1)
        assert keep(versions, 2)
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", refused)
            assert not keep(versions, 3)
        assert versions.digests("job", SPEC) == ("digest 2", "digest 1")


def test_nothing_goes_once_another_has_made_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, "a", 3) as first, opened(tmp_path, "b", 3) as second:
        assert keep(first, 1)
        assert keep(first, 2)
        writer = second.begin("job", SPEC, SIZE)
        assert writer is not None
        with ExitStack() as busy, monkeypatch.context() as patched:
            busy.callback(writer.discard)
            busy.enter_context(seen_by(tmp_path, "b").alone(0))
            patched.setattr(time, "sleep", lambda _: busy.close())
            assert keep(first, 3)
        assert first.digests("job", SPEC) == ("digest 3", "digest 2", "digest 1")


def test_a_transfer_waits_for_no_room_that_another_one_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of_sleepers(monkeypatch)
    with opened(tmp_path, "a", 2) as versions:
        assert keep(versions, 1)
        assert keep(versions, 2)
        with seen_by(tmp_path, "b").alone(0):
            assert not keep(versions, 3)
        assert clock[0] < 1
        assert versions.digests("job", SPEC) == ("digest 2", "digest 1")
        assert keep(versions, 4), "now there is nobody else"
    assert "is not kept" in caplog.text


def test_a_transfer_removes_no_more_once_that_has_taken_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of_sleepers(monkeypatch)
    ended(tmp_path, "a", 9, 8, 7)
    real = os.unlink

    def unlink(path: Path) -> None:
        clock[0] += 3
        real(path)

    with opened(tmp_path, "b", 3) as versions:
        monkeypatch.setattr(os, "unlink", unlink)
        assert versions.begin("job", SPEC, 3 * SIZE) is None
        assert kept(tmp_path) == ["kept-client-a 2", "kept-client-a 3"]


def test_digests_are_told_while_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, told = os.unlink, list[tuple[str, ...]]()

    def unlink(path: Path) -> None:
        ask = threading.Thread(
            target=lambda: told.append(versions.digests("job", SPEC)), daemon=True
        )
        ask.start()
        ask.join(30)
        real(path)

    with opened(tmp_path, "a", 3) as versions, monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        for number in range(4):  # the fourth needs room, and so the first
            assert keep(versions, number)
            assert len(told) == (number == 3)
    with opened(tmp_path, "a", 100) as versions, monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        assert keep(versions, 4), "one more than the three that are kept"
        assert len(told) == 2


def test_what_does_not_fit_counts_no_more_for_the_next_that_looks_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_free = os.unlink, list[bool]()

    def unlink(path: Path) -> None:
        with unless_in_use(tmp_path) as free:
            is_free.append(free)
        real(path)

    with opened(tmp_path, "a", 1) as first, opened(tmp_path, "b", 1) as second:
        assert keep(first, 1)
        monkeypatch.setattr(os, "unlink", unlink)
        assert not keep(second, 1)
    assert is_free == [False], "it is removed before another one may count it"


def test_a_process_that_was_forked_meanwhile_holds_no_lock(tmp_path: Path) -> None:
    """It has a copy of the descriptor, and a lock ends with the last one."""
    fds = []
    with seen_by(tmp_path, "a").alone(0):
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
            if folder.name == "kept-client-a":
                writer.commit("digest")
            return names

        with monkeypatch.context() as patched:
            patched.setattr(os, "listdir", listdir)
            assert not keep(second, 1)
    assert kept(tmp_path) == ["kept-client-a 1"]
