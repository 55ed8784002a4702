"""Records of processes: their names, and that nothing is overwritten."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.profiling.heap.record import (
    ProcessRecord,
    RoundRecord,
    profile_name,
    read_record,
    record_path,
)


def record(**facts: object) -> ProcessRecord:
    given = {
        "version": "original",
        "repeat": 1,
        "role": "server",
        "client": None,
        "rank": None,
        "carrier": "grpc",
        "profiled": True,
        "profile": None,
        "base_bytes": 100,
        "peak_bytes": 150,
        "model_bytes": 4,
        "samples": [],
        "rounds": [],
        "error": None,
    }
    return ProcessRecord.model_validate({**given, **facts})


@pytest.mark.parametrize(
    ("client", "rank", "expected"),
    [
        (None, None, "server_original_memory_profile.bin"),
        (1, None, "client_1_original_memory_profile.bin"),
        (None, 0, "mpi_rank_0_original_memory_profile.bin"),
        (0, 2, "mpi_rank_2_original_memory_profile.bin"),
    ],
)
def test_a_profile_is_named_as_in_the_seeds(
    client: int | None, rank: int | None, expected: str
) -> None:
    assert profile_name("original", 1, client=client, rank=rank) == expected


def test_further_repeats_have_their_number_in_the_name() -> None:
    assert profile_name("x", 2, client=None, rank=None) == "server_x_2_memory_profile.bin"


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 1 << 40)), max_size=5),
    st.lists(st.floats(0, 1e6), max_size=5),
)
def test_a_record_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, samples: list[tuple[float, int]], times: list[float]
) -> None:
    rounds = [RoundRecord(round=at, seconds=each) for at, each in enumerate(times)]
    written = record(samples=samples, rounds=rounds, error="it died")
    assert read_record(written.write(tmp_path_factory.mktemp("run"))) == written


def test_profiled_and_plain_runs_have_files_of_their_own(tmp_path: Path) -> None:
    paths = {record(profiled=each).write(tmp_path) for each in (True, False)}
    assert paths == {
        record_path(tmp_path, "server_original"),
        record_path(tmp_path, "server_original_plain"),
    }


def test_a_record_is_never_overwritten(tmp_path: Path) -> None:
    path = record().write(tmp_path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        record(peak_bytes=200).write(tmp_path)
    assert path.read_bytes() == before


def test_what_is_over_the_base_is_never_negative() -> None:
    assert record().over_base_bytes == 50
    assert record(peak_bytes=90).over_base_bytes == 0
