"""What is too old to be taken up again is removed; all else stays, whatever its name."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlink.errors import ConnectFailed, StoreError
from streamlink.link.oneshot import receive
from streamlink.model.interfaces import Expiring
from streamlink.stores import CompressedStore, MemoryStore, SafetensorsStore
from streamlink.stores.safetensors.expiry import expire_updates
from streamlink.stores.safetensors.index import INDEX_NAME
from tests.support.disk import names_in
from tests.support.models import float_spec, pattern_model, save
from tests.support.peers import config

DAY = 86400.0
SPEC = float_spec(400_000)


def make_older(path: Path, days: float, pattern: str = "*") -> None:
    then = time.time() - days * DAY
    for each in [*path.rglob(pattern), *([path] if path.is_dir() else [])]:
        os.utime(each, (then, then), follow_symlinks=False)


def interrupted(directory: Path, identity: str = "one") -> None:
    sink = SafetensorsStore(directory).begin(SPEC, identity)
    sink.write(0, memoryview(bytes(1 << 20)))
    sink.suspend()


def test_stores_on_a_disk_expire_and_one_in_memory_does_not(tmp_path: Path) -> None:
    assert isinstance(SafetensorsStore(tmp_path), Expiring)
    assert isinstance(CompressedStore(tmp_path / "m.slz"), Expiring)
    assert not isinstance(MemoryStore(), Expiring)


def test_an_old_partial_model_is_removed_and_named_with_its_age(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(SPEC))
    model = names_in(tmp_path)
    interrupted(tmp_path)
    make_older(tmp_path, 8)
    store.expire(7 * DAY)
    assert names_in(tmp_path) == model
    (line,) = [each for each in caplog.messages if "last changed" in each]
    assert re.search(r"model-[0-9a-f]{8}\.partial: removing a partial model .* 8\.0 days ago", line)
    store.open().close()


def test_a_fresh_partial_model_stays_as_does_one_of_which_any_file_is_fresh(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    interrupted(tmp_path)
    before = names_in(tmp_path)
    store.expire(7 * DAY)
    make_older(tmp_path, 8, "*.partial")  # its shard was written to just now
    store.expire(7 * DAY)
    assert names_in(tmp_path) == before
    assert store.resume(SPEC.digest, "one") is not None


def test_what_a_living_process_writes_stays_whatever_its_age(tmp_path: Path) -> None:
    store, packed = SafetensorsStore(tmp_path / "a"), CompressedStore(tmp_path / "b.slz", 1, 8, 0)
    sinks = store.begin(SPEC, "one"), packed.begin(SPEC)
    before = names_in(tmp_path / "a"), names_in(tmp_path)
    make_older(tmp_path, 1000)
    store.expire(1)
    packed.expire(1)
    assert (names_in(tmp_path / "a"), names_in(tmp_path)) == before
    for sink in sinks:
        sink.discard()


def test_an_old_partial_file_is_removed_and_a_fresh_one_is_not(tmp_path: Path) -> None:
    packed = CompressedStore(tmp_path / "b.slz", 1, 8, 0)
    sink = packed.begin(SPEC)
    sink._close()  # as a process does that is killed
    packed.expire(7 * DAY)
    assert names_in(tmp_path) == {"b.slz.part"}
    make_older(tmp_path, 8)
    packed.expire(7 * DAY)
    assert names_in(tmp_path) == set()
    packed.expire(7 * DAY)


def test_old_files_that_are_not_ours_or_not_partial_stay(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(SPEC))
    names = "mine.partial", "model-1.partial", "model-abcdefab-00001-of-00001.safetensors", "x.part"
    for name in names:
        (tmp_path / name).touch()
    outside = tmp_path / "sub"
    outside.mkdir()
    (outside / "precious").write_text("x")
    for target in (outside / "precious", outside):
        (tmp_path / f"model-0123456{len(target.name) % 10}.partial").symlink_to(target)
    before = names_in(tmp_path)
    make_older(tmp_path, 1000)
    store.expire(1)
    assert names_in(tmp_path) == before
    assert (outside / "precious").read_text() == "x"


def test_nothing_is_removed_beside_an_index_that_cannot_be_read(tmp_path: Path) -> None:
    interrupted(tmp_path)
    (tmp_path / INDEX_NAME).write_text("{")
    before = names_in(tmp_path)
    make_older(tmp_path, 1000)
    SafetensorsStore(tmp_path).expire(1)
    assert names_in(tmp_path) == before


@pytest.mark.parametrize("make", [SafetensorsStore, CompressedStore])
def test_a_store_that_is_not_there_has_nothing_to_expire(
    tmp_path: Path, make: Callable[[Path], Expiring]
) -> None:
    make(tmp_path / "none" / "m").expire(1)
    assert names_in(tmp_path) == set()


def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    interrupted(tmp_path)
    make_older(tmp_path, 8)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(StoreError, match="removing expired partial models failed: Permission"):
        SafetensorsStore(tmp_path).expire(7 * DAY)


def test_whoever_receives_removes_what_has_expired_there(tmp_path: Path) -> None:
    for days, left in ((6.9, 2), (7.1, 0)):
        interrupted(tmp_path)
        make_older(tmp_path, days)
        with pytest.raises(ConnectFailed):
            receive(SafetensorsStore(tmp_path), config=config(), timeout=0.01)
        assert len(names_in(tmp_path)) == left


# --- spools -------------------------------------------------------------------------------------


def update(path: Path, days: float) -> None:
    save(SafetensorsStore(path), pattern_model(float_spec(9)))
    (path / "update.json").touch()
    make_older(path, days)


def test_old_updates_are_removed_and_fresh_ones_and_what_is_not_ours_stay(tmp_path: Path) -> None:
    run = "0123456789abcdef"
    for name, days in {"0": 8, "1": 6, f"{run}-0": 8, f"{run}-1": 6, "mine": 8, "3x": 8}.items():
        update(tmp_path / name, days)
    update(tmp_path / "4", 8)
    (tmp_path / "4" / "notes.txt").touch()
    update(tmp_path / "elsewhere", 8)
    (tmp_path / "5").symlink_to(tmp_path / "elsewhere")
    update(tmp_path / "6", 8)
    (tmp_path / "6" / "update.json").unlink()
    (tmp_path / "6" / "update.json").symlink_to(tmp_path / "elsewhere" / INDEX_NAME)
    (tmp_path / "7").write_text("a file")
    for name in ("4", "6", "7"):
        make_older(tmp_path / name, 8)
        os.utime(tmp_path / name, (1, 1))
    before = names_in(tmp_path)
    expire_updates(tmp_path, math.inf, ["update.json"])
    assert names_in(tmp_path) == before
    expire_updates(tmp_path, 7 * DAY, ["update.json"])
    assert names_in(tmp_path) == before - {"0", f"{run}-0"}
    assert len(names_in(tmp_path / "elsewhere")) == 4


def test_updates_that_their_own_server_removes_meanwhile_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0", "1", "2"):
        update(tmp_path / name, 8)
    list_names = os.listdir

    def listed(path: Path) -> list[str]:
        if path.name == "1":
            shutil.rmtree(path)
        return list_names(path)

    monkeypatch.setattr(os, "listdir", listed)
    expire_updates(tmp_path, 7 * DAY, ["update.json"])
    assert list(tmp_path.iterdir()) == []
    tmp_path.rmdir()
    expire_updates(tmp_path, 7 * DAY, ["update.json"])
