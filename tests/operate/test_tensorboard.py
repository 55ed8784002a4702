"""Curves for TensorBoard, as its own reader finds them."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import StoreError
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link import Attempt
from streamlink.operate.event_file import record
from streamlink.rounds.evaluate.report import Evaluation
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.report import RoundReport
from streamlink.stores.memory import MemoryStore
from streamlink.tensorboard import TensorBoardWriter
from streamlink.testing import run_job
from tests.support.disk import largest_file

NOT_THERE = "TensorBoard's reader is not installed: make venv"

Points = dict[str, list[tuple[int, float]]]


def read(folder: Path) -> Points:
    """Return the points of each curve, as TensorBoard's reader finds them in every file."""
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader", reason=NOT_THERE
    )
    found: Points = {}
    for path in sorted(folder.iterdir()):
        for event in loader.LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def done(number: int, loss: float = 0.5) -> RoundEvent:
    report = RoundReport(number, 1, 1.5, {"site-1": 2.0}, {"loss": loss})
    return RoundEvent(EventKind.ROUND_DONE, Attempt("job", number, 1), report=report)


def evaluated(number: int) -> RoundEvent:
    found = Evaluation({"accuracy": 0.75}, {"site-1": {"accuracy": 0.75}}, {"site-1": 1.0})
    report = RoundReport(number, 1, 1.5, {"site-1": 2.0}, {"loss": 0.5}, evaluation=found)
    return RoundEvent(EventKind.EVALUATED, Attempt("job", number, 1), report=report)


def test_a_job_gives_curves_of_its_means_its_clients_and_its_schedules(tmp_path: Path) -> None:
    work = {
        f"site-{number}": StreamingExecutor(
            lambda tensor, start, values: values,
            metrics=lambda number=number: {"loss": number / 2},  # type: ignore[misc]
            evaluate=lambda model, task: {"accuracy": 0.25 * (task.round + 1)},
        )
        for number in (1, 2)
    }
    rules = RoundConfig(
        min_clients=2, num_rounds=2, evaluate_every=1, schedules="lr=step:start=0.5,every=1"
    )
    with TensorBoardWriter(tmp_path / "runs") as curves:
        run_job(MemoryStore({"w": np.zeros(4, np.float32)}), work, rules, on_event=curves)
    found = read(tmp_path / "runs")
    assert found["train/loss"] == [(0, 0.75), (1, 0.75)]
    assert found["train_clients/loss/site-2"] == [(0, 1.0), (1, 1.0)]
    assert found["evaluation/accuracy"] == [(0, 0.25), (1, 0.5)]
    assert found["evaluation_clients/accuracy/site-1"] == [(0, 0.25), (1, 0.5)]
    assert found["schedule/lr"] == [(0, 0.5), (1, pytest.approx(0.05))]
    assert found["round/updates"] == [(0, 2.0), (1, 2.0)]


def test_a_large_step_and_a_large_number_are_read_back(tmp_path: Path) -> None:
    with TensorBoardWriter(tmp_path) as curves:
        curves(done(100_000, loss=1e300))
    assert read(tmp_path)["train/loss"] == [(100_000, float("inf"))]


def test_an_event_without_a_report_writes_nothing(tmp_path: Path) -> None:
    with TensorBoardWriter(tmp_path) as curves:
        before = curves.path.stat().st_size
        curves(RoundEvent(EventKind.ROUND_STARTED, Attempt("job", 0, 1)))
        assert curves.path.stat().st_size == before


def test_too_many_curves_are_left_out_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TensorBoardWriter(tmp_path, max_curves=4) as curves:
        curves(done(0))
        curves(evaluated(0))
        curves(evaluated(1))
        curves(done(1))
    found = read(tmp_path)
    assert set(found) == {"round/seconds", "round/updates", "round/failures", "train/loss"}
    assert len(found["train/loss"]) == 2
    ours = [each.levelno for each in caplog.records if each.name == "streamlink.rounds"]
    assert ours == [logging.WARNING]
    assert "and not evaluation/accuracy or any other" in caplog.text


def test_a_name_that_is_not_printable_cannot_break_a_terminal(tmp_path: Path) -> None:
    report = RoundReport(0, 1, 1.5, {}, {"lo\x1b[2Jss": 0.5})
    with TensorBoardWriter(tmp_path) as curves:
        curves(RoundEvent(EventKind.ROUND_DONE, Attempt("job", 0, 1), report=report))
    assert "train/lo_[2Jss" in read(tmp_path)


def test_after_a_full_disk_the_next_point_follows_the_last_whole_one(tmp_path: Path) -> None:
    with TensorBoardWriter(tmp_path) as curves:
        curves(done(0))
        with (
            largest_file(curves.path.stat().st_size + 20),
            pytest.raises(StoreError, match="a point for TensorBoard is lost"),
        ):
            curves(done(1))
        curves(done(2))
    assert [step for step, _ in read(tmp_path)["train/loss"]] == [0, 2]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="runs: the curves for TensorBoard cannot be written"):
        TensorBoardWriter(tmp_path / "runs")


def test_a_record_has_the_checksums_of_its_format() -> None:
    crc = 0xE3069283  # of CRC-32C, for these nine digits, in every table of check values
    rotated = (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF
    data = record(b"123456789")
    assert struct.unpack("<Q", data[:8]) == (9,)
    assert data[12:] == b"123456789" + struct.pack("<I", rotated)


@pytest.fixture
def accumulated(tmp_path: Path) -> Callable[[], Points]:
    """What TensorBoard shows of the folder; its import takes seconds."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason=NOT_THERE
    )

    def load() -> Points:
        found = accumulator.EventAccumulator(str(tmp_path))
        found.Reload()
        return {
            tag: [(each.step, each.value) for each in found.Scalars(tag)]
            for tag in found.Tags()["scalars"]
        }

    return load


@pytest.mark.slow
def test_a_new_job_replaces_the_curves_and_a_resumed_one_continues_them(
    tmp_path: Path, accumulated: Callable[[], Points]
) -> None:
    times = iter(range(1, 1000))
    with TensorBoardWriter(tmp_path, wall_clock=lambda: next(times)) as old:
        for number in range(3):
            old(done(number, loss=9.0))
    with TensorBoardWriter(tmp_path, wall_clock=lambda: next(times)) as new:
        new(done(0))
        new(done(1))
    with TensorBoardWriter(tmp_path, wall_clock=lambda: next(times)) as resumed:
        resumed(evaluated(1))
        resumed(done(2))
    found = accumulated()
    assert found["train/loss"] == [(0, 0.5), (1, 0.5), (2, 0.5)]
    assert found["evaluation/accuracy"] == [(1, 0.75)]
