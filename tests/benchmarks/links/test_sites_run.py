"""The two-site job with real processes, small: every path, kept, and shown again without a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.links.sites.cases import CLIENTS, SERVER
from benchmarks.links.sites.plans import small_site_plan
from benchmarks.links.sites.report import read_sites
from tests.benchmarks.links.commands import ASKS_GIT, run_here

REPOSITORY = Path(__file__).resolve().parents[3]


def sites(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.links", "sites", *words, "--output", str(folder)]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ}, capture_output=True, text=True, timeout=900
    )


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_small_series_is_right_and_its_page_can_be_made_again(tmp_path: Path) -> None:
    first = sites("--small", folder=tmp_path)
    assert first.returncode == 0, first.stderr
    runs = read_sites(tmp_path / "sites.jsonl")
    assert [run.case for run in runs] == list(small_site_plan().cases)
    for run in runs:
        assert not run.error
        assert len(run.round_seconds) == 3
        assert len(run.ways) == 3 * 2 * len(CLIENTS)
        assert set(run.used) == {SERVER, *CLIENTS}
        assert all(used.looks for used in run.used.values())
        assert all(nbytes > 0 for nbytes in run.wire_bytes.values())
        assert run.used[SERVER].over_base_bytes <= run.peak_bytes
        assert "timeouts.streaming_ack_wait" in run.probed[CLIENTS[0]].settings
    (tmp_path / "sites.html").unlink()
    again = run_here("sites", "--report", folder=tmp_path)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert (tmp_path / "sites.html").exists()
    assert run_here("sites", "--small", "--plan", folder=tmp_path).stdout.startswith("0 runs")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(("--report",), "has no run of this", marks=ASKS_GIT),
        pytest.param(("--small", "--deadline", "0"), "a later --deadline", marks=ASKS_GIT),
        (("--line", "1Mbit"), "leave out"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    done = run_here("sites", *words, folder=tmp_path)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.replace("│", " ").split())
