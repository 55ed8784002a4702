"""Small files in a directory of safetensors: they appear with their model, or not at all."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.numpy

from streamlink.copying import copy_model, digest_of
from streamlink.errors import CorruptStore, StoreError
from streamlink.model.beside import Beside
from streamlink.model.beside_ends import BesideSource
from streamlink.stores import SafetensorsStore, open_model
from streamlink.stores.safetensors import SafetensorsSource
from streamlink.stores.safetensors.index import ADAPTER_NAME, INDEX_NAME, ShardIndex, _checksum
from tests.support.beside import NEW, OLD, PT, SPEC, beside, files_in, whole
from tests.support.models import arrays_of, content, float_spec, pattern_model, save


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


def test_the_index_fits_the_shards_that_are_written_here(tmp_path: Path, place: Path) -> None:
    theirs = tmp_path / "theirs"
    save(SafetensorsStore(theirs, shard_bytes=1000), whole(0, OLD))
    copy_model(theirs, place)
    index = json.loads((place / INDEX_NAME).read_text())
    assert index["metadata"]["total_size"] == SPEC.nbytes
    assert set(index["weight_map"].values()) == {p.name for p in place.glob("*.safetensors")}
