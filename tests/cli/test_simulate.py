"""``streamlink simulate``: whole jobs as processes, and Ctrl-C in every phase of one."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from streamlink import copy_model, digest_of, open_model, open_store
from streamlink.cli import app
from streamlink.cli.simulate import show_usage
from streamlink.stores import ArrayModel
from tests.support.commands import Command, environment, streamlink

SIZE = 300_000  # elements of each of two tensors: a few chunks

TASKS = """
import sys, threading
import numpy as np
import streamlink

def add(tensor, start, values):
    return values + np.float32(1)

def fail(tensor, start, values):
    raise RuntimeError("boom in " + tensor.name)

def hang(tensor, start, values):
    if start > 0:
        print("in the middle", file=sys.stderr, flush=True)
        threading.Event().wait()
    return values

def mean(arrays, task):
    return {"mean": float(arrays["a"].mean())}

def measured(name):
    return streamlink.StreamingExecutor(add, metrics=lambda: {"loss": float(name[-1])})

def only_first(name):
    if name != "site-1":
        raise OSError("no GPU for " + name)
    return streamlink.StreamingExecutor(add)
"""

# Holds the server where a new model takes its final name, just before or just after, until it is to
# end.
HOOK = """
import sys, threading
import streamlink.stores.safetensors.index, streamlink.stores.compressed.sink
from streamlink_fl import signals

def stop_at(real):
    def replace(temporary, final):
        if {after}:
            real(temporary, final)
        print("committing now", file=sys.stderr, flush=True)
        while not signals.received():
            threading.Event().wait(0.01)
        if not {after}:
            real(temporary, final)
    return replace

for module in (streamlink.stores.safetensors.index, streamlink.stores.compressed.sink):
    module.replace = stop_at(module.replace)
"""


def model_of(number: float) -> ArrayModel:
    """The model after so many rounds of ``add``."""
    return ArrayModel({name: np.full(SIZE, number, np.float32) for name in ("a", "b")})


def digest_after(rounds: int) -> str:
    return digest_of(model_of(rounds))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


Fill = Callable[[Literal["none", "zstd"]], None]


@pytest.fixture
def fill(place: Path) -> Fill:
    """Puts the initial model into the store ``m``."""

    def begin(compress: Literal["none", "zstd"]) -> None:
        model = model_of(0)
        store = open_store(place / "store" / "m", compress)
        copy_model(model, store.begin(model.spec))

    return begin


def job(work: str, *options: object) -> list[str]:
    option = "--executor" if work in ("measured", "only_first") else "--task"
    return streamlink("simulate", "--store", "store/m", option, f"tasks.py:{work}", *options)


def stored_digest(place: Path) -> str:
    model = open_model(place / "store" / "m")
    try:
        return digest_of(model)
    finally:
        model.close()


_LEDGER = "m.rounds.json"


def leftovers(place: Path) -> list[str]:
    """What is in the store's folder and belongs to no model, but for the ledger of the job."""
    index = place / "store" / "m" / "model.safetensors.index.json"
    if not index.exists():
        return sorted({path.name for path in (place / "store").iterdir()} - {"m.slz", _LEDGER})
    content = json.loads(index.read_text())
    alive = {*content["weight_map"].values(), content["metadata"]["streamlink_digests"]}
    return sorted({path.name for path in index.parent.iterdir()} - alive - {index.name})


# --- jobs that end by themselves --------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_a_job_runs_to_its_end(place: Path, fill: Fill, compress: Literal["none", "zstd"]) -> None:
    fill(compress)
    options = ["--num-rounds", 2, "--report", "r.json", "--log-file", "x.log"]
    with Command(job("measured", *options, "--set", "stream.chunk_bytes=128KiB"), place) as running:
        assert running.end() == 0, running.log
    assert stored_digest(place) == digest_after(2)
    assert leftovers(place) == []
    report = json.loads((place / "r.json").read_text())
    assert report["final_digest"] == digest_after(2)
    assert report["model_bytes"] == 2 * SIZE * 4
    assert report["contributors"] == [["site-1", "site-2"]] * 2
    assert [each["metrics"] for each in report["reports"]] == [{"loss": 1.5}] * 2
    own = {"site-1": {"loss": 1.0}, "site-2": {"loss": 2.0}}
    assert [each["client_metrics"] for each in report["reports"]] == [own] * 2
    assert (report["stored_bytes"] < 10_000) == (compress == "zstd")
    for each, name in zip(report["processes"], ["server", "site-1", "site-2"], strict=True):
        assert (each["name"], each["exit_code"]) == (name, 0)
        assert each["peak_rss_bytes"] >= each["base_rss_bytes"] > 10_000_000
        assert each["cpu_seconds"] > 0
        assert re.search(rf"│ {name} +│ +\d+ │ +\d+ │ +\d+ │ +\d+\.\d │", running.output)
    assert (place / "x.log").read_text().count("transfer done") == 8
    assert (place / "x.site-1.log").exists()


@pytest.mark.processes
def test_each_model_is_evaluated_by_a_function_of_the_task_file(place: Path, fill: Fill) -> None:
    fill("none")
    options = ["--evaluate", "tasks.py:mean", "--evaluate-every", 1, "--report", "r.json"]
    with Command(job("add", "--num-rounds", 2, *options), place) as running:
        assert running.end() == 0, running.log
    found = [each["evaluation"] for each in json.loads((place / "r.json").read_text())["reports"]]
    assert [each["metrics"] for each in found] == [{"mean": 1.0}, {"mean": 2.0}]
    assert found[1]["client_metrics"] == {"site-1": {"mean": 2.0}, "site-2": {"mean": 2.0}}


@pytest.mark.processes
def test_a_task_that_raises_is_quoted_whole_in_logs_and_in_few_lines_on_the_screen(
    place: Path, fill: Fill
) -> None:
    fill("none")
    with Command(job("fail", "--log-file", "x.log"), place) as running:
        assert running.end() == 1
    log = (place / "x.log").read_text()
    assert re.search(r"site-\d: the task raised RuntimeError: boom in a", log)
    assert re.search(r"site-\d: \|   File .*tasks.py., line \d+, in fail", log)
    assert "(min_clients); the last whole model stays" in running.log
    assert running.log.splitlines()[-1].startswith("error: the server ended with exit code 1")
    assert stored_digest(place) == digest_after(0)
    assert leftovers(place) == []
    lines = running.log.splitlines()
    assert sum("Traceback" in line for line in lines) == 1
    assert len(lines) < 30, running.log
    said = [line for line in lines if "RuntimeError: boom in a" in line]
    assert all(re.search(r"site-\d: ", line) for line in said), running.log
    assert not any("ended" in line for line in said)  # what the others are told has no part of it
    own = [(place / f"x.site-{number}.log").read_text() for number in (1, 2)]
    assert any("Traceback" in log for log in own)


@pytest.mark.processes
def test_a_client_that_cannot_begin_ends_the_job_at_once(place: Path, fill: Fill) -> None:
    fill("none")
    with Command(job("only_first"), place) as running:
        assert running.end() == 1
    who = "error: site-2: --executor tasks.py:only_first"
    assert f"{who} raised OSError: no GPU for site-2 ({place}/tasks.py, line " in running.log
    assert "error: site-2 ended before it began, exit code 2" in running.log


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--min-clients", "3"], "rounds.min_clients is 3, but there are only 2 clients"),
        (
            ["--set", "grpc.max_clients=1"],
            "grpc.max_clients is 1, and there are 2",
        ),
        (["--store", "elsewhere"], "elsewhere: there is no model here"),
        (["--task", "tasks.py:absent"], "tasks.py has no function 'absent'"),
        (["--set", "rounds.min_client=3"], "did you mean rounds.min_clients?"),
    ],
)
def test_what_cannot_run_is_refused_before_a_process_is_started(
    place: Path,
    fill: Fill,
    options: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill("none")
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    result = CliRunner().invoke(app, [*job("add")[3:], *options])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert sentence in result.stderr


# --- Ctrl-C -----------------------------------------------------------------


def interrupt_at(
    place: Path,
    event: str,
    work: str = "add",
    number: int = signal.SIGINT,
    hook: Path | None = None,
) -> Command:
    """Run a job, interrupt it at a line of its log, and check what is left of it."""
    env = environment(*([hook] if hook else []))
    with Command(job(work, "--log-level", "debug"), place, env) as running:
        running.until(event)
        running.interrupt(number)
        assert running.end() == 128 + number, running.log
        assert running.log.splitlines()[-1] == "stopped"
        assert "is killed" not in running.log
        assert running.started, "the fleet tells what it starts"
        assert not [number for number in running.started if psutil.pid_exists(number)]
    assert leftovers(place) == []
    return running


@pytest.mark.processes
@pytest.mark.parametrize(
    "event", ["started server", "listening on", "started site-1", "connected to", "offered to"]
)
def test_ctrl_c_while_it_starts_leaves_the_store_as_it_was(
    place: Path, fill: Fill, event: str
) -> None:
    fill("none")
    # With a task that never ends, nothing is committed however late the interrupt comes.
    interrupt_at(place, event, work="hang")
    assert stored_digest(place) == digest_after(0)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "compress"),
    [
        (signal.SIGINT, "none"),
        (signal.SIGINT, "zstd"),
        (signal.SIGTERM, "none"),
        (signal.SIGHUP, "none"),
    ],
)
def test_a_signal_while_models_stream_leave_the_store_as_it_was(
    place: Path, fill: Fill, compress: Literal["none", "zstd"], number: int
) -> None:
    fill(compress)
    interrupt_at(place, "in the middle", work="hang", number=number)
    assert stored_digest(place) == digest_after(0)


@pytest.mark.processes
@pytest.mark.parametrize("compress", ["none", "zstd"])
@pytest.mark.parametrize("after", [False, True], ids=["before the rename", "after the rename"])
def test_ctrl_c_in_the_commit_does_not_end_that_and_the_new_model_counts(
    place: Path, fill: Fill, compress: Literal["none", "zstd"], after: bool
) -> None:
    fill(compress)
    hook = place / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HOOK.format(after=after))
    interrupt_at(place, "committing now", hook=hook)
    assert stored_digest(place) == digest_after(1)


@pytest.mark.processes
def test_ctrl_c_between_rounds_leaves_the_last_rounds_model(place: Path, fill: Fill) -> None:
    fill("none")
    running = interrupt_at(place, r"round 0 done", work="add")
    done = len(re.findall(r"round \d+ done", running.log))
    # A round may be committed before its line is written.
    assert stored_digest(place) in {digest_after(done), digest_after(done + 1)}


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_table_of_processes_loses_no_figure_on_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    took = {"base_rss_bytes": 123456 << 20, "peak_rss_bytes": 234567 << 20, "cpu_seconds": 98765.4}
    show_usage([{"name": "a-site-with-a-long-name", **took}])
    found = capsys.readouterr().out
    assert all(figure in found for figure in ("123456", "234567", "111111", "98765.4"))
    assert "…" not in found
