"""The folder of a process is gone after it, whichever way it ended."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamlink.integrations.folders import own_folder


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
import sys
from pathlib import Path
from streamlink.integrations.folders import own_folder

with own_folder("spool", sys.argv[1]) as path:
    (path / "object").write_bytes(b"bytes")
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.mark.processes(quick=True)
@pytest.mark.parametrize("how", [signal.SIGKILL, None])
def test_the_folder_of_a_killed_process_goes_with_the_next_one(
    tmp_path: Path, how: signal.Signals | None
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        with own_folder("spool", tmp_path):
            assert path.is_dir()
        if how is not None:
            process.send_signal(how)
    assert path.exists() == (how is not None)
    with own_folder("spool", tmp_path):
        assert not path.exists()
