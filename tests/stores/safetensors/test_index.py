from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamlink.errors import CorruptStore
from streamlink.stores.safetensors.index import (
    INDEX_NAME,
    ShardIndex,
    new_generation,
    remove_dead_files,
    shard_name,
)
from tests.support.disk import names_in

INDEX = ShardIndex({"b": "two.safetensors", "a": "one.safetensors"}, 12, "x.digests")


def test_an_index_is_read_back_in_order(tmp_path: Path) -> None:
    INDEX.write(tmp_path, new_generation())
    read = ShardIndex.read(tmp_path)
    assert list(read.weight_map.items()) == list(INDEX.weight_map.items())
    assert read.digests == "x.digests"
    assert names_in(tmp_path) == {INDEX_NAME}


def test_it_has_the_form_that_hugging_face_tools_read(tmp_path: Path) -> None:
    INDEX.write(tmp_path, "00000000")
    parsed = json.loads((tmp_path / INDEX_NAME).read_text())
    assert parsed["metadata"]["total_size"] == 12
    assert parsed["weight_map"] == INDEX.weight_map


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/b", "..", ".", "a\\b", "a\0b", 3, None, ["x"]]
)
def test_names_outside_the_directory_are_refused(tmp_path: Path, name: object) -> None:
    for index in (
        {"weight_map": {"w": name}},
        {"weight_map": {}, "metadata": {"streamlink_digests": name}},
    ):
        (tmp_path / INDEX_NAME).write_text(json.dumps(index))
        with pytest.raises(CorruptStore, match="not a plain file name"):
            ShardIndex.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}'])
def test_what_is_no_index_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX_NAME).write_text(text)
    with pytest.raises(CorruptStore):
        ShardIndex.read(tmp_path)


def test_only_dead_files_of_ours_are_removed(tmp_path: Path) -> None:
    alive, dead = shard_name("aaaaaaaa", 0, 1), shard_name("bbbbbbbb", 0, 1)
    others = {"config.json", "model-00001-of-00001.safetensors", "model-zzzzzzzz.digests"}
    for name in {alive, dead, "model-bbbbbbbb.digests", "old.safetensors", *others}:
        (tmp_path / name).touch()
    ShardIndex({"w": alive}).write(tmp_path, "aaaaaaaa")
    remove_dead_files(tmp_path, {"old.safetensors", alive})
    assert names_in(tmp_path) == {alive, INDEX_NAME, *others}


def test_nothing_is_removed_where_the_index_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / INDEX_NAME).write_text("{")
    (tmp_path / shard_name("aaaaaaaa", 0, 1)).touch()
    remove_dead_files(tmp_path)
    assert len(names_in(tmp_path)) == 2
