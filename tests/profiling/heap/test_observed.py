"""What a folder of a run holds, and when it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.profiling.heap.observation import RunError
from streamlink.profiling.heap.observed import Run, read_run
from tests.support.profiles import a_record


def read(folder: Path) -> Run:
    return read_run(folder, None)


def test_all_processes_of_a_run_are_read_the_server_first(tmp_path: Path) -> None:
    for client in (1, 0):
        a_record(role="client", client=client).write(tmp_path)
    a_record().write(tmp_path)
    run = read(tmp_path)
    assert [each.subject.label for each in run.observations] == ["server", "client 0", "client 1"]


def test_with_mpi_a_process_is_a_rank_and_its_role(tmp_path: Path) -> None:
    a_record(rank=0, carrier="mpi").write(tmp_path)
    a_record(rank=1, carrier="mpi", role="client").write(tmp_path)
    labels = [each.subject.label for each in read(tmp_path).observations]
    assert labels == ["rank 0 (server)", "rank 1 (client)"]


def test_a_damaged_record_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    a_record().write(tmp_path)
    (tmp_path / "processes" / "client_0_original.json").write_text('{"version": ', "utf-8")
    run = read(tmp_path)
    assert len(run.observations) == 1
    assert any("client_0_original.json is damaged" in each for each in run.faults)


def test_a_process_that_failed_is_named(tmp_path: Path) -> None:
    a_record(error="OutOfMemory: killed").write(tmp_path)
    run = read(tmp_path)
    assert any("server_original_plain failed (OutOfMemory: killed)" in each for each in run.faults)
    assert not run.observations[0].is_whole


def test_a_profile_that_a_record_names_but_that_is_missing_is_named(tmp_path: Path) -> None:
    a_record(profiled=True).write(tmp_path)
    expected = "profiles/server_original_memory_profile.bin is missing"
    assert any(expected in each for each in read(tmp_path).faults)


def test_settings_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    a_record().write(tmp_path)
    assert any("experiment.json is missing" in each for each in read(tmp_path).faults)
    (tmp_path / "experiment.json").write_text("{", "utf-8")
    assert any("experiment.json is damaged" in each for each in read(tmp_path).faults)


def test_two_models_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    a_record().write(tmp_path)
    a_record("optimized", model_bytes=123).write(tmp_path)
    with pytest.raises(RunError, match=r"two runs: .*123 bytes.*10000000; move .* its own"):
        read(tmp_path)


def test_one_name_twice_is_two_runs(tmp_path: Path) -> None:
    a_record().write(tmp_path)
    name = "server_original_memory_profile.bin"
    (tmp_path / name).touch()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / name).touch()
    with pytest.raises(RunError, match=r"holds two runs: server_original_memory_profile\.bin"):
        read(tmp_path)


def test_a_folder_with_runs_is_refused_with_their_names(tmp_path: Path) -> None:
    for name in ("run_1", "run_2"):
        a_record().write(tmp_path / name)
    with pytest.raises(RunError, match="has 2 runs: run_1, run_2; name one of them"):
        read(tmp_path)


def test_a_folder_with_one_run_is_refused_with_its_path(tmp_path: Path) -> None:
    a_record().write(tmp_path / "run_1")
    with pytest.raises(RunError, match=r"did you mean .*/run_1\?"):
        read(tmp_path)


def test_what_is_no_folder_of_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"neither processes/\*.json nor profiles"):
        read(tmp_path)
    with pytest.raises(RunError, match="is no folder"):
        read(tmp_path / "nowhere")
