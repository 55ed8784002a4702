"""The page of a plan has the tables of the programs that belong to it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.links.program_tables import ON_PAGE, program_tables
from benchmarks.links.programs import PROGRAMS
from benchmarks.links.reports import Files
from benchmarks.links.reports import write as write_links
from benchmarks.parts import Facts, Parts
from tests.benchmarks.links.cases import case_of, run_of
from tests.benchmarks.links.commands import ASKS_GIT
from tests.benchmarks.links.test_programs import Program, go

LINE = {"round_trip": 0.02, "spread": 0.001, "rate": 3.9e8, "seconds": 5.0, "down_rate": 4e8}


def lines(name: str, part: Parts, is_small: bool) -> dict[str, Facts]:
    return {"400Mbit,20ms": LINE}


def test_each_program_is_on_one_page() -> None:
    assert sorted(name for names in ON_PAGE.values() for name in names) == sorted(PROGRAMS)


@ASKS_GIT
def test_a_program_that_has_a_result_is_on_the_page_with_its_lines(tmp_path: Path) -> None:
    go(tmp_path, Program(), find_lines=lines)
    by_itself, claim = program_tables("links", tmp_path)
    assert by_itself.title == "traverse: the lines themselves, by a raw socket"
    assert by_itself.rows[0][:2] == ("400Mbit,20ms", "relay")
    assert claim.title.startswith("traverse, commit ")
    assert claim.title.endswith(": a claim")
    assert list(map(list, claim.rows)) == [["a"]]
    assert program_tables("peers", tmp_path) == []
    files = Files(tmp_path, "links")
    write_links(files, [run_of(case_of(line="10Mbit"))])
    assert claim.title in files.page.read_text("utf-8")


def test_what_an_earlier_version_has_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "probe.json").write_text('{"is_small": false, "commits": ["1"]}')
    assert program_tables("links", tmp_path) == []


@ASKS_GIT
def test_a_program_that_was_only_tried_is_not_on_the_page(tmp_path: Path) -> None:
    go(tmp_path, Program(), small=True)
    assert program_tables("links", tmp_path) == []
