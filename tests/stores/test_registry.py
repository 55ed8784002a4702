"""Which kind of store a path means, and that a kind needs nothing but its entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.cli.paths import COMPRESS
from streamlink.errors import StoreError
from streamlink.stores.kind import StoreKind
from streamlink.stores.registry import KINDS, kind_by_suffix, kind_named, kind_of, open_store


def test_names_and_suffixes_of_kinds_differ_and_the_command_line_lists_them() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert len({kind.suffix for kind in KINDS}) == len(KINDS)
    assert COMPRESS.split("|") == names


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_found_by_its_name_and_its_suffix(tmp_path: Path, kind: StoreKind) -> None:
    path = tmp_path / f"m{kind.suffix}"
    assert kind_named(kind.name) is kind_by_suffix(path) is kind_of(path) is kind
    assert kind.path_for(tmp_path / "m") == kind.path_for(path) == path
    assert not kind.holds_model(path)
    open_store(tmp_path / "m", kind.name)
    assert list(tmp_path.iterdir()) == []  # opening creates nothing


def test_a_file_with_a_suffix_is_found_without_it(tmp_path: Path) -> None:
    for kind in KINDS:
        if kind.suffix:
            kind.path_for(tmp_path / kind.name).touch()
            assert kind_of(tmp_path / kind.name) is kind


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="compress must be 'none' or 'zstd', not 'lzma'"):
        kind_named("lzma")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_file_is_no_directory_and_the_other_way_round(tmp_path: Path, kind: StoreKind) -> None:
    path = kind.path_for(tmp_path / "m")
    if kind.suffix:
        path.mkdir()
    else:
        path.touch()
    with pytest.raises(StoreError, match=f"a {kind.title} store is"):
        open_store(path, kind.name)
