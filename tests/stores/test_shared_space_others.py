"""Other files in a shared directory do not count towards the limit and are never removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.keeping import SIZE, SPEC, ended, keep, kept, opened


def test_what_else_is_in_the_directory_neither_counts_nor_goes(tmp_path: Path) -> None:
    ended(tmp_path, "a", 1)
    others = [
        "file",
        "kept-client-a/remainder",
        "store/model.version",
        "store/000000000001.safetensors",
    ]
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(9 * SIZE))
    with opened(tmp_path, "b", 1) as versions:
        assert keep(versions, 1)
    assert not (tmp_path / "kept-client-a" / "000000000001.version").exists()
    assert all((tmp_path / name).exists() for name in others)


@pytest.mark.parametrize(
    "name",
    [
        "downloads/000000000001.version",
        "client-a/000000000001.version",
        "server-a/7.version",
        "kept-client-b/2024.partial",
        "kept-client-b/\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661.version",
    ],
)
def test_what_is_not_called_as_ends_call_theirs_neither_counts_nor_goes(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(bytes(9 * SIZE))
    with opened(tmp_path, "b", 1) as versions:
        assert keep(versions, 1)
        assert not keep(versions, 2)
    with opened(tmp_path, "b", 1) as versions:
        assert versions.digests("job", SPEC) == ("digest 1",)
    assert (tmp_path / name).exists()


def test_nothing_behind_a_link_counts_or_goes(tmp_path: Path) -> None:
    shared, elsewhere = tmp_path / "kept", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "000000000012.version").write_bytes(bytes(9 * SIZE))
    with opened(shared, "a", 2) as versions:
        for link, target in {
            "server-link": elsewhere,
            "server-alias": shared / "kept-client-a",
            "server-loop": shared / "server-loop",
        }.items():
            (shared / link).symlink_to(target)
        assert keep(versions, 1)
        assert keep(versions, 2)
        assert versions.digests("job", SPEC) == ("digest 2", "digest 1")
    assert (elsewhere / "000000000012.version").exists()


def test_the_folder_of_an_end_may_be_a_link(tmp_path: Path) -> None:
    shared, elsewhere = tmp_path / "kept", tmp_path / "elsewhere"
    shared.mkdir()
    elsewhere.mkdir()
    (shared / "kept-client-a").symlink_to(elsewhere)
    with opened(shared, "a", 1) as versions:
        assert keep(versions, 1)
        assert not keep(versions, 2)


def test_a_folder_that_is_not_for_us_to_read_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(tmp_path, "a", 1)
    real = os.listdir

    def listdir(folder: Path) -> list[str]:
        if folder.name == "kept-client-a":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return real(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    with opened(tmp_path, "b", 1) as versions:
        assert keep(versions, 1)
    assert kept(tmp_path) == ["kept-client-a 1", "kept-client-b 1"]
