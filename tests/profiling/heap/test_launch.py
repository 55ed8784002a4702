"""Jobs as processes: whatever ends one of them ends the job, and leaves what it has written."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind
from streamlink.profiling.heap.experiments import changed, default_client, default_server
from streamlink.profiling.heap.launch import mpiexec
from streamlink.profiling.heap.record import ProcessRecord, read_record
from streamlink.profiling.heap.series import run_series
from tests.support.commands import REPOSITORY, environment

processes = pytest.mark.processes
pytestmark = [
    pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]"),
    pytest.mark.timeout(600),
]

SIZE = 4 << 20


def experiment(**options: Any) -> Experiment:
    kind = Kind.SYNTHETIC
    made = Experiment(
        kind=kind,
        server=default_server(kind, model_bytes=SIZE, tensors=3),
        client=default_client(kind),
        **options,
    )
    return changed(made, rounds=2)


def run(folder: Path, made: Experiment, *versions: str, **options: Any) -> list[str]:
    found = {
        "repeats": 1,
        "timeout_seconds": 300.0,
        "end_seconds": 300.0,
        "progress": lambda event: None,
        **options,
    }
    return run_series(folder, made, versions, **found)


def records(folder: Path) -> dict[str, ProcessRecord]:
    return {each.stem: read_record(each) for each in (folder / "processes").glob("*.json")}


@processes
def test_both_versions_leave_the_files_of_the_seeds_and_the_same_model(tmp_path: Path) -> None:
    assert run(tmp_path, experiment(), "original", "optimized") == []
    assert {each.name for each in (tmp_path / "profiles").iterdir()} == {
        f"{who}_{version}_memory_profile.bin"
        for who in ("server", "client_0", "client_1")
        for version in ("original", "optimized")
    }
    found = records(tmp_path)
    assert len(found) == 12
    assert {each.error for each in found.values()} == {None}
    servers = [each for each in found.values() if each.role == "server"]
    assert len({each.digest for each in servers}) == 1
    assert {len(each.rounds) for each in servers} == {2}
    assert {each.model_bytes for each in found.values()} == {SIZE}
    assert (tmp_path / "experiment.json").is_file()
    assert not (tmp_path / "first-model").exists()


@processes
@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs streamlink-fl[mpi]")
def test_two_clients_in_one_rank_take_part_and_leave_one_profile(tmp_path: Path) -> None:
    grpc, mpi = tmp_path / "grpc", tmp_path / "mpi"
    assert run(grpc, experiment(), "optimized", profiled=(False,)) == []
    made = experiment(carrier="mpi", clients_per_rank=2)
    assert run(mpi, made, "optimized", "original", profiled=(True,)) == []
    names = {each.name for each in (mpi / "profiles").iterdir()}
    assert names == {
        f"mpi_rank_{rank}_{version}_memory_profile.bin"
        for rank in (0, 1)
        for version in ("original", "optimized")
    }
    digests = {each.digest for each in (*records(grpc).values(), *records(mpi).values())}
    assert len(digests - {""}) == 1


@processes
def test_ends_with_different_chunk_sizes_agree_on_the_smaller_one(tmp_path: Path) -> None:
    made = changed(experiment(), chunk_bytes=1 << 20, client_chunk_bytes=1 << 18)
    assert made.server.comm.model_chunk_size != made.client.comm.model_chunk_size
    assert run(tmp_path, made, "configured", profiled=(False,)) == []


@processes
def test_a_client_that_is_killed_under_memray_ends_the_job_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    killed: list[int] = []

    def kill(event: Mapping[str, Any]) -> None:
        if event["event"] == "round" and not killed:
            killed.extend(clients_of(tmp_path)[:1])
            os.kill(killed[0], signal.SIGKILL)

    made = changed(experiment(), rounds=500)
    (failure, *rest) = run(tmp_path, made, "original", profiled=(True,), progress=kill)
    assert not rest
    assert "was killed by SIGKILL, as the kernel does when memory runs out" in failure
    assert "original: client_" in failure
    assert str(tmp_path / "logs") in failure
    assert clients_of(tmp_path) == []
    # Those that were ended by us have closed their profiles, and say so.
    assert {each.error for each in records(tmp_path).values()} == {"it was stopped by a signal"}
    assert run(tmp_path / "again", experiment(), "optimized", profiled=(False,)) == []


@processes
def test_a_job_that_takes_too_long_is_ended_and_named(tmp_path: Path) -> None:
    made = changed(experiment(), rounds=100_000)
    (failure,) = run(tmp_path, made, "original", profiled=(False,), timeout_seconds=15.0)
    assert failure == "original_plain took longer than --timeout allows"
    assert clients_of(tmp_path) == []


@processes
def test_a_command_that_is_interrupted_leaves_no_process_and_what_it_has(tmp_path: Path) -> None:
    words = ["profile", "synthetic", "--model-size", "4MiB", "--rounds", "100000"]
    words += ["--end-timeout", "500"]  # beside a busy neighbour each may need its time
    command = [sys.executable, "-m", "streamlink", *words, "--output-dir", str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "round 2" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(500) == 130, rest
    process.stderr.close()
    (folder,) = (tmp_path / "synthetic").iterdir()
    assert clients_of(folder) == []
    assert records(folder).keys() == {"server_original", "client_0_original", "client_1_original"}
    assert list((folder / "profiles").iterdir())
    assert not list(folder.glob("model-*"))


@processes
def test_a_model_that_cannot_be_made_is_named_before_anything_starts(tmp_path: Path) -> None:
    made = experiment()
    order = made.server.order
    assert order.model is not None
    model = order.model.model_copy(update={"name": "resnet99"})
    server = made.server.model_copy(update={"order": order.model_copy(update={"model": model})})
    with pytest.raises(ExperimentError, match="resnet99"):
        run(tmp_path, made.model_copy(update={"server": server}), "original")


def test_without_mpiexec_the_other_carrier_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExperimentError, match="or use --carrier grpc"):
        mpiexec(tmp_path)


def clients_of(folder: Path) -> list[int]:
    """Return the processes of the job in ``folder``, clients first."""
    found = {}
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if any(str(folder) in word for word in words) and "-m" in words:
            found[each.pid] = " ".join(words)
    return sorted(found, key=lambda pid: '"role":"server"' in found[pid])
