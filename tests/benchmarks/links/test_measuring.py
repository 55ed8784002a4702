"""One small run, with real processes and a real line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.links.accuracy import measure_line
from benchmarks.links.kept import read
from benchmarks.links.lines import parse_line
from benchmarks.links.measuring import measure
from benchmarks.longline.roads import congestion_controls
from tests.benchmarks.links.cases import case_of
from tests.benchmarks.links.commands import ASKS_GIT, run_here

MIB = 1 << 20
REPOSITORY = Path(__file__).resolve().parents[3]


def links(*words: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.links", *words, "--output", str(folder)]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, **env}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


@pytest.mark.processes
@pytest.mark.slow
def test_a_small_part_is_run_and_its_page_can_be_made_again(tmp_path: Path) -> None:
    part = ("links", "--small", "--line", "loopback")
    first = links(*part, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "4 of 4 runs to do" in first.stderr
    page = (tmp_path / "links.html").read_bytes()
    (tmp_path / "links.html").unlink()
    again = run_here("links", "--report", folder=tmp_path)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert len((tmp_path / "links.html").read_bytes()) == len(page)
    assert run_here(*part, "--plan", folder=tmp_path).stdout.startswith("0 runs")


@pytest.mark.processes
@pytest.mark.slow
def test_a_peer_that_cannot_be_had_is_reported_and_the_rest_go_on(tmp_path: Path) -> None:
    part = ("peers", "--small", "--peer", "rsync, daemon", "--line", "400KiB")
    done = links(*part, folder=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "tried again by the next invocation: there is no rsync on this machine" in done.stdout
    runs = read(tmp_path / "peers.jsonl")
    errors = {run.case.peer: run.error for run in runs}
    missing = "NotInstalled: there is no rsync on this machine"
    assert errors == {"raw socket": "", "rsync, daemon": missing}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(("--report",), "has no run of this", marks=ASKS_GIT),
        pytest.param(("--small", "--deadline", "0"), "a later --deadline", marks=ASKS_GIT),
        (("--peer", "carrier pigeon"), "plain grpcio"),
        (("--line", "fast"), "100Mbit,50ms"),
        (("--line", "up=1Mbit,loss=1%"), "a rate in each direction"),
        (("--size", "many"), "many"),
        (("--line", "loopback", "--size", "10MB"), "an example: 256MiB"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    done = run_here("peers", *words, folder=tmp_path)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.processes
@pytest.mark.slow
def test_streamlink_moves_a_model_over_a_relay_which_counts_it() -> None:
    run = measure(case_of("streamlink", "200Mbit,10ms", mib=2, arrays=4))
    assert not run.error
    assert run.line["congestion_control"] in congestion_controls()
    assert run.wire_bytes is not None
    assert 1.0 <= run.wire_bytes / (2 * MIB) < 1.1
    assert run.seconds >= run.case.line.seconds(2 * MIB) * 0.8
    assert set(run.sides) == {"send", "receive"}
    assert all(side.peak_over_base_bytes >= 2 * MIB for side in run.sides.values())


@pytest.mark.processes
@pytest.mark.slow
def test_a_line_is_as_slow_and_as_far_as_it_was_asked_to_be() -> None:
    found = measure_line(parse_line("20Mbit,20ms"), 1.0)
    assert 0 < found.rate < 1.2 * 20e6  # less on a machine that is busy with something else
    assert found.round_trip >= 0.02
