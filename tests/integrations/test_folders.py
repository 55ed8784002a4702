"""The folder of a process is gone after it, whichever way it ended."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from streamlink.integrations.folders import own_folder
from tests.support.peers import until
from tests.support.waiting import WAIT

# Each folder has a small process beside it.
pytestmark = pytest.mark.processes(quick=True)


def test_two_owners_at_a_time_have_two_folders_and_both_are_gone_at_the_end(tmp_path: Path) -> None:
    with own_folder("spool", tmp_path) as one, own_folder("spool", tmp_path) as other:
        (one / "object").write_bytes(b"bytes")
        assert sorted(tmp_path.iterdir()) == sorted([one, other])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_nobody_holds_is_removed_with_its_content(tmp_path: Path) -> None:
    left = tmp_path / "spool-left" / "object"
    left.mkdir(parents=True)
    with own_folder("spool", tmp_path) as path:
        assert list(tmp_path.iterdir()) == [path]


def test_a_folder_whose_owner_lives_and_one_of_another_kind_stay(tmp_path: Path) -> None:
    with own_folder("model", tmp_path) as other, own_folder("spool", tmp_path) as mine:
        with own_folder("spool", tmp_path):
            assert other.is_dir()
            assert mine.is_dir()


def test_a_link_with_such_a_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "file").mkdir(parents=True)
    (tmp_path / "spool-link").symlink_to(tmp_path / "elsewhere")
    with own_folder("spool", tmp_path):
        assert (tmp_path / "elsewhere" / "file").exists()


def test_a_folder_that_is_being_removed_is_left_to_who_removes_it(tmp_path: Path) -> None:
    left = tmp_path / "spool-left"
    left.mkdir()
    fd = os.open(left, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        with own_folder("spool", tmp_path):
            assert left.is_dir()
    finally:
        os.close(fd)


PROGRAM = """
import os
import sys
from pathlib import Path
from streamlink.integrations.folders import own_folder

with own_folder("spool", sys.argv[1]) as path:
    (path / "object").write_bytes(b"bytes")
    print(path, flush=True)
    if sys.stdin.read() == "now":
        os._exit(1)
"""


@contextmanager
def an_owner(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start another process, which makes a folder in ``parent``."""
    command = [sys.executable, "-c", PROGRAM, str(parent)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("how", ["killed", "ended without its own code", "ended"])
def test_the_folder_of_a_process_goes_with_it(tmp_path: Path, how: str) -> None:
    with an_owner(tmp_path) as (process, path):
        with own_folder("spool", tmp_path):
            assert path.is_dir()
        [watch] = psutil.Process(process.pid).children()
        if how == "killed":
            process.kill()
        process.communicate("now" if how == "ended without its own code" else "")
        watch.wait(WAIT)
    assert process.returncode == {"killed": -signal.SIGKILL, "ended": 0}.get(how, 1)
    assert list(tmp_path.iterdir()) == []


FORKS = """
import os
import signal
import sys
from streamlink.integrations.folders import own_folder

with own_folder("spool", sys.argv[1]) as path:
    if os.fork() == 0:
        if sys.argv[2] == "lives":
            os.kill(os.getppid(), signal.SIGKILL)
            sys.stdin.read()
        sys.exit(0)
    os.wait()
    print(path.is_dir(), flush=True)
"""


def test_a_forked_child_that_ends_leaves_the_folder_to_its_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path), "ends"],
        capture_output=True, text=True, timeout=WAIT, check=True,
    )  # fmt: skip
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_that_lives_on_does_not_keep_the_folder_of_its_parent(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path), "lives"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(WAIT) == -signal.SIGKILL
        until(lambda: not list(tmp_path.iterdir()))


def test_the_folder_of_a_process_that_was_killed_with_its_watch_goes_with_the_next_one(
    tmp_path: Path,
) -> None:
    with an_owner(tmp_path) as (process, path):
        [watch] = psutil.Process(process.pid).children()
        watch.kill()
        process.kill()
    assert path.is_dir()
    with own_folder("spool", tmp_path):
        assert not path.exists()


def test_an_owner_removes_its_folder_though_its_watch_was_killed(tmp_path: Path) -> None:
    # Not found by its command line: that is empty for a moment while a new process starts.
    before = set(psutil.Process().children())
    with own_folder("spool", tmp_path) as path:
        [watch] = set(psutil.Process().children()) - before
        watch.kill()
    assert not path.exists()
