"""``examples/memory``: the scripts take the number of clients from the environment."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY, environment

SCRIPTS = REPOSITORY / "examples" / "memory"

pytestmark = [
    pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]"),
    pytest.mark.timeout(900),
]


def run(script: str, folder: Path, clients: int, *options: str) -> subprocess.CompletedProcess[str]:
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    program = tools / "streamlink"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m streamlink "$@"\n', "utf-8")
    program.chmod(0o755)
    found = environment()
    env = {**found, "PATH": f"{tools}:{found['PATH']}", "NUM_CLIENTS": str(clients)}
    command = ["sh", str(SCRIPTS / script), *options, "--output-dir", str(folder)]
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)


@pytest.mark.processes
def test_the_number_of_clients_comes_from_the_environment_and_the_analysis_follows(
    tmp_path: Path,
) -> None:
    clients = 1  # without the environment there are 2
    options = ("--version", "optimized", "--rounds", "1", "--no-plots")
    done = run("llm.sh", tmp_path, clients, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "llm").iterdir()
    assert len(list((folder / "profiles").iterdir())) == clients + 1
    assert (folder / "analysis" / "report.html").is_file()


@pytest.mark.processes
def test_the_script_of_resnet_refuses_what_the_command_refuses(tmp_path: Path) -> None:
    done = run("resnet.sh", tmp_path, 2, "--version", "fast")
    assert done.returncode == 2
    assert "--version 'fast'" in done.stderr
