"""What interrupted transfers and crashed runs have left, once it is too old to be taken up again.

Age is the time since the last change of any file of it. What a living process writes has its lock,
or changes all the time, and is not touched. Only names that streamlink itself gives are looked at,
and no symbolic link is followed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.stores.files import disk_errors, remove
from streamlink.stores.index import INDEX_NAME, ShardIndex, generation_of

__all__ = ["expire_file", "expire_partials", "expire_updates"]

logger = logging.getLogger("streamlink.stores")

_NUMBER = re.compile(r"([0-9a-f]{16}-)?[0-9]{1,9}")
_PARTIAL = (".part", ".partial")
_DAY = 86400.0


def expire_partials(directory: Path, seconds: float) -> None:
    """Remove partial models from a directory of safetensors, all files of one together.

    Raises:
        StoreError: they cannot be removed.
    """
    with disk_errors(directory, "removing expired partial models"):
        if directory.is_dir():
            with _unless_in_use(directory) as is_free:
                for names in _partials(directory) if is_free else ():
                    paths = [directory / name for name in names]
                    _expire("a partial model", paths, seconds, _unlink)


def expire_file(path: Path, seconds: float) -> None:
    """Remove one partial file; raises as ``expire_partials`` does."""
    with disk_errors(path, "removing an expired partial model"):
        if _is_regular(path):
            with _unless_in_use(path) as is_free:
                if is_free:
                    _expire("a partial model", [path], seconds, _unlink)


def expire_updates(directory: Path, seconds: float, files: Collection[str]) -> None:
    """Remove spooled updates: directories that are numbered as ours and hold only our files.

    Args:
        directory: of the spool.
        seconds: the age. A spool that is in use changes its directories more often than that.
        files: the names an update may have beside those of a store.

    Raises:
        StoreError: they cannot be removed.
    """
    with disk_errors(directory, "removing expired updates"):
        with patiently(os.scandir, directory) as scan:
            found = [each for each in scan if _NUMBER.fullmatch(each.name)]
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                inside = [path / name for name in patiently(os.listdir, path)]
                if all(_is_of_update(each, files) for each in inside):
                    _expire("an update", [path, *inside], seconds, _remove_first)


def _expire(
    what: str, paths: Sequence[Path], seconds: float, act: Callable[[Sequence[Path]], None]
) -> None:
    age = time.time() - max(path.lstat().st_mtime for path in paths)
    if age > seconds:
        logger.info(
            "%s: removing %s that nobody went on with for %.1f days", paths[0], what, age / _DAY
        )
        act(paths)


def _partials(directory: Path) -> list[list[str]]:
    """Return each partial model's files, its journal first; none where the index is damaged."""
    try:
        alive = ShardIndex.read(directory).files
    except FileNotFoundError:
        alive = set()
    except CorruptStore:
        return []
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in patiently(os.listdir, directory):
        if (generation := generation_of(name)) and _is_regular(directory / name):
            found[generation].append(name)
    spared = {generation_of(name) for name in alive}
    return [
        sorted(names, key=lambda name: (not name.endswith(".partial"), name))
        for generation, names in found.items()
        if generation not in spared and any(name.endswith(_PARTIAL) for name in names)
    ]


@contextmanager
def _unless_in_use(path: Path) -> Iterator[bool]:
    """Hold the writer's lock; False: a living process has it."""
    fd = patiently(os.open, path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _is_of_update(path: Path, files: Collection[str]) -> bool:
    is_ours = path.name in files or path.name == INDEX_NAME or bool(generation_of(path.name))
    return is_ours and _is_regular(path)


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        remove(path)


def _remove_first(paths: Sequence[Path]) -> None:
    patiently(shutil.rmtree, paths[0])
