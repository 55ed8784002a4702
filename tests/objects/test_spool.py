"""The spool's directory: one server at a time, and nothing of an earlier one stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import StoreError
from streamlink.objects.spool import Spool

ID = "ab" * 16


def test_the_second_server_on_a_spool_is_refused_while_the_first_has_it(tmp_path: Path) -> None:
    first = Spool(tmp_path / "made" / "here")
    with pytest.raises(StoreError, match="another object server has this spool"):
        Spool(tmp_path / "made" / "here")
    first.close()
    Spool(tmp_path / "made" / "here").close()


def test_leftovers_are_removed_when_a_spool_is_opened_and_nothing_else_is(tmp_path: Path) -> None:
    kept = [tmp_path / "notes.txt", tmp_path / "model" / "w", tmp_path / ("g" * 32) / "w"]
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    for path in (*kept, outside / "w", tmp_path / ID / "shard" / "w"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / ("cd" * 16)).symlink_to(outside)
    spool = Spool(tmp_path)
    assert not (tmp_path / ID).exists()
    assert all(path.exists() for path in (*kept, outside / "w"))
    spool.close()


def test_what_is_left_is_removed_when_the_spool_is_closed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.path_of(ID).mkdir()
    other = spool.path_of("cd" * 16)
    other.mkdir()
    spool.remove(ID)
    spool.remove(ID)
    assert not spool.path_of(ID).exists()
    spool.close()
    assert not other.exists()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / ".streamlink-objects").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        Spool(tmp_path / "spool")
    assert not (tmp_path / "elsewhere").exists()
