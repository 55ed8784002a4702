"""``streamlink profile dp``: what is refused before anything starts."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlink.cli.commands import app

pytestmark = pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]")


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["profile", "dp", *arguments])
    assert result.exit_code == 2, result.output
    return result.output


def test_a_mode_that_does_not_exist_is_refused_with_those_that_do() -> None:
    said = refused("--mode", "ghost")
    assert "--mode is one of no_dp, ghost_fsdp, flash_fsdp, not 'ghost'" in said


def test_a_length_that_is_no_number_is_refused() -> None:
    assert "--seq-length is numbers separated by commas" in refused("--seq-length", "1024,long")


def test_one_file_for_several_experiments_is_refused(tmp_path: Path) -> None:
    assert "these are 9 experiments" in refused("--output", str(tmp_path / "result.json"))


def test_a_result_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("{}", "utf-8")
    said = refused("--mode", "no_dp", "--seq-length", "16", "--output", str(path))
    assert "nothing is overwritten" in said
    assert path.read_text("utf-8") == "{}"


def test_figures_out_of_range_are_refused_by_name() -> None:
    assert "batch_size" in refused("--mode", "no_dp", "--batch-size", "0")
