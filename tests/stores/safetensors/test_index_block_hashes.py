from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import CorruptStore
from streamlink.model.digest import BLOCK_BYTES
from streamlink.stores.safetensors.index import read_block_hashes, write_block_hashes
from tests.support.models import float_spec

SPEC = float_spec(BLOCK_BYTES // 2)
HASHES = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.digests"
    write_block_hashes(path, SPEC, HASHES)
    return path


def test_hashes_are_read_back(path: Path) -> None:
    assert read_block_hashes(path, SPEC) == HASHES


def test_a_missing_file_is_left_to_the_caller(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_block_hashes(path.with_name("other"), SPEC)


def test_every_damaged_byte_is_noticed(path: Path) -> None:
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(CorruptStore, match="damaged"):
            read_block_hashes(path, SPEC)


@pytest.mark.parametrize("length", [0, 10, 95])
def test_a_file_cut_short_is_noticed(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptStore, match="damaged or of another model"):
        read_block_hashes(path, SPEC)


def test_the_hashes_of_another_model_are_refused(path: Path) -> None:
    with pytest.raises(CorruptStore, match="another model"):
        read_block_hashes(path, float_spec(BLOCK_BYTES // 2 - 1))
