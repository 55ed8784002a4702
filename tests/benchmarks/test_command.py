"""``python -m benchmarks``: order, table, file and exit status."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from benchmarks import __main__ as command
from benchmarks.stats import Result

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
# None of them is in the extra that `make bench` installs; None makes importing them an error.
BLOCK = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import benchmarks.__main__"


def _found(name: str, met: bool | None) -> Result:
    return Result(name, f"claim of {name}", ("what",), (("row",),), met=met)


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []

    def program(name: str, met: bool | None) -> None:
        def run(_: bool) -> Result:
            seen.append(name)
            return _found(name, met)

        monkeypatch.setitem(command.PROGRAMS, name, run)

    for name in command.PROGRAMS:
        program(name, name != "flat")
    return seen


@pytest.mark.processes(quick=True)
def test_one_program_is_run_and_written(order: list[str], tmp_path: Path) -> None:
    command.main(command.What.bulk, json_file=tmp_path / "out.json", quick=True)
    assert order == ["bulk"]
    assert list(json.loads((tmp_path / "out.json").read_text())["results"]) == ["bulk"]


@pytest.mark.processes(quick=True)
def test_all_runs_every_program_that_judges_a_claim_and_fails_where_one_is_not_met(
    order: list[str],
) -> None:
    with pytest.raises(typer.Exit) as ended:
        command.main(command.What.all, json_file=None, quick=False)
    assert order == [
        *("bulk", "carriers", "tls", "duplex", "flat", "shapes", "clients"),
        *(
            "executors",
            "straggler",
            "traverse",
            "crowd",
            "cpu",
            "strategies",
            "lossy",
            "auto",
            "cuts",
            "slow",
            "bwlimit",
            "flips",
            "mpi",
            "sessions",
        ),
    ]
    assert ended.value.exit_code == 1


@pytest.mark.processes(quick=True)
@pytest.mark.parametrize(("seconds", "given"), [(3.0, {"seconds": 3.0}), (None, {})])
def test_a_program_of_long_lines_is_told_how_long_to_measure(
    seconds: float | None, given: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, float]] = []

    def run(_: bool, **facts: float) -> Result:
        seen.append(facts)
        return _found("rawline", None)

    monkeypatch.setitem(command.PROGRAMS, "rawline", run)
    command.main(command.What.rawline, json_file=None, quick=False, seconds=seconds)
    assert seen == [given]


def test_every_word_on_the_command_line_has_its_program() -> None:
    assert {what.value for what in command.What} == {*command.PROGRAMS, "all"}


@pytest.mark.processes
@pytest.mark.parametrize("module", ["safetensors", "torch"])
def test_the_program_starts_with_what_its_extra_installs(module: str) -> None:
    extra = PROJECT["optional-dependencies"]["bench"]
    assert not any(each.startswith(module) for each in extra)
    done = subprocess.run([sys.executable, "-c", BLOCK, module], cwd=REPOSITORY,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
