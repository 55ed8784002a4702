"""What cannot be written is found before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import StoreError
from streamlink.stores import CompressedStore, SafetensorsStore
from streamlink.stores.preflight import require_replaceable, require_writable
from tests.support.disk import names_in, with_rights, without_rights


def test_a_place_that_can_be_written_stays_as_it_is(tmp_path: Path) -> None:
    SafetensorsStore(tmp_path / "new" / "model").check_writable()
    CompressedStore(tmp_path / "new" / "model.slz").check_writable()
    require_writable(tmp_path, "no file can be made")
    assert names_in(tmp_path) == set()


@pytest.mark.parametrize("name", ["model", "model.slz", "missing/model", "missing/model.slz"])
def test_a_directory_of_somebody_else_is_named_with_the_remedy(name: str) -> None:
    with without_rights() as place:
        path = place / name
        store = CompressedStore(path) if path.suffix else SafetensorsStore(path)
        with pytest.raises(StoreError) as refused:
            store.check_writable()
    told = str(refused.value)
    assert f"{place}" in told
    assert "no model can be stored here: Permission denied" in told
    assert "name a directory that this process" in told


@pytest.mark.parametrize("name", ["file", "file/below", "file/far/below"])
def test_a_file_in_the_way_of_a_directory_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Not a directory"):
        require_writable(tmp_path / name, "no file can be made")


def test_a_link_that_leads_nowhere_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="link: no file can be made: No such file"):
        require_writable(tmp_path / "link", "no file can be made")


@pytest.mark.parametrize("name", ["model.slz", "model.slz.part"])
def test_a_directory_in_place_of_a_compressed_model_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError, match=f"{name}: .*: this is a directory"):
        CompressedStore(tmp_path / "model.slz").check_writable()


def test_what_another_user_left_half_written_is_found() -> None:
    with without_rights() as place:
        aside = place / "model.slz.part"
        with with_rights():
            aside.touch(0o444)
            place.chmod(0o777)
        with pytest.raises(StoreError, match=f"{aside}: no: this file is a leftover"):
            require_replaceable(place / "model.slz", aside, "no")
