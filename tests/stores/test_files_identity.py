from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlink.errors import SourceChanged
from streamlink.stores.files import FileIdentity


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"1234")
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_an_untouched_file_is_the_same(path: Path, fd: int) -> None:
    identity = FileIdentity.of(fd)
    path.read_bytes()
    path.chmod(0o600)
    path.with_name("link").hardlink_to(path)
    identity.require_same(fd, path)
    identity.require_there(path)


def test_a_write_that_keeps_the_size_is_told_by_the_time(path: Path, fd: int) -> None:
    identity = FileIdentity.of(fd)
    path.write_bytes(b"1243")
    with pytest.raises(SourceChanged, match="was written to while") as caught:
        identity.require_same(fd, path, tensor="w", inside=3)
    error = caught.value
    assert (error.path, error.tensor, error.inside) == (str(path), "w", 3)


def test_another_size_is_told_with_both(path: Path, fd: int) -> None:
    identity = FileIdentity.of(fd)
    os.truncate(path, 3)
    with pytest.raises(SourceChanged, match="changed from 4 to 3 bytes"):
        identity.require_same(fd, path)


def test_another_file_of_that_name_is_told_and_a_removed_one_is_not(path: Path, fd: int) -> None:
    identity = FileIdentity.of(fd)
    path.unlink()
    identity.require_there(path)
    path.write_bytes(b"1234")
    identity.require_same(fd, path)
    with pytest.raises(SourceChanged, match="another file replaced"):
        identity.require_there(path)
