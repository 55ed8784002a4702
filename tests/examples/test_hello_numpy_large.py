"""``examples/hello_numpy_large`` as users run it: both weights, both stores, and its faults."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import run as example
from typer import Exit, Typer
from typer.testing import CliRunner
from weights import UNIT

from streamlink import digest_of, open_model
from tests.support.commands import REPOSITORY, environment

EXAMPLE = REPOSITORY / "examples" / "hello_numpy_large"
SMALL = ("--keys", "4", "--key-size", "1MB")
REPORTED = {
    "commit", "date", "model_bytes", "keys", "clients", "rounds", "weights", "compress",
    "base_rss_bytes", "initial_seconds", "seconds", "rounds_seconds", "contributors",
    "wire_bytes_sent", "wire_bytes_received", "carried_bytes", "server_peak_bytes", "verified",
    "verdict", "verify_seconds", "final_digest", "stored_bytes", "stored_share", "peak_rss_bytes",
    "cpu_seconds", "processes",
}  # fmt: skip
OF_A_PROCESS = {
    "role", "name", "base_rss_bytes", "peak_rss_bytes", "cpu_seconds", "exit_code", "rss", "cpu",
}  # fmt: skip


def run(folder: Path, *options: str, example: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(example / "run.py"), *options]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


@pytest.mark.processes
def test_jobs_are_verified_and_their_result_does_not_depend_on_how_it_is_stored(
    tmp_path: Path,
) -> None:  # what all can show is asked of these two: each job takes four processes
    plain, compressed = (
        verified(tmp_path, "pattern", compress, tmp_path / compress) for compress in STORED
    )
    assert plain["final_digest"] == compressed["final_digest"]
    share = compressed["stored_share"]
    assert 0.8 * example.PATTERN_SHRINKS_TO < share <= example.PATTERN_SHRINKS_TO


STORED = ("none", "zstd")


@pytest.mark.processes
def test_a_job_with_weights_that_no_store_shortens_is_verified(tmp_path: Path) -> None:
    assert verified(tmp_path, "random", "zstd", tmp_path / "kept")["stored_share"] > 0.8


def verified(folder: Path, weights: str, compress: str, store: Path) -> dict[str, Any]:
    """Run a job of three rounds, and return its report once it has all that is promised."""
    choices = ["--weights", weights, "--compress", compress]
    done = run(folder, *SMALL, *choices, "--report", "report.json", "--store", str(store))
    assert done.returncode == 0, done.stderr
    fits_80_columns(done.stdout)
    report = report_of(folder)
    assert report.keys() == REPORTED
    assert report["verified"] is True
    assert report["verdict"] == "all 1000000 elements are exactly right"
    assert (report["model_bytes"], report["keys"], report["clients"]) == (4_000_000, 4, 2)
    assert report["contributors"] == [["site-1", "site-2"]] * 3
    assert len(report["rounds_seconds"]) == 3
    assert report["final_digest"] == digest_of(open_model(store / "model"))
    assert report["wire_bytes_sent"] > 2 * 3 * 4_000_000
    assert [each["name"] for each in report["processes"]] == ["server", "site-1", "site-2"]
    for each in report["processes"]:
        assert each.keys() == OF_A_PROCESS
        assert each["exit_code"] == 0
        assert each["peak_rss_bytes"] >= each["base_rss_bytes"] > 0
    assert f"{report['stored_share']:.2%} of the model" in done.stdout
    return report


def fits_80_columns(printed: str) -> None:
    lines = printed.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("store: ")] == []
    assert lines[2] == "verified: all 1000000 elements are exactly right"
    assert [line.split("│")[1].strip() for line in lines if line.startswith("│")] == [
        "server", "site-1", "site-2",
    ]  # fmt: skip


@pytest.mark.processes
def test_a_client_that_adds_something_else_is_found_out(tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(EXAMPLE, changed, ignore=shutil.ignore_patterns("__pycache__"))
    client = changed / "client.py"
    text, wrong = client.read_text(), f"weights.delta(number) + (number == 1) * 3 * {UNIT}"
    assert "weights.delta(number)" in text
    client.write_text(text.replace("weights.delta(number)", wrong))
    done = run(tmp_path, *SMALL, "--report", "report.json", example=changed)
    assert done.returncode == 1
    assert "WRONG: 1000000 of 1000000 elements are wrong; the first: key_00[0]" in done.stdout
    report = report_of(tmp_path)
    assert report["verified"] is False
    assert [each["exit_code"] for each in report["processes"]] == [1, 0, 0]


@pytest.mark.processes
def test_a_client_that_cannot_begin_is_one_line(tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(EXAMPLE, changed, ignore=shutil.ignore_patterns("__pycache__"))
    (changed / "client.py").write_text("raise SystemExit('no GPU')\n")
    done = run(tmp_path, *SMALL, example=changed)
    assert done.returncode == 2
    error = done.stderr.splitlines()[-1]
    assert error.startswith("error: site-")
    assert error.endswith(" ended before it began, exit code 1; see above")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--weights", "lead"], "--weights must be one of pattern, random, not 'lead'"),
        (["--compress", "xz"], "--compress must be none or zstd, not 'xz'"),
        (["--key-size", "4 bananas"], "'4 bananas' is not a size"),
        (["--key-size", "3"], "a key of 3 bytes is not float32"),
        (["--keys", "0"], "a model of 0 keys is none"),
        (["--rounds", "500"], "float32 has no exact room; run fewer rounds"),
        (["--key-size", "90TB"], "bytes too few at "),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_started(
    options: list[str], sentence: str
) -> None:
    app = Typer()
    app.command()(example.main)
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert sentence in result.stderr


def test_the_published_size_is_64_arrays_of_2_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def stop(command: list[str], **_: object) -> None:
        asked.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", stop)
    with pytest.raises(Exit) as stopped:
        example.main(full=True, compress="zstd")
    assert stopped.value.exit_code == 130
    (server,) = asked
    assert server[server.index("--keys") + 1] == "64"
    assert server[server.index("--key-size") + 1] == "2GB"
