"""An adapter beside its configuration, and two models in one directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.numpy

from streamlink.copying import copy_model
from streamlink.errors import StoreError
from streamlink.model.beside import Beside
from streamlink.stores import SafetensorsStore, open_model
from streamlink.stores.safetensors import sink, source
from streamlink.stores.safetensors.ambiguous import other_model
from streamlink.stores.safetensors.index import ADAPTER_NAME, INDEX_NAME, ShardIndex
from tests.support.beside import NEW, OLD, PT, SPEC, beside, files_in, theirs, whole
from tests.support.models import arrays_of, content, pattern_model, save


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "model"


def test_an_adapter_is_a_model_and_stays_one(tmp_path: Path, place: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    arrays = arrays_of(SPEC, content(pattern_model(SPEC)))
    safetensors.numpy.save_file(arrays, theirs / ADAPTER_NAME, metadata=PT)
    (theirs / "adapter_config.json").write_bytes(b"{}")
    copy_model(theirs, SafetensorsStore(place, shard_bytes=1000))
    assert set(files_in(place)) == {"adapter_config.json", ADAPTER_NAME}
    loaded = safetensors.numpy.load_file(place / ADAPTER_NAME)
    assert all((loaded[name] == arrays[name]).all() for name in arrays)
    # A round replaces the tensors, and whoever loads the adapter gets these.
    save(SafetensorsStore(place), pattern_model(SPEC, seed=1))
    fresh = arrays_of(SPEC, content(pattern_model(SPEC, seed=1)))
    loaded = safetensors.numpy.load_file(place / ADAPTER_NAME)
    assert all((loaded[name] == fresh[name]).all() for name in fresh)
    assert os.stat(place / ADAPTER_NAME).st_nlink == 2  # no second copy
    save(SafetensorsStore(place), whole(2, NEW))
    assert not (place / ADAPTER_NAME).exists()


def test_a_round_can_begin_with_an_adapter_of_another_tool(place: Path) -> None:
    place.mkdir()
    arrays = arrays_of(SPEC, content(pattern_model(SPEC)))
    safetensors.numpy.save_file(arrays, place / ADAPTER_NAME, metadata=PT)
    (place / "adapter_config.json").write_bytes(b"{}")
    save(SafetensorsStore(place), pattern_model(SPEC, seed=1))
    assert beside(place) == Beside({"adapter_config.json": b"{}"}, PT)
    with safetensors.safe_open(place / ADAPTER_NAME, "np") as opened:
        assert opened.metadata() == PT


@pytest.mark.parametrize("other", ["model.safetensors", INDEX_NAME])
def test_an_adapter_beside_its_base_model_is_refused_in_words(place: Path, other: str) -> None:
    theirs(place / ADAPTER_NAME)
    theirs(place / ("model.safetensors" if other != INDEX_NAME else "one.safetensors"), seed=1)
    if other == INDEX_NAME:
        names = {each.name: "one.safetensors" for each in SPEC.tensors}
        (place / INDEX_NAME).write_text(json.dumps({"weight_map": names}))
    words = f"two models are here, {ADAPTER_NAME} and {other}; keep them in two directories"
    with pytest.raises(StoreError, match=words):
        open_model(place)
    with pytest.raises(StoreError, match=words):
        SafetensorsStore(place).begin(SPEC)
    assert content(open_model(place / ADAPTER_NAME)) == content(pattern_model(SPEC))


@pytest.mark.parametrize("name", [ADAPTER_NAME, "model.safetensors"])
@pytest.mark.parametrize("links", [True, False])
def test_a_model_that_was_trained_again_is_never_sent_as_it_was(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    save(SafetensorsStore(place), whole(0, {"adapter_config.json": b"{}"}))
    assert content(open_model(place)) == content(pattern_model(SPEC))
    theirs(place / name, seed=1)
    with pytest.raises(StoreError, match=f"{name} is not of the model that the index here names"):
        open_model(place)
    assert content(open_model(place / name)) == content(pattern_model(SPEC, seed=1))
    (place / name).unlink()
    assert content(open_model(place)) == content(pattern_model(SPEC))


def test_a_reader_during_a_commit_takes_no_file_for_another_model(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs(place / "model.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(sink, "finish_placing", lambda directory: None)
        patch.setattr(sink, "remove_dead_files", lambda *args, **options: None)
        save(SafetensorsStore(place), pattern_model(SPEC, seed=1))
    assert (place / "model.safetensors").exists()
    assert content(open_model(place)) == content(pattern_model(SPEC, seed=1))
    SafetensorsStore(place).expire(1e9)
    assert not (place / "model.safetensors").exists()


def test_an_adapter_that_the_next_commit_brings_is_no_other_model(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(SafetensorsStore(place), whole(0, {"adapter_config.json": b"{}"}))
    asked, original = list[int](), other_model

    def meanwhile(directory: Path, index: ShardIndex) -> str:
        if not asked:
            asked.append(0)
            save(SafetensorsStore(place), pattern_model(SPEC, seed=1))
            return ADAPTER_NAME  # as after a look at it
        return original(directory, index)

    monkeypatch.setattr(source, "other_model", meanwhile)
    assert content(open_model(place)) == content(pattern_model(SPEC, seed=1))


def test_a_model_does_not_come_beside_an_adapter_that_would_stay(place: Path) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    theirs(place / ADAPTER_NAME)
    with pytest.raises(StoreError, match="no model has brought this adapter here"):
        SafetensorsStore(place).begin(whole(1, NEW).spec)


def no_links(*args: Any) -> None:
    raise OSError("not here")


def test_without_hard_links_an_adapter_is_copied(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, original = set[int](), os.fsync

    def noted(fd: int) -> None:
        synced.add(os.fstat(fd).st_ino)
        original(fd)

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "fsync", noted)
    save(SafetensorsStore(place), whole(0, {"adapter_config.json": b"{}"}))
    assert (place / ADAPTER_NAME).stat().st_ino in synced  # durable before the list is gone
    loaded = safetensors.numpy.load_file(place / ADAPTER_NAME)
    assert loaded.keys() == {each.name for each in SPEC.tensors}
