"""``make bench-links`` and ``bench-peers``: their commands, one deadline, the worst status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
# Notes what it is asked for, and ends with the status that is set for that command.
PYTHON = """\
#!{python}
import os, sys
from pathlib import Path
words = sys.argv[3:]
with Path({folder!r}, "asked").open("a") as file:
    print(*words, file=file)
name = words[0] + "_large" * ("--large" in words) + "_first" * ("--runs" in words)
sys.exit(int(os.environ.get("STATUS_" + name, 0)))
"""

COMMANDS = {
    "bench-links": [["sites"], ["probe"], ["bwlimit"], ["traverse"], ["auto"],
                    ["links", "--large", "--runs", "1"], ["links", "--runs", "1"], ["finetune"],
                    ["links", "--large"], ["links"], ["numbers"]],
    "bench-peers": [["shipped"], ["peers"], ["numbers"]],
}  # fmt: skip

pytestmark = [
    pytest.mark.processes(quick=True),
    pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine"),
]


def make(target: str, folder: Path, *words: str, **status: int) -> tuple[int, list[list[str]]]:
    """Run a target with a python that measures nothing; returns status and what was asked."""
    program = folder / "bin" / "python"
    program.parent.mkdir()
    program.write_text(PYTHON.format(python=sys.executable, folder=str(folder)))
    program.chmod(0o755)
    for stamp in (".bench", ".links"):  # they are up to date
        (folder / stamp).touch()
    (folder / ".created").touch()
    env = {**os.environ, **{f"STATUS_{name}": str(code) for name, code in status.items()}}
    command = ["make", "-s", target, f"VENV={folder}", *words]
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    asked = (folder / "asked").read_text().splitlines()
    return done.returncode, [line.split() for line in asked]


def without_deadline(words: list[str]) -> list[str]:
    at = words.index("--deadline")
    return words[:at] + words[at + 2 :]


@pytest.mark.parametrize("target", list(COMMANDS))
def test_a_command_that_fails_does_not_keep_the_others_from_running(
    target: str, tmp_path: Path
) -> None:
    status, asked = make(target, tmp_path, sites=1, shipped=1)
    assert status != 0
    assert [without_deadline(words) for words in asked] == COMMANDS[target]


@pytest.mark.parametrize("failing", ["sites", "probe", "links_large", "links", "numbers"])
def test_the_target_fails_whichever_of_its_commands_has_failed(
    failing: str, tmp_path: Path
) -> None:
    status, asked = make("bench-links", tmp_path, **{failing: 1})
    assert (status != 0, len(asked)) == (True, len(COMMANDS["bench-links"]))


def test_a_first_pass_is_judged_with_what_repeats_it(tmp_path: Path) -> None:
    status, asked = make("bench-links", tmp_path, links_first=1, links_large_first=1)
    assert (status, len(asked)) == (0, len(COMMANDS["bench-links"]))


@pytest.mark.parametrize("fails", [0, 1])
def test_the_benchmarks_of_a_clone_are_run_before_the_peers(fails: int, tmp_path: Path) -> None:
    status, asked = make("bench-peers", tmp_path, "NVFLARE=clone", theirs=fails)
    assert [without_deadline(words) for words in asked] == [
        ["theirs", "--nvflare", "clone"], *COMMANDS["bench-peers"]
    ]  # fmt: skip
    assert (status != 0) == bool(fails)


@pytest.mark.parametrize("target", list(COMMANDS))
def test_the_target_succeeds_where_all_its_commands_do(target: str, tmp_path: Path) -> None:
    status, asked = make(target, tmp_path, "SMALL=1", "NVFLARE=clone")
    assert status == 0
    assert all("--small" in words for words in asked)


def test_whoever_names_a_commit_has_kept_runs_since_then_count(tmp_path: Path) -> None:
    _, asked = make("bench-links", tmp_path, "FROM=abc123")
    assert all(words[-2:] == ["--since", "abc123"] for words in asked)


def test_an_interrupted_command_ends_the_target(tmp_path: Path) -> None:
    status, asked = make("bench-links", tmp_path, sites=130)
    assert status != 0
    assert [words[0] for words in asked] == ["sites"]


@pytest.mark.parametrize("target", list(COMMANDS))
def test_all_commands_of_a_target_have_one_deadline_in_two_hours(
    target: str, tmp_path: Path
) -> None:
    began_at = int(time.time())
    _, asked = make(target, tmp_path, "NVFLARE=clone")
    [deadline] = {float(words[words.index("--deadline") + 1]) for words in asked}
    assert began_at <= deadline - 120 * 60 <= time.time()
