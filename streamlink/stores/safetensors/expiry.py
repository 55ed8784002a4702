"""Removes partial models and spooled updates that are too old, from directories of safetensors.

Only names that streamlink itself gives are considered, and no symbolic link is followed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.stores.expiry import is_regular, remove_if_expired, remove_paths, unless_in_use
from streamlink.stores.files import disk_errors
from streamlink.stores.safetensors.beside import finish_placing
from streamlink.stores.safetensors.index import INDEX_NAME, ShardIndex, generation_of

__all__ = ["expire_partials", "expire_updates"]

_NUMBER = re.compile(r"([0-9a-f]{16}-)?[0-9]{1,9}")
_PARTIAL = (".part", ".partial")


def expire_partials(directory: Path, seconds: float) -> None:
    """Remove expired partial models from a directory of safetensors, each with all of its files.

    Raises:
        StoreError: they cannot be removed.
    """
    with disk_errors(directory, "removing expired partial models"):
        if directory.is_dir():
            # The lock is held while files are removed: no writer can begin to resume one of them
            # meanwhile.
            with unless_in_use(directory) as is_free:
                if is_free:
                    finish_placing(directory)
                for names in _partials(directory) if is_free else ():
                    paths = [directory / name for name in names]
                    remove_if_expired("a partial model", paths, seconds, remove_paths)


def expire_updates(directory: Path, seconds: float, files: Collection[str]) -> None:
    """Remove expired updates: directories with a number as name that hold only files of ours.

    Args:
        directory: of the spool.
        seconds: the age. A spool in use changes its directories more often than that.
        files: the names of files that an update may have besides those of a store.

    Raises:
        StoreError: they cannot be removed.
    """
    with disk_errors(directory, "removing expired updates"):
        found: list[os.DirEntry[str]] = []
        # Another server with the same spool may remove its own, and the empty spool, meanwhile.
        with suppress(FileNotFoundError), patiently(os.scandir, directory) as scan:
            found = [each for each in scan if _NUMBER.fullmatch(each.name)]
        for entry in found:
            with suppress(FileNotFoundError):
                _expire_update(entry, seconds, files)


def _expire_update(entry: os.DirEntry[str], seconds: float, files: Collection[str]) -> None:
    # A symbolic link is not followed: it may lead out of the spool.
    if not entry.is_dir(follow_symlinks=False):
        return
    path = Path(entry.path)
    inside = [path / name for name in patiently(os.listdir, path)]
    # One file that is not ours, and the whole directory stays: a user may have named it with a
    # number too.
    if all(_is_of_update(each, files) for each in inside):
        remove_if_expired("an update", [path, *inside], seconds, _remove_directory)


def _partials(directory: Path) -> list[list[str]]:
    """Return the files of each partial model, its journal first.

    The journal is removed first: files without a journal are leftovers that any later writer
    removes, but a journal without its files would be taken for a resumable transfer.

    Where the index is damaged it returns nothing: live shards cannot be told from leftovers then.
    """
    try:
        alive = ShardIndex.read(directory).files
    except FileNotFoundError:
        alive = set()
    except CorruptStore:
        return []
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in patiently(os.listdir, directory):
        if (generation := generation_of(name)) and is_regular(directory / name):
            found[generation].append(name)
    # Whole generations are spared, not only the files that the index names: a journal that outlived
    # its commit is left to the next writer, who removes it without touching live shards.
    spared = {generation_of(name) for name in alive}
    return [
        sorted(names, key=lambda name: (not name.endswith(".partial"), name))
        for generation, names in found.items()
        if generation not in spared and any(name.endswith(_PARTIAL) for name in names)
    ]


def _is_of_update(path: Path, files: Collection[str]) -> bool:
    is_ours = path.name in files or path.name == INDEX_NAME or bool(generation_of(path.name))
    return is_ours and is_regular(path)


def _remove_directory(paths: Sequence[Path]) -> None:
    # ``patiently`` may call it again from its beginning: what the first call has removed does not
    # matter to the second.
    patiently(shutil.rmtree, paths[0])
