"""The events of a job as lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import StoreError
from streamlink.executors.streaming import StreamingExecutor
from streamlink.metrics import EventLines
from streamlink.stores.memory import MemoryStore
from streamlink.testing import run_job
from tests.support.disk import largest_file


def run(path: Path) -> None:
    work = StreamingExecutor(
        lambda tensor, start, values: values, evaluate=lambda model, task: {"accuracy": 0.75}
    )
    rules = RoundConfig(min_clients=1, num_rounds=1, evaluate_every=1, best_metric="accuracy")
    with EventLines(path, wall_clock=lambda: 5.0) as lines:
        run_job(MemoryStore({"w": np.zeros(4, np.float32)}), {"a": work}, rules, on_event=lines)


def test_each_event_is_a_line_and_a_later_job_appends(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    run(path)
    run(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    first, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    assert [each["event"] for each in first] == [each["event"] for each in second]
    began = {"time": 5.0, "event": "round started", "job": "job", "round": 0, "attempt": 1}
    assert first[0] == began
    assert first[1] == {**began, "event": "task offered", "peer": "a"}
    evaluated = next(line for line in first if line["event"] == "evaluated")
    assert evaluated["report"]["evaluation"]["client_metrics"] == {"a": {"accuracy": 0.75}}
    assert first[-1]["detail"] == "accuracy 0.75 of round 0"


def test_a_full_disk_costs_lines_and_no_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with largest_file(200):
        run(tmp_path / "events.jsonl")
    lines = (tmp_path / "events.jsonl").read_text().splitlines(keepends=True)
    assert [json.loads(line)["event"] for line in lines[:2]] == ["round started", "task offered"]
    assert lines[-1].endswith("}\n")  # whole lines only
    assert "an event is lost" in caplog.text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="events cannot be written: Is a directory"):
        EventLines(tmp_path)
