"""Programs part by part: what is kept, what is left, and how an interrupted one resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.links.programs import (
    PROGRAMS,
    KeptParts,
    NoTimeLeft,
    Part,
    PartFailed,
    measured_by,
    read_parts,
    run_program,
)
from benchmarks.links.reports import Files
from benchmarks.parts import Facts, Parts
from benchmarks.stats import Result, environment
from tests.benchmarks.links.commands import ASKS_GIT

WHERE = Part("a part", machine=environment()["machine"]).where


@dataclass
class Here:
    where: str = WHERE
    is_same: bool = True

    def counts(self, outcome: Part) -> bool:
        return self.is_same


@dataclass
class Program:
    """Measures three parts; fails or is interrupted where it is told to."""

    met: bool | None = True
    stop_at: str = ""
    error: type[BaseException] = KeyboardInterrupt
    done: list[str] = field(default_factory=list)

    def run(self, quick: bool, part: Parts) -> Result:
        facts = {name: part(name, 10.0, self.measuring(name)) for name in "abc"}
        return Result("traverse", "a claim", ("part",), (("a",),), facts, self.met)

    def measuring(self, name: str) -> Callable[[], Facts]:
        def measure() -> Facts:
            if name == self.stop_at:
                raise self.error("no")
            self.done.append(name)
            return {"found": name}

        return measure


def parts_of(path: Path, here: Here | None = None, **more: Any) -> KeptParts:
    return KeptParts(path, here or Here(), is_small=False, clock=lambda: 100.0, **more)


def go(folder: Path, program: Program, **more: Any) -> None:
    options = {"small": False, "report": False, "plan": False, "since": None,
               "find_lines": lambda name, part, is_small: {}, **more}  # fmt: skip
    run_program(Files(folder, "traverse"), **options, run=program.run)


# --- parts --------------------------------------------------------------------------------------


@ASKS_GIT
def test_a_part_that_is_kept_is_not_measured_again(tmp_path: Path) -> None:
    first, second = Program(), Program()
    first.run(False, parts_of(tmp_path / "parts.jsonl"))
    result = second.run(False, parts_of(tmp_path / "parts.jsonl"))
    assert (first.done, second.done) == (["a", "b", "c"], [])
    assert result.facts == {name: {"found": name} for name in "abc"}


@ASKS_GIT
@pytest.mark.parametrize("here", [Here(where="another machine"), Here(is_same=False)])
def test_parts_of_another_machine_or_program_do_not_count(here: Here, tmp_path: Path) -> None:
    Program().run(False, parts_of(tmp_path / "parts.jsonl"))
    again = Program()
    again.run(False, parts_of(tmp_path / "parts.jsonl", here))
    assert again.done == ["a", "b", "c"]


@ASKS_GIT
def test_a_part_that_lacked_something_is_a_result_and_is_measured_again(tmp_path: Path) -> None:
    lacking = {"is_unavailable": True}
    first = parts_of(tmp_path / "parts.jsonl")
    assert first("a", 1.0, lambda: lacking) == first("a", 1.0, dict) == lacking
    again = parts_of(tmp_path / "parts.jsonl")
    assert again("a", 1.0, lambda: {"found": "a"}) == {"found": "a"}
    assert parts_of(tmp_path / "parts.jsonl")("a", 1.0, dict) == {"found": "a"}


@ASKS_GIT
def test_what_was_only_tried_is_not_taken_for_a_measurement(tmp_path: Path) -> None:
    Program().run(True, KeptParts(tmp_path / "parts.jsonl", Here(), is_small=True))
    again = Program()
    again.run(False, parts_of(tmp_path / "parts.jsonl"))
    assert again.done == ["a", "b", "c"]


@ASKS_GIT
def test_a_part_that_failed_is_kept_with_its_reason_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "parts.jsonl"
    with pytest.raises(PartFailed, match="b: OSError: no"):
        Program(stop_at="b", error=OSError).run(False, parts_of(path))
    assert [(part.case, part.error) for part in read_parts(path)] == [
        ("a", ""),
        ("b", "OSError: no"),
    ]
    again = Program()
    again.run(False, parts_of(path))
    assert again.done == ["b", "c"]


def test_no_part_is_begun_that_would_not_end_before_the_deadline(tmp_path: Path) -> None:
    program, parts = Program(), parts_of(tmp_path / "parts.jsonl", stop_at=109.0)
    with pytest.raises(NoTimeLeft, match="a, about 10 s"):
        program.run(False, parts)
    assert program.done == []


@ASKS_GIT
def test_what_ends_before_the_deadline_is_measured(tmp_path: Path) -> None:
    program = Program()
    program.run(False, parts_of(tmp_path / "parts.jsonl", stop_at=110.0))
    assert program.done == ["a", "b", "c"]


# --- the command --------------------------------------------------------------------------------


@ASKS_GIT
def test_an_interrupted_program_resumes_with_the_part_that_was_left(tmp_path: Path) -> None:
    second = Program()
    with pytest.raises(typer.Exit) as ended:
        go(tmp_path, Program(stop_at="b"))
    assert ended.value.exit_code == 130
    assert not (tmp_path / "traverse.json").exists()
    go(tmp_path, second)
    assert second.done == ["b", "c"]
    summary = json.loads((tmp_path / "traverse.json").read_text("utf-8"))
    assert (summary["met"], summary["is_small"], summary["a"]) == (True, False, {"found": "a"})
    assert len(summary["commits"]) == 1


@ASKS_GIT
@pytest.mark.parametrize(
    ("program", "status"),
    [
        (Program(met=True), 0),
        (Program(met=None), 0),
        (Program(met=False), 1),
        (Program(stop_at="b", error=OSError), 1),
    ],
)
def test_the_status_is_1_where_a_number_is_missed_or_a_part_failed(
    program: Program, status: int, tmp_path: Path
) -> None:
    if status == 0:
        go(tmp_path, program)
    else:
        with pytest.raises(typer.Exit) as ended:
            go(tmp_path, program)
        assert ended.value.exit_code == status


@ASKS_GIT
def test_what_the_deadline_leaves_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Program()
    go(tmp_path, program, seconds=5.0)
    assert program.done == []
    assert "run the command again" in capsys.readouterr().err


@ASKS_GIT
def test_the_lines_are_measured_first_and_shown_with_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"round_trip": 0.02, "spread": 0.001, "rate": 3.9e8, "seconds": 5.0, "down_rate": 4e8}

    def lines(name: str, part: Parts, is_small: bool) -> dict[str, Facts]:
        line = part("the line itself", 1.0, lambda: {**found, "seconds": 0.5 if is_small else 5.0})
        return {"400Mbit,20ms": line}

    program = Program()
    go(tmp_path, program, find_lines=lines)
    assert "The lines themselves" in capsys.readouterr().out
    summary = json.loads((tmp_path / "traverse.json").read_text("utf-8"))
    assert summary["lines_themselves"] == {"400Mbit,20ms": found}
    parts = read_parts(tmp_path / "traverse.jsonl")
    assert [part.case for part in parts] == ["the line itself", "a", "b", "c"]
    go(tmp_path, Program(), small=True, find_lines=lines)
    assert "The lines themselves" in capsys.readouterr().out
    trial = json.loads((tmp_path / "traverse.json").read_text("utf-8"))
    assert trial["lines_themselves"]["400Mbit,20ms"]["seconds"] == 0.5


@ASKS_GIT
def test_a_failure_that_was_made_good_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        go(tmp_path, Program(stop_at="b", error=OSError))
    go(tmp_path, Program())
    assert (
        "b: not available, and not when it was tried again: OSError: no" in capsys.readouterr().out
    )


@ASKS_GIT
def test_a_report_shows_the_last_result_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.BadParameter, match=r"there is no .*traverse\.txt"):
        go(tmp_path, Program(), report=True)
    go(tmp_path, Program())
    program = Program()
    go(tmp_path, program, report=True)
    assert program.done == []
    assert "claim met" in capsys.readouterr().out


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_part_counts_while_its_program_and_the_package_are_the_same(name: str) -> None:
    measured = measured_by(name)
    own = {"probe": "probes"}.get(name, name)
    assert {":(top)streamlink", f":(top)benchmarks/{own}.py",
            ":(top)benchmarks/processes.py"} <= set(measured)  # fmt: skip
    assert ":(top)benchmarks/tables.py" not in measured
