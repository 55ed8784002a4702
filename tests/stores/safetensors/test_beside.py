"""Small files in a directory of safetensors: they appear with their model, or not at all."""

from __future__ import annotations

import json
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.numpy

from streamlink.config import LimitsConfig
from streamlink.copying import copy_model, digest_of
from streamlink.errors import CorruptStore, ModelError, SourceChanged, StoreError
from streamlink.model.beside import Beside
from streamlink.model.beside_ends import BesideSource
from streamlink.model.interfaces import ModelSource
from streamlink.stores import MemoryStore, SafetensorsStore, open_model
from streamlink.stores.safetensors import SafetensorsSource, sink, source
from streamlink.stores.safetensors import beside as placing
from streamlink.stores.safetensors.ambiguous import other_model
from streamlink.stores.safetensors.index import ADAPTER_NAME, INDEX_NAME, ShardIndex, _checksum
from tests.support.models import arrays_of, content, float_spec, pattern_model, save

SPEC = float_spec(70_001, 11)
OLD = {"config.json": b'{"v": 1}', "tokenizer.json": b"[1]", "merges.txt": b"old"}
NEW = {"config.json": b'{"v": 22}', "chat_template.jinja": b"", "tokenizer.json": b"[2, 2]"}
PT = {"format": "pt"}


def whole(seed: int, files: dict[str, bytes], metadata: dict[str, str] = PT) -> BesideSource:
    return BesideSource(pattern_model(SPEC, seed=seed), Beside(files, metadata))


def beside(directory: Path) -> Beside:
    return SafetensorsSource(directory).beside(LimitsConfig())


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the small files as any tool sees them."""
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if not path.name.startswith("model")
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "model"


# --- with their model ---------------------------------------------------------------------------


def test_small_files_are_stored_with_their_model_and_read_with_it(place: Path) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    assert files_in(place) == OLD
    assert beside(place) == Beside(OLD, PT)
    stored = open_model(place)
    assert stored.spec == SPEC
    assert content(stored) == content(pattern_model(SPEC))
    assert stored.digest() == digest_of(pattern_model(SPEC))  # type: ignore[attr-defined]
    assert digest_of(place) == digest_of(whole(0, OLD))


def test_a_model_with_files_replaces_those_of_the_one_before(place: Path) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    (place / "notes.md").write_bytes(b"mine")
    save(SafetensorsStore(place), whole(1, NEW, {"format": "np"}))
    assert files_in(place) == {**NEW, "notes.md": b"mine"}
    assert beside(place) == Beside(NEW, {"format": "np"})
    names = {path.name for path in place.iterdir()}
    assert names == {*NEW, "notes.md", INDEX_NAME, *ShardIndex.read(place).files}


def test_files_that_no_model_has_brought_stay(place: Path) -> None:
    mine = {"requirements.txt": b"mine", "notes.txt": b"mine", "vocab.json": b"mine"}
    place.mkdir()
    for name in (*mine, "config.json"):
        (place / name).write_bytes(b"mine")
    save(SafetensorsStore(place), whole(0, OLD))
    assert files_in(place) == {**OLD, **mine}
    # Between the two, a round: what the first model has brought is still known.
    save(SafetensorsStore(place), pattern_model(SPEC, seed=1))
    save(SafetensorsStore(place), whole(2, NEW))
    assert files_in(place) == {**NEW, **mine}


def test_an_adapter_that_is_the_model_is_replaced_as_tensors_are(place: Path) -> None:
    place.mkdir()
    arrays = arrays_of(SPEC, content(pattern_model(SPEC)))
    safetensors.numpy.save_file(arrays, place / ADAPTER_NAME)
    save(SafetensorsStore(place), whole(0, OLD))
    assert files_in(place) == OLD


@pytest.mark.parametrize("name", ["model-secret.safetensors", "a/b.txt", "../config.json", 5])
def test_an_index_cannot_have_other_files_removed(place: Path, name: object) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    index = json.loads((place / INDEX_NAME).read_text())
    facts = index["metadata"]
    facts["streamlink_placed"] = [name]
    facts["streamlink_checksum"] = _checksum(index["weight_map"], facts)
    (place / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(CorruptStore, match="it names files that no model brings"):
        ShardIndex.read(place)


def test_a_model_without_files_keeps_those_that_are_there(place: Path) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    for seed in (1, 2):  # such as the mean of a round
        save(SafetensorsStore(place), pattern_model(SPEC, seed=seed))
    assert beside(place) == Beside(OLD, PT)
    assert content(open_model(place)) == content(pattern_model(SPEC, seed=2))


def test_an_old_model_that_cannot_be_read_does_not_block_the_next_one(place: Path) -> None:
    header = json.dumps({"q": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}).encode()
    place.mkdir()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0")
    save(SafetensorsStore(place), pattern_model(SPEC))
    assert content(open_model(place)) == content(pattern_model(SPEC))
    assert not (place / "model.safetensors").exists()


def test_the_metadata_is_in_each_shard_where_other_tools_look_for_it(place: Path) -> None:
    save(SafetensorsStore(place, shard_bytes=100_000), whole(0, OLD))
    save(SafetensorsStore(place, shard_bytes=100_000), pattern_model(SPEC, seed=1))
    shards = sorted(place.glob("*.safetensors"))
    assert len(shards) == 2
    for shard in shards:
        with safetensors.safe_open(shard, "np") as opened:
            assert opened.metadata() == PT


def test_a_file_of_another_tool_brings_its_metadata(tmp_path: Path, place: Path) -> None:
    file = tmp_path / "one.safetensors"
    arrays = arrays_of(SPEC, content(pattern_model(SPEC)))
    safetensors.numpy.save_file(arrays, file, metadata={"format": "pt", "by": "me"})
    (tmp_path / "config.json").write_bytes(b"of another model, perhaps")
    copy_model(file, place)
    assert beside(place) == Beside({}, {"format": "pt", "by": "me"})
    assert digest_of(place) == digest_of(file)


def test_files_end_where_the_last_block_of_the_tensors_ends_or_does_not(tmp_path: Path) -> None:
    for number, count in enumerate((1 << 18, (1 << 18) + 1, 1 << 17)):
        model = pattern_model(float_spec(count))
        place = tmp_path / str(number)
        save(SafetensorsStore(place), BesideSource(model, Beside(OLD)))
        stored = SafetensorsSource(place)
        assert (stored.digest(), content(stored)) == (digest_of(model), content(model))


# --- all at once ------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends what runs, as a signal would: nothing in the store cleans up after it."""


def steps(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Let the ``at``-th change of a name end the process."""
    left = [at]

    def dying(name: str) -> Any:
        original = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if left[0] <= 0:
                raise Killed
            left[0] -= 1
            return original(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink", "link"):
            patch.setattr(os, name, dying(name))
        yield


@pytest.mark.parametrize("files", [NEW, {**NEW, "adapter_config.json": b"{}"}], ids=["", "adapter"])
@pytest.mark.parametrize("identity", ["", "m"])
def test_a_process_that_is_killed_at_any_rename_leaves_the_old_model_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], identity: str
) -> None:
    for at in range(40):
        place = tmp_path / str(at)
        save(SafetensorsStore(place), whole(0, OLD))
        model, is_killed = whole(1, files), False
        sink = SafetensorsStore(place).begin(model.spec, identity)
        sink.write(0, memoryview(content(model)))
        for _ in steps(monkeypatch, at):
            try:
                sink.commit()
            except Killed:
                is_killed = True
        sink._close()  # as the end of a process does
        seen = beside(place), content(open_model(place))
        old = (Beside(OLD, PT), content(pattern_model(SPEC)))
        new = (Beside(dict(sorted(files.items())), PT), content(pattern_model(SPEC, seed=1)))
        assert seen in (old, new)
        # Whoever writes next, or looks for leftovers, goes on with it.
        SafetensorsStore(place).expire(1e9)
        assert files_in_plain(place) == (OLD if seen == old else files)
        assert (place / ADAPTER_NAME).exists() == (seen == new and len(files) == 4)
        if not is_killed:
            break
    else:
        pytest.fail("the commit has more steps than were tried")
    assert seen == new


def files_in_plain(place: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_in(place).items() if name != ADAPTER_NAME}


def test_an_attempt_that_is_discarded_leaves_no_file(place: Path) -> None:
    save(SafetensorsStore(place), whole(0, OLD))
    before = {path.name for path in place.iterdir()}
    for identity in ("", "m"):
        SafetensorsStore(place).begin(whole(1, NEW).spec, identity).discard()
    assert {path.name for path in place.iterdir()} == before


@pytest.mark.parametrize("name", ["config.json", ADAPTER_NAME, "model.safetensors"])
def test_a_directory_in_the_place_of_a_file_is_refused_before_a_byte_came(
    place: Path, name: str
) -> None:
    (place / name).mkdir(parents=True)
    with pytest.raises(StoreError, match="this is a directory, and the model brings a file"):
        SafetensorsStore(place).begin(whole(0, {**OLD, "adapter_config.json": b"{}"}).spec)
    assert [path.name for path in place.iterdir()] == [name]


def test_a_directory_with_an_adapters_name_is_no_adapter(place: Path) -> None:
    (place / ADAPTER_NAME).mkdir(parents=True)
    save(SafetensorsStore(place), pattern_model(SPEC))
    assert content(open_model(place)) == content(pattern_model(SPEC))


# --- adapters -----------------------------------------------------------------------------------


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


def theirs(path: Path, seed: int = 0) -> None:
    """Save a model as other tools do."""
    path.parent.mkdir(exist_ok=True)
    arrays = arrays_of(SPEC, content(pattern_model(SPEC, seed=seed)))
    safetensors.numpy.save_file(arrays, path)


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


# --- what is read ---------------------------------------------------------------------------------


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
    mine = {"README.md": b"mine", "notes.txt": b"mine", "requirements.txt": b"mine"}
    for name in (*mine, "train.py", "secrets.json"):
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


def test_the_index_fits_the_shards_that_are_written_here(tmp_path: Path, place: Path) -> None:
    theirs = tmp_path / "theirs"
    save(SafetensorsStore(theirs, shard_bytes=1000), whole(0, OLD))
    copy_model(theirs, place)
    index = json.loads((place / INDEX_NAME).read_text())
    assert index["metadata"]["total_size"] == SPEC.nbytes
    assert set(index["weight_map"].values()) == {p.name for p in place.glob("*.safetensors")}
