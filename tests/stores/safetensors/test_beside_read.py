"""Which small files go with a model that is read: links, caches, limits, changes meanwhile."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.numpy

from streamlink.config import LimitsConfig
from streamlink.copying import copy_model, digest_of
from streamlink.errors import ModelError, SourceChanged
from streamlink.model.beside import Beside
from streamlink.model.beside_ends import BesideSource
from streamlink.model.interfaces import ModelSource
from streamlink.stores import MemoryStore, SafetensorsStore, open_model
from streamlink.stores.safetensors import SafetensorsSource, sink, source
from streamlink.stores.safetensors import beside as placing
from tests.support.beside import NEW, OLD, PT, SPEC, beside, files_in, whole
from tests.support.models import arrays_of, content, pattern_model, save


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "model"


def test_links_hidden_files_and_programs_do_not_go_with_a_model(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    (tmp_path / "secret").write_bytes(b"secret")
    (place / "added_tokens.json").symlink_to(tmp_path / "secret")
    for name in (".netrc", "modeling.py", "optimizer.pt", "secrets.json"):
        (place / name).write_bytes(b"secret")
    (place / "vocab.txt").mkdir()
    assert beside(place).files == OLD
    assert f"added_tokens.json is a link to {tmp_path / 'secret'}, which is no file" in caplog.text


def test_of_other_texts_those_go_that_are_named_and_those_that_a_model_has_brought(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    mine = {"README.md": b"mine", "notes.txt": b"mine"}
    for name in (*mine, "requirements.txt", "train.py", "secrets.json"):
        (place / name).write_bytes(b"mine")
    assert beside(place).files == OLD
    named = LimitsConfig(more_side_files=("README.md", "*.txt", "train.py", "secrets.json"))
    found = SafetensorsSource(place).beside(named)
    assert found.files == dict(sorted({**OLD, **mine}.items()))
    for name in ("train.py", "secrets.json"):
        assert f"{name} stays behind: no file of this kind goes with a model" in caplog.text
    save(SafetensorsStore(tmp_path / "target"), BesideSource(pattern_model(SPEC), found))
    assert beside(tmp_path / "target") == found


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return a model in a cache of Hugging Face: a folder of links to files named by their hash."""
    repository = tmp_path / "models--me--mine"
    folder = repository / "snapshots" / "0123abcd"
    folder.mkdir(parents=True)
    (repository / "blobs").mkdir()
    save(SafetensorsStore(tmp_path / "plain"), whole(0, OLD))
    shard = next((tmp_path / "plain").glob("*.safetensors")).read_bytes()
    for name, data in {**OLD, "model.safetensors": shard}.items():
        linked(folder / name, repository / "blobs" / name.encode().hex(), data)
    return folder


def linked(name: Path, blob: Path, data: bytes) -> None:
    blob.write_bytes(data)
    name.symlink_to(os.path.relpath(blob, name.parent))


def test_small_files_that_are_links_within_a_cache_go_with_their_model(
    snapshot: Path, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy_model(snapshot, place)
    assert beside(place) == Beside(OLD, PT)
    assert digest_of(place) == digest_of(snapshot) == digest_of(whole(0, OLD))
    assert not any((place / name).is_symlink() for name in OLD)
    assert "is a link" not in caplog.text


def test_a_cache_that_is_reached_by_a_link_and_a_folder_in_it_have_their_files(
    snapshot: Path, tmp_path: Path
) -> None:
    part = snapshot / "text_encoder"
    part.mkdir()
    for each in list(snapshot.iterdir()):
        if each.is_symlink():
            (part / each.name).symlink_to(os.path.relpath(each.resolve(), part))
    (tmp_path / "home").symlink_to(snapshot.parents[1])
    for place in (part, tmp_path / "home" / "snapshots" / "0123abcd"):
        assert beside(place) == Beside(OLD, PT)


@pytest.mark.parametrize("to", ["outside", "other", "through", "nothing", "folder"])
def test_a_link_of_a_cache_to_anything_but_its_own_files_stays_behind(
    snapshot: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, to: str
) -> None:
    blobs = snapshot.parents[1] / "blobs"
    targets = {
        "outside": tmp_path / "secret",
        "other": tmp_path / "models--me--other" / "blobs" / "secret",
        "through": blobs / "link",
        "nothing": blobs / "gone",
        "folder": blobs / "folder",
    }
    for each in (targets["outside"], targets["other"]):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(b"secret")
    targets["through"].symlink_to(targets["outside"])
    targets["folder"].mkdir()
    (snapshot / "vocab.json").symlink_to(os.path.relpath(targets[to], snapshot))
    assert beside(snapshot) == Beside(OLD, PT)
    assert "vocab.json is a link to" in caplog.text


def test_a_directory_with_more_than_the_limits_is_refused_in_words(place: Path) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    with pytest.raises(ModelError, match=r"has 3 small files beside the model, and limits"):
        SafetensorsSource(place).beside(LimitsConfig(max_side_files=2))
    with pytest.raises(ModelError, match=r"limits.max_side_bytes is 3; raise it"):
        SafetensorsSource(place).beside(LimitsConfig(max_side_bytes=3))


def test_files_of_a_later_model_are_not_taken_for_those_of_the_one_that_was_opened(
    place: Path,
) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    opened: ModelSource = open_model(place)
    save(SafetensorsStore(place), whole(1, NEW))
    with pytest.raises(SourceChanged, match="another model has replaced it"):
        opened.beside(LimitsConfig())  # type: ignore[attr-defined]


def half_placed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a commit end between its index and the first rename of a small file."""
    save(SafetensorsStore(place), whole(0, OLD))
    with monkeypatch.context() as patch:
        patch.setattr(sink, "finish_placing", lambda directory: None)
        save(SafetensorsStore(place), whole(1, NEW))


@pytest.mark.parametrize("name", ["_files_in", "require_bounded"])
def test_files_that_get_their_names_while_they_are_read_are_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    half_placed(place, monkeypatch)
    opened = SafetensorsSource(place)
    reads, original = list[int](), getattr(placing, name)

    def meanwhile(*args: Any) -> Any:
        found = original(*args)
        found = list(found) if found is not None else None  # listed before, not after
        if not reads:
            placing.finish_placing(place)  # lists the directory no more
        reads.append(0)
        return found

    monkeypatch.setattr(placing, name, meanwhile)
    assert opened.beside(LimitsConfig()) == Beside(dict(sorted(NEW.items())), PT)
    assert len(reads) == 2


def test_files_that_change_each_time_they_are_read_are_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    opened = SafetensorsSource(place)

    def gone(*args: Any) -> None:
        raise FileNotFoundError("it was there a moment ago")

    monkeypatch.setattr(source, "read_beside", gone)
    with pytest.raises(SourceChanged, match="changed each time they were read"):
        opened.beside(LimitsConfig())


def test_files_of_a_commit_are_not_those_of_a_file_that_was_open(place: Path) -> None:
    place.mkdir()
    arrays = arrays_of(SPEC, content(pattern_model(SPEC)))
    safetensors.numpy.save_file(arrays, place / "model.safetensors")
    opened = SafetensorsSource(place)
    save(SafetensorsStore(place), whole(1, NEW))
    with pytest.raises(SourceChanged, match="another model has replaced it"):
        opened.beside(LimitsConfig())


def test_other_targets_get_the_tensors_alone_and_the_log_says_so_once(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    store = MemoryStore()
    caplog.set_level(logging.INFO, "streamlink")
    line = "only tensors are stored here, which leaves behind 3 small files (config.json"
    targets: tuple[MemoryStore | Path, ...] = (store, tmp_path / "m.slz")
    for number, target in enumerate(targets, 1):
        copy_model(place, target)
        assert caplog.text.count(line) == number
    assert content(store.open()) == content(open_model(tmp_path / "m.slz"))
    caplog.clear()
    copy_model(place, tmp_path / "bare", files=False)
    assert "leaves behind" not in caplog.text
    assert not files_in(tmp_path / "bare")


def test_more_files_than_go_with_a_model_do_not_matter_where_none_goes(
    place: Path, tmp_path: Path
) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    for number in range(LimitsConfig().max_side_files):
        (place / f"tokenizer{number}.json").touch()
    with pytest.raises(ModelError, match="more small files are beside the model"):
        copy_model(place, tmp_path / "copy")
    copy_model(place, tmp_path / "m.slz")
    assert content(open_model(tmp_path / "m.slz")) == content(pattern_model(SPEC))
