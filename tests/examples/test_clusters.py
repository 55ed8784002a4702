"""The scripts for clusters, against stand-ins for the batch system, SSH and ``streamlink``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY, environment
from tests.support.ports import KeptPort

FOLDER = REPOSITORY / "examples" / "clusters"
SCRIPTS = ["memory.pbs", "memory.slurm"]
SECONDS = 900
SHELLCHECK = shutil.which("shellcheck") or shutil.which(
    "shellcheck", path=str(Path(sys.prefix) / "bin")
)

pytestmark = pytest.mark.processes

# All stand-ins note how they were called. Those that start something on a node do it here.
NOTE = 'echo "${0##*/} $*" >>"$LOG"\n'
SSH = """
case " $* " in
*" -O exit "* | *" -N "*) exit 0 ;;
esac
exec bash -c "${@: -1}"
"""
SRUN = 'while [[ $1 == --* ]]; do shift; done; exec "$@"\n'
SCONTROL = 'tr , "\\n" <<<"$NODES"\n'
QSUB = """
tr , "\\n" <<<"$NODES" | sed p >"$PBS_FILE"
PBS_NODEFILE=$PBS_FILE PBS_JOBID=7.pbs PBS_O_WORKDIR=$PWD exec bash "${@: -1}"
"""
SBATCH = 'SLURM_JOB_NODELIST=$NODES SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=$PWD exec bash "${@: -1}"\n'
# The server ends when each client has come; a client fails if it is told to.
STREAMLINK = """
case " $* " in
*" --role=server "*)
    echo "  server listens on 127.0.0.1:50051" >&2
    exec 3<>"$FIFO"
    for ((number = 0; number < NUM_CLIENTS; number++)); do read -r _ <&3; done ;;
*" --role=client "*)
    echo here >"$FIFO"
    case " $* " in *" --client-idx=${FAILS:-none} "*) exit 3 ;; esac ;;
esac
"""
STAND_INS = {
    "ssh": SSH,
    "srun": SRUN,
    "scontrol": SCONTROL,
    "qsub": QSUB,
    "sbatch": SBATCH,
    "streamlink": STREAMLINK,
}


def submit(
    script: str, folder: Path, *, clients: int = 2, nodes: int = 3, **env: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Submit a script; return what it printed, and how the stand-ins were called."""
    put_in(folder / "bin", STAND_INS)
    os.mkfifo(folder / "fifo")
    log = folder / "log"
    given = {
        "NODES": ",".join(f"node-{number}" for number in range(nodes)),
        "NUM_CLIENTS": str(clients),
        "FIFO": str(folder / "fifo"),
        "PBS_FILE": str(folder / "nodefile"),
        "LOG": str(log),
        **env,
    }
    done = run(script, folder, given)
    return done, log.read_text("utf-8").splitlines()


def put_in(folder: Path, programs: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{NOTE}{text}", "utf-8")
        (folder / name).chmod(0o755)


def run(script: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    submits = "qsub" if script.endswith(".pbs") else "sbatch"
    # ``timeout`` ends all that a script has started, too.
    return subprocess.run(
        ["timeout", str(SECONDS), submits, str(FOLDER / script)],
        cwd=folder, env={**environment(), "PATH": path, **env}, capture_output=True, text=True,
    )  # fmt: skip


def roles(log: list[str]) -> list[str]:
    return [each for each in log if each.startswith("streamlink profile llm")]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_well_formed_and_says_that_it_is_untried(script: str) -> None:
    subprocess.run(["bash", "-n", FOLDER / script], check=True)
    assert "UNTRIED ON A CLUSTER" in (FOLDER / script).read_text("utf-8")


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck_has_nothing_to_say(script: str) -> None:
    assert SHELLCHECK is not None
    subprocess.run([SHELLCHECK, "-s", "bash", FOLDER / script], check=True)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("clients", [1, 3])
def test_one_role_runs_on_each_node_and_a_tunnel_leads_to_each_client(
    script: str, clients: int, tmp_path: Path
) -> None:
    done, log = submit(
        script, tmp_path, clients=clients, nodes=clients + 1, MODEL_NAME="some/large model"
    )
    assert done.returncode == 0, done.stderr
    started = roles(log)
    assert len(started) == clients + 1
    assert all("--model-name=some/large model" in each for each in started)
    assert all(f"--clients={clients} " in each for each in started)
    for number in range(clients):
        assert any(f"--client-idx={number}" in each for each in started)
        node = f"node-{number + 1}"
        assert any(
            each.startswith("ssh -f -N -M") and each.endswith(f"127.0.0.1:50051 {node}")
            for each in log
        )
        assert any(each.startswith("ssh -S") and each.endswith(f"-O exit {node}") for each in log)
    on_nodes = " ".join(each for each in log if "profile llm" in each and not each.startswith("st"))
    assert set(re.findall(r"node-\d", on_nodes)) == {f"node-{n}" for n in range(clients + 1)}
    assert log[-1 - clients].startswith("streamlink profile analyze memory_profiles/7")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_client_that_fails_is_named_and_the_rest_is_analysed(script: str, tmp_path: Path) -> None:
    done, log = submit(script, tmp_path, FAILS="1")
    assert done.returncode == 1
    assert "error: client_1 failed; see memory_profiles/7" in done.stderr
    assert any(each.startswith("streamlink profile analyze") for each in log)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_server_that_ends_before_it_listens_is_named(script: str, tmp_path: Path) -> None:
    done, log = submit(script, tmp_path, SETUP="exit 5")
    assert done.returncode == 1
    assert "error: the server ended; see memory_profiles/7" in done.stderr
    assert not roles(log)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    ("clients", "nodes", "said"),
    [(2, 2, "need 3 nodes, and there are 2"), (0, 3, "NUM_CLIENTS is a number from 1, not '0'")],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    script: str, clients: int, nodes: int, said: str, tmp_path: Path
) -> None:
    done, log = submit(script, tmp_path, clients=clients, nodes=nodes)
    assert done.returncode == 1
    assert said in done.stderr
    assert not roles(log)


def test_without_a_tunnel_clients_connect_to_the_node_of_the_server(tmp_path: Path) -> None:
    done, log = submit(
        "memory.slurm", tmp_path, TUNNEL="no", SERVER_CONFIG="s.yaml", CLIENT_CONFIG="c.yaml"
    )
    assert done.returncode == 0, done.stderr
    assert not [each for each in log if each.startswith("ssh")]
    started = roles(log)
    assert all("--server-uri=node-0:50051" in each for each in started)
    assert sorted(each.rpartition("--config=")[2] for each in started) == ["c.yaml"] * 2 + [
        "s.yaml"
    ]


@pytest.mark.skipif(
    find_spec("memray") is None or find_spec("transformers") is None,
    reason="needs streamlink-fl[memray] and transformers",
)
@pytest.mark.timeout(SECONDS + 20)  # three processes import PyTorch, one after the other
def test_with_streamlink_itself_the_job_runs_and_is_analysed(tmp_path: Path) -> None:
    programs = {**STAND_INS, "streamlink": 'exec "$PYTHON" -m streamlink "$@"\n'}
    put_in(tmp_path / "bin", programs)
    port = KeptPort()
    given = {
        "NODES": "node-0,node-1",
        "NUM_CLIENTS": "1",
        "PORT": str(port.number),
        "PBS_FILE": str(tmp_path / "nodefile"),
        "LOG": str(tmp_path / "log"),
        "PYTHON": sys.executable,
        "OUTPUT_DIR": "out",
    }
    done = run("memory.pbs", tmp_path, given)
    port.close()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "report: out/analysis/report.html" in done.stdout
