"""``streamlink profile analyze`` and ``forecast``: what is refused, and what is printed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streamlink.cli.commands import app
from tests.support.profiles import MODEL_BYTES, a_record

needs_memray = pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["profile", *map(str, words)])


@needs_memray
def test_what_is_no_run_is_a_wrong_command(tmp_path: Path) -> None:
    result = run("analyze", tmp_path / "nowhere", "--no-plots")
    assert result.exit_code == 2
    assert "nowhere is no folder" in result.output
    assert not (tmp_path / "nowhere").exists()


@needs_memray
def test_a_run_without_any_figure_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "processes").mkdir()
    (tmp_path / "processes" / "server_original.json").write_text("{", "utf-8")
    result = run("analyze", tmp_path, "--no-plots")
    assert result.exit_code == 1
    assert "server_original.json is damaged" in result.output
    assert "no process has figures" in result.output


@needs_memray
def test_the_report_is_printed_and_written_where_it_is_asked_for(tmp_path: Path) -> None:
    a_record().write(tmp_path / "run")
    result = run("analyze", tmp_path / "run", "--no-plots", "--output-dir", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "report.txt").read_text("utf-8") in result.output
    assert not (tmp_path / "run" / "analysis").exists()


def test_a_model_that_is_not_known_is_refused_with_those_that_are() -> None:
    result = run("forecast", "--model", "9C")
    assert result.exit_code == 2
    assert "8B, 70B or a size such as 1GiB" in result.output


def test_the_forecast_is_linear_in_the_model_and_quotes_appfl() -> None:
    result = run("forecast", "--model", "1GB,2GB", "--clients", "1")
    assert result.exit_code == 0, result.output
    totals = [float(each) for each in re.findall(r"client: ([\d.]+) GB \(1 ×", result.output)]
    assert totals[1] - totals[0] == pytest.approx(1.0, abs=0.002)
    assert "APPFL's authors report 309.8 GB" in result.output
    assert "302.6 GB" in result.output
    assert "not measured here" in result.output


def test_a_forecast_is_printed_beside_what_a_run_measured(tmp_path: Path) -> None:
    a_record("optimized", role="client", client=0, over=2 * MODEL_BYTES).write(tmp_path)
    (tmp_path / "experiment.json").write_text(
        '{"experiment": {"kind": "synthetic", "server": {"num_clients": 1}}}', "utf-8"
    )
    result = run("forecast", "--model", "1GB", "--run", tmp_path)
    assert result.exit_code == 0, result.output
    assert re.search(r"client 0: optimized, client: .*measured 0\.020 GB", result.output)


def test_a_run_that_trains_is_not_checked_with_a_formula_without_training(tmp_path: Path) -> None:
    a_record().write(tmp_path)
    (tmp_path / "experiment.json").write_text('{"experiment": {"kind": "resnet"}}', "utf-8")
    result = run("forecast", "--run", tmp_path)
    assert result.exit_code == 2
    assert "name a run of llm or synthetic" in result.output
