"""``streamlink init``: every template is a project that runs as its README says."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import streamlink
from streamlink.cli import app
from streamlink.cli.init import Template
from streamlink.config.job import JobConfig
from tests.support.commands import environment
from tests.support.commands import streamlink as command


def init(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["init", *map(str, words)])
    return result.exit_code, result.output


@pytest.mark.parametrize("template", Template)
def test_a_template_has_its_code_its_settings_and_a_readme(
    tmp_path: Path, template: Template
) -> None:
    code, text = init(tmp_path / "project", "--template", template.value)
    assert code == 0
    found = {path.name for path in (tmp_path / "project").iterdir()}
    assert found == {"README.md", "job.yaml", "work.py"}
    rules = JobConfig.assemble(tmp_path / "project" / "job.yaml").rounds
    assert rules.evaluate_every == 1
    assert rules.best_metric in (tmp_path / "project" / "work.py").read_text()
    assert "streamlink simulate --store model" in text


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("mine")
    code, text = init(tmp_path)
    assert code == 2
    assert "has work.py already" in text
    assert [path.name for path in tmp_path.iterdir()] == ["work.py"]
    assert (tmp_path / "work.py").read_text() == "mine"


def test_a_template_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert init(tmp_path / "project", "--template", "jax")[0] == 2
    assert not (tmp_path / "project").exists()


@pytest.mark.processes
@pytest.mark.timeout(300)  # four processes import torch
@pytest.mark.parametrize("template", Template)
def test_the_commands_of_the_readme_train_the_model(tmp_path: Path, template: Template) -> None:
    init(tmp_path, "--template", template.value)
    first, simulate, _ = (tmp_path / "README.md").read_text().split("```")[1].strip().splitlines()
    subprocess.run(
        [sys.executable, *shlex.split(first)[1:]], cwd=tmp_path, env=environment(), check=True
    )
    begun = streamlink.digest_of(tmp_path / "model")
    # Two clients instead of three: each imports torch.
    fewer = ["--clients", "2", "--num-rounds", "3"]
    words = [*shlex.split(simulate)[1:], *fewer, "--report", "report.json"]
    subprocess.run(command(*words), cwd=tmp_path, env=environment(), check=True)
    report = json.loads((tmp_path / "report.json").read_text())
    values = [next(iter(each["evaluation"]["metrics"].values())) for each in report["reports"]]
    assert values[-1] < values[0] if template is Template.LORA else values[-1] > 0.6
    assert report["best"]["value"] in values
    assert streamlink.digest_of(tmp_path / "best") != begun
    assert len(list((tmp_path / "runs").iterdir())) == 1
