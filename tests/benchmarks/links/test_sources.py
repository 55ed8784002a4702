"""What counts for resuming: every file that a run uses, and none that only shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.links import kept
from benchmarks.links.peers import found
from benchmarks.links.sites import series
from benchmarks.links.sources import sources_of

ROOT = Path(__file__).resolve().parents[3]
# What names a machine or a commit, and prints: a run is the same with others.
SHOWING = {"benchmarks/stats.py", "benchmarks/tables.py", "benchmarks/integrations/cases.py"}
LINKS = ("measuring", "accuracy")
SITES = ("sites.running", "sites.probing", "accuracy")


def counts(path: str, measured: tuple[str, ...]) -> bool:
    excluded = {each.removeprefix(":(top,exclude)") for each in measured if "exclude" in each}
    included = {each.removeprefix(":(top)") for each in measured} - excluded
    parents = {path, *map(str, Path(path).parents)}
    return bool(parents & included) and not parents & excluded


def of(names: tuple[str, ...]) -> set[str]:
    return {*sources_of(*(f"benchmarks.links.{name}" for name in names))} - SHOWING


def test_a_run_of_a_plan_counts_while_all_that_it_used_is_the_same() -> None:
    used = of(LINKS) | {*sources_of(*(peer.module for peer, _ in found().values()))} - SHOWING
    assert {path for path in used if not counts(path, kept.MEASURED)} == set()
    assert "benchmarks/unpaced.py" in used
    assert "benchmarks/integrations/environments.py" in used


def test_a_run_of_the_two_site_job_counts_while_all_that_it_used_is_the_same() -> None:
    # Of links/cases.py it uses how a run is written down.
    used = of(SITES) - {"benchmarks/links/__init__.py", "benchmarks/links/cases.py"}
    assert {path for path in used if not counts(path, series.MEASURED)} == set()


@pytest.mark.parametrize("measured", [kept.MEASURED, series.MEASURED])
def test_every_path_that_counts_is_there(measured: tuple[str, ...]) -> None:
    for each in measured:
        assert (ROOT / each.partition(")")[2]).exists(), each


def test_a_program_uses_what_it_imports_and_the_bodies_of_its_processes_only() -> None:
    used = sources_of("benchmarks.probes")
    assert {"benchmarks/probes.py", "benchmarks/worker.py", "benchmarks/relay.py"} <= {*used}
    # The text of ``benchmarks.parts`` names it, for readers.
    assert "benchmarks/parts.py" in used
    assert "benchmarks/links/programs.py" not in used
