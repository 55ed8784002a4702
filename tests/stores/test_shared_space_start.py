"""Starting in a shared directory: who waits, what is removed, and who is refused."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from streamlink.errors import StoreError
from streamlink.stores.expiry import unless_in_use
from streamlink.stores.versions import Versions
from tests.support.keeping import SPEC, clock_of_sleepers, ended, keep, kept, opened, seen_by


def test_a_start_removes_what_is_above_the_limit_its_own_last(tmp_path: Path) -> None:
    ended(tmp_path, "a", 9, 8)
    ended(tmp_path, "b", 1, 1)
    with opened(tmp_path, "a", 3):
        assert kept(tmp_path) == ["kept-client-a 1", "kept-client-a 2", "kept-client-b 2"]
    with opened(tmp_path, "a", 1):
        assert kept(tmp_path) == ["kept-client-a 2"]


def test_a_start_leaves_those_of_an_end_that_runs(tmp_path: Path) -> None:
    ended(tmp_path, "b", 1)
    with opened(tmp_path, "a", 2) as versions:
        assert keep(versions, 1)
        with opened(tmp_path, "b", 1):
            assert kept(tmp_path) == ["kept-client-a 1"]


def test_a_start_waits_while_another_looks_whether_its_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(tmp_path, "a", 1)
    with ExitStack() as look, seen_by(tmp_path, "b").alone(0):
        assert look.enter_context(unless_in_use(tmp_path / "kept-client-a"))
        monkeypatch.setattr(time, "sleep", lambda _: look.close())
        with opened(tmp_path, "a", 1) as versions:
            assert len(versions.digests("job", SPEC)) == 1


def test_a_folder_that_is_used_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, "a", 1):
        monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
        with pytest.raises(StoreError, match="another writer"):
            opened(tmp_path, "a", 1)


def test_a_folder_that_is_used_is_refused_when_the_wait_for_others_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of_sleepers(monkeypatch)
    with opened(tmp_path, "a", 1), seen_by(tmp_path, "b").alone(0):
        with pytest.raises(StoreError, match="another writer"):
            opened(tmp_path, "a", 1)
    assert 10 <= clock[0] < 11


def test_a_folder_that_is_removed_while_it_is_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real, removed = tmp_path / "kept-client-a", os.open, list[Path]()

    def opens(path: Path, *rest: int) -> int:
        fd = real(path, *rest)
        if path == folder and not removed:
            folder.rmdir()
            removed.append(folder)
        return fd

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opens)
        versions = opened(tmp_path, "a", 1)
    with versions:
        assert removed
        assert keep(versions, 1)
        with pytest.raises(StoreError, match="another writer"):
            opened(tmp_path, "a", 1)


def test_a_start_goes_on_while_another_one_removes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even those of its own folder, which may take longer than anybody waits."""
    ended(tmp_path, "a", 9, 8, 7)
    real, started = os.unlink, list[str]()

    def unlink(path: Path) -> None:
        if not started:
            for name in ("a", "c"):
                with opened(tmp_path, name, 100):
                    started.append(name)
        real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", unlink)
        patched.setattr(time, "sleep", lambda _: None)
        with opened(tmp_path, "b", 1):
            assert started == ["a", "c"]
    assert kept(tmp_path) == ["kept-client-a 3"]


def test_the_folder_of_an_end_that_has_just_started_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(tmp_path, "a", 1)
    real = os.unlink
    with ExitStack() as running, monkeypatch.context() as patched:
        started = list[Versions]()

        def unlink(path: Path) -> None:
            real(path)
            if not started:
                started.append(running.enter_context(opened(tmp_path, "a", 100)))

        patched.setattr(os, "unlink", unlink)
        with opened(tmp_path, "b", 0):
            assert keep(started[0], 1)


def test_a_name_is_not_used_again_while_another_may_be_about_to_remove_it(tmp_path: Path) -> None:
    folder = tmp_path / "kept-client-a"
    folder.mkdir()
    (folder / "000000000007.partial").write_bytes(b"begun")
    with opened(tmp_path, "a", 1) as versions:
        assert keep(versions, 1)
        assert kept(tmp_path) == ["kept-client-a 8"]


def test_others_may_start_and_make_room_between_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(tmp_path, "a", 9, 8, 7)
    is_free = []

    def look(_: float) -> None:
        with unless_in_use(tmp_path) as free:
            is_free.append((len(kept(tmp_path)), free))

    monkeypatch.setattr(time, "sleep", look)
    with opened(tmp_path, "b", 1):
        assert is_free == [(2, True)]
    assert kept(tmp_path) == ["kept-client-a 3"]


def test_a_start_that_cannot_make_room_in_time_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of_sleepers(monkeypatch)
    ended(tmp_path, "a", 1, 1)
    with seen_by(tmp_path, "b").alone(0), opened(tmp_path, "a", 1) as versions:
        assert len(versions.digests("job", SPEC)) == 2
    assert 10 <= clock[0] < 11
    (warning,) = caplog.messages
    assert "kept_bytes may be exceeded" in warning
    assert "held the lock (flock) of this directory for 10 s" in warning
