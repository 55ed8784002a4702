"""The formula for memory, by hand and beside a job."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamlink as sl
from streamlink.profiling.heap.experiment import Experiment, Kind
from streamlink.profiling.heap.experiments import changed, default_client, default_server
from streamlink.profiling.heap.findings import find
from streamlink.profiling.heap.formula import checks, forecast
from streamlink.profiling.heap.observed import read_run
from streamlink.profiling.heap.series import run_series

MODEL_BYTES = 48_000_000


def test_optimized_the_server_holds_windows_and_the_client_one_model() -> None:
    by_role = {each.role: each for each in forecast(10**12, 3) if each.version == "optimized"}
    stream = sl.LinkConfig().stream.stream_bytes
    assert by_role["server"].total == 2 * 3 * stream + by_role["server"].rest
    assert by_role["client"].total == 10**12 + stream + by_role["client"].rest


def test_in_the_original_only_the_server_grows_with_the_clients() -> None:
    one, two = forecast(10**9, 1), forecast(10**9, 2)
    grown = {a.role: b.copies - a.copies for a, b in zip(one, two, strict=True) if b.model}
    assert grown["client"] == 0
    assert grown["server"] > 0


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_the_formula_is_near_what_a_job_needs(tmp_path: Path) -> None:
    experiment = changed(
        Experiment(
            kind=Kind.SYNTHETIC,
            server=default_server(Kind.SYNTHETIC, model_bytes=MODEL_BYTES, tensors=4),
            client=default_client(Kind.SYNTHETIC),
        ),
        clients=2,
        rounds=2,
    )
    failures = run_series(
        tmp_path, experiment, ("original", "optimized"), repeats=1, timeout_seconds=250,
        end_seconds=250, progress=lambda _: None, profiled=(False,),
    )  # fmt: skip
    assert not failures
    found = find(read_run(tmp_path, None))
    made = checks(found.run, found.figures, found.resident)
    assert len(made) == 6
    for each in made:
        name = (each.forecast.version, each.figures.subject.label, each.ratio)
        # The windows are what may be in flight; a fast receiver leaves most of it empty.
        assert (0.85 if each.forecast.version == "original" else 0.3) < each.ratio < 1.15, name
