"""Results, their arithmetic, and the report from some of them."""

import json
from pathlib import Path

import pytest

from streamlink.profiling.dp.experiment import Experiment, ExperimentError, Mode
from streamlink.profiling.dp.forecast import forecast
from streamlink.profiling.dp.report import write_report
from streamlink.profiling.dp.result import Failure, Result, Steps, read_result, result_path
from streamlink.profiling.dp.series import read_series
from streamlink.profiling.dp.shapes import SHAPES
from streamlink.profiling.dp.summary import overheads, sentences, summary
from streamlink.profiling.folder import write_json

PICTURES = ("memory_comparison", "time_comparison", "memory_vs_time_tradeoff", "overhead_analysis")


def experiment(mode: str, seq_length: int) -> Experiment:
    return Experiment(mode=Mode(mode), seq_length=seq_length, world_size=2)


def found(mode: str, seq_length: int, megabytes: int, seconds: float) -> Result:
    steps = Steps(
        seconds=[seconds, seconds, 3 * seconds],
        peak_bytes=[megabytes * 10**6] * 3,
        held_bytes=[1, 1, 1],
        profiled_bytes=5,
        parameters=7,
        vocab_size=9,
        device_name="CPU",
    )
    return Result(experiment=experiment(mode, seq_length), steps=steps)


def write(folder: Path, *results: Result) -> None:
    for each in results:
        write_json(result_path(folder, each.experiment), each.facts())


def test_a_file_has_the_keys_that_users_know_in_the_units_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, found("ghost_fsdp", 2048, 12345, 0.25))
    facts = json.loads((tmp_path / "ghost_fsdp_seq2048_result.json").read_text("utf-8"))
    assert (facts["mode"], facts["seq_length"]) == ("ghost_fsdp", 2048)
    assert (facts["batch_size"], facts["total_batch_size"], facts["num_gpus"]) == (2, 4, 0)
    assert facts["peak_memory_bytes"] == 12_345_000_000
    assert (facts["peak_memory_mb"], facts["peak_memory_gb"]) == (12345.0, 12.345)
    assert facts["median_time_seconds"] == 0.25
    assert facts["avg_time_seconds"] == pytest.approx(5 / 12)
    assert facts["avg_time_ms"] == pytest.approx(416.667)
    assert set(facts["config"]) >= {"model_name", "vocab_size", "learning_rate", "sigma"}


def test_a_report_is_made_from_some_results_and_says_what_is_missing(tmp_path: Path) -> None:
    failed = Result(
        experiment=experiment("flash_fsdp", 1024), failure=Failure(kind="rank_died", text="it died")
    )
    write(tmp_path, found("no_dp", 1024, 100, 1.0), found("ghost_fsdp", 1024, 130, 2.0), failed)
    (tmp_path / "no_dp_seq2048_result.json").write_text("{", "utf-8")
    results = read_series(tmp_path)
    page = write_report(results, tmp_path / "visualizations")
    assert {path.stem for path in page.parent.glob("*.png")} == set(PICTURES)
    text = (page.parent / "summary.txt").read_text("utf-8")
    assert "flash_fsdp_seq1024 has no figures (rank_died): it died" in text
    assert "no_dp_seq2048_result.json: this result is damaged" in text
    assert text == summary(results)


def test_overheads_are_the_arithmetic_of_the_files(tmp_path: Path) -> None:
    write(tmp_path, found("no_dp", 1024, 100, 1.0), found("ghost_fsdp", 1024, 130, 2.5))
    (only,) = overheads(read_series(tmp_path))
    assert (only.nbytes, only.percent) == (30_000_000, 150.0)
    assert "30.0 MB more and 150 % longer than no_dp" in sentences(read_series(tmp_path))[0]


@pytest.mark.parametrize("key", ["mode", "peak_memory_bytes", "result"])
def test_a_file_whose_figures_were_changed_is_damaged(tmp_path: Path, key: str) -> None:
    path = tmp_path / "no_dp_seq1024_result.json"
    path.write_text(json.dumps({**found("no_dp", 1024, 100, 1.0).facts(), key: 3}), "utf-8")
    with pytest.raises(ExperimentError, match=r"no_dp_seq1024_result\.json: .*damaged"):
        read_result(path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="has no results"):
        read_series(tmp_path)


def test_the_forecast_grows_with_the_square_of_the_length_for_ghost_clipping_only() -> None:
    def norms(mode: str, length: int) -> int:
        return forecast(experiment(mode, length), SHAPES["llama-1b"]).norms

    assert norms("ghost_fsdp", 4096) > 2 * norms("ghost_fsdp", 2048)
    assert norms("flash_fsdp", 4096) == norms("flash_fsdp", 2048) < norms("ghost_fsdp", 2048)
    assert norms("no_dp", 4096) == 0


def test_the_shapes_have_as_many_parameters_as_their_names_say() -> None:
    assert 1.2e9 < SHAPES["llama-1b"].parameters < 1.3e9
    assert 7.4e9 < SHAPES["llama-8b"].parameters < 7.6e9  # 8.03e9 with an output of its own
