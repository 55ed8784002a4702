"""The figures that are promised, at a size that a test can wait for."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from streamlink.profiling.heap.experiment import Experiment, Kind
from streamlink.profiling.heap.experiments import changed, default_client, default_server
from streamlink.profiling.heap.record import ProcessRecord, read_record
from streamlink.profiling.heap.series import run_series

pytestmark = [
    pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]"),
    pytest.mark.processes,
    pytest.mark.timeout(900),
]

MiB = 1 << 20
SIZE = 96 * MiB
LESS = 0.6  # at least 40 % lower


def run(folder: Path, *versions: str, tensors: int, profiled: bool) -> dict[str, ProcessRecord]:
    kind = Kind.SYNTHETIC
    made = Experiment(
        kind=kind,
        server=default_server(kind, model_bytes=SIZE, tensors=tensors),
        client=default_client(kind),
    )
    failures = run_series(
        folder,
        changed(made, rounds=2),
        versions,
        repeats=1,
        timeout_seconds=600.0,
        end_seconds=600.0,
        progress=lambda event: None,
        profiled=(profiled,),
    )
    assert not failures
    found = (folder / "processes").glob("*.json")
    return {each.stem.removesuffix("_plain"): read_record(each) for each in found}


@pytest.mark.parametrize("tensors", [1, 12])
def test_the_kernel_sees_windows_at_the_server_and_one_model_at_a_client(
    tmp_path: Path, tensors: int
) -> None:
    seen = run(tmp_path, "original", "optimized", tensors=tensors, profiled=False)
    held = default_server(Kind.SYNTHETIC).comm.model_chunk_size  # of one stream, at most
    assert seen["server_optimized"].over_base_bytes <= 64 * MiB + 2 * held
    for who in ("client_0", "client_1"):
        assert seen[f"{who}_optimized"].over_base_bytes <= SIZE + 64 * MiB
    for who in ("server", "client_0", "client_1"):
        original = seen[f"{who}_original"].over_base_bytes
        assert seen[f"{who}_optimized"].over_base_bytes <= LESS * original, who
    assert seen["server_original"].digest == seen["server_optimized"].digest


def test_memray_sees_the_same(tmp_path: Path) -> None:
    from memray import FileReader

    seen = run(tmp_path, "original", "optimized", tensors=12, profiled=True)
    peaks = {
        name: FileReader(tmp_path / "profiles" / str(each.profile)).metadata.peak_memory
        for name, each in seen.items()
    }
    for who in ("server", "client_0", "client_1"):
        assert peaks[f"{who}_optimized"] <= LESS * peaks[f"{who}_original"], who
    # Fourteen models, as what APPFL 1.12 holds at its peak, and six at a client.
    assert 12 < peaks["server_original"] / SIZE < 16
    assert 5.5 < peaks["client_0_original"] / SIZE < 7.5
