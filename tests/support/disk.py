"""Trouble for stores on disk: processes killed at a system call, damaged files, full disks."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from streamlink.model.copy import copy_model
from streamlink.model.spec import ModelSpec
from streamlink.stores import CompressedStore, SafetensorsStore
from tests.support.models import float_spec, pattern_model
from tests.support.waiting import WAIT

CRASH_SPEC = float_spec(5, 700_000, 3)
"""The model that a crashing process was writing."""


def disk_store(path: Path) -> CompressedStore | SafetensorsStore:
    """Return the store whose kind the path's name tells."""
    if path.suffix == ".slz":
        return CompressedStore(path, reserve_bytes=0)
    return SafetensorsStore(path, shard_bytes=1 << 20)


def crash_at(path: Path, call: str, count: int, *, after: bool) -> None:
    """Let a process replace the model at ``path`` and be killed at its ``count``-th ``os.call``."""
    command = [sys.executable, "-m", "tests.support.disk", str(path), call, str(count), str(after)]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2], timeout=WAIT)
    assert done.returncode == -signal.SIGKILL


def flip(path: Path, offset: int) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def flip_unnoticed(path: Path, offset: int, count: int) -> None:
    """Change one bit of each of ``count`` bytes, and restore the time: only a hash shows it."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        data = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 1 for byte in data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@contextlib.contextmanager
def largest_file(length: int) -> Iterator[None]:
    """Let the system refuse to make any file longer than ``length``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def without_rights() -> Iterator[Path]:
    """Yield a directory in which this process may read and not write, also where it is root's."""
    with tempfile.TemporaryDirectory() as name:
        directory, user = Path(name), os.geteuid()
        directory.chmod(0o755 if user == 0 else 0o555)
        os.seteuid(65534 if user == 0 else user)
        try:
            yield directory
        finally:
            os.seteuid(user)
            directory.chmod(0o755)


@contextlib.contextmanager
def with_rights() -> Iterator[None]:
    """Within ``without_rights``, act as the user that this process began as."""
    user = os.geteuid()
    os.seteuid(os.getuid())
    try:
        yield
    finally:
        os.seteuid(user)


def peak_of(work: Callable[[], object]) -> int:
    """Return the most bytes that Python and NumPy had allocated at once during ``work``."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def names_in(directory: Path) -> set[str]:
    return set(os.listdir(directory))


def _replace_and_die(path: Path, spec: ModelSpec, call: str, count: int, *, after: bool) -> None:
    original, left = getattr(os, call), [count]

    def dying(*args: object, **kwargs: object) -> object:
        left[0] -= 1
        if left[0] == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, call, dying)
    source = pattern_model(spec, seed=9)
    copy_model(source, disk_store(path).begin(spec), piece_bytes=100_000)


if __name__ == "__main__":
    _, where, name, number, is_after = sys.argv
    _replace_and_die(Path(where), CRASH_SPEC, name, int(number), after=is_after == "True")
