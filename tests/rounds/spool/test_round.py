"""What becomes of a spooled round: who counts, who is let go, and what stands in the end."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.config import LinkConfig
from streamlink.errors import QuorumNotReached, RoundError
from streamlink.executors.executor import Task
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.model.spec import TensorSpec
from streamlink.rounds.events import EventKind
from tests.support.jobs import Job
from tests.support.peers import SMALL, WAIT, Array, Federation, Gate, executor, initial, trained
from tests.support.virtual_clock import VirtualClock


def spooled(
    directory: Path, link: LinkConfig = SMALL, federation: Federation | None = None, **rules: Any
) -> Job:
    extras = {"spool": directory / "spool"}
    return Job(link, extras=extras, federation=federation, gather="spool", **rules)


def raising(tensor: TensorSpec, start: int, values: Array) -> Array:
    raise ValueError("the data set is empty")


def with_nan(tensor: TensorSpec, start: int, values: Array) -> Array:
    result = trained(1)(tensor, start, values).copy()
    if tensor.name == "f32" and start == 0:
        result[3] = np.nan
    return result


def test_all_that_answer_are_averaged_and_nothing_is_left_in_the_spool(tmp_path: Path) -> None:
    with spooled(tmp_path) as job:
        for number in range(3):
            job.site(number)
        job.start(3)
        report = job.report()
        job.assert_mean_of(0, 1, 2)
    assert report.failures == {}
    assert list(tmp_path.rglob("*")) == []


def test_a_straggler_is_let_go_after_the_grace_time(tmp_path: Path) -> None:
    with spooled(tmp_path, wait_time_after_min_received=0.2) as job:
        gate, _ = job.gated(1)
        job.site(0)
        job.site(2)
        job.start(3)
        report = job.report()
        job.assert_mean_of(0, 2)
        assert gate.reached.is_set()
    assert sorted(report.weights) == ["site-0", "site-2"]
    told = r"its update came too late: \d+ of \d+ bytes were here when the round's rule was met"
    assert re.match(told, report.failures["site-1"])


def test_a_client_that_sent_nothing_is_not_blamed_for_a_late_update(tmp_path: Path) -> None:
    works, told = threading.Event(), list[str]()

    def train(arrays: dict[str, Array], task: Task) -> None:
        works.wait(WAIT)

    with spooled(tmp_path, wait_time_after_min_received=0.2) as job:
        job.extras["on_event"] = lambda event: (
            told.append(event.detail) if event.peer_name else None
        )
        job.site(1, WholeExecutor(train, initial()))
        job.site(0)
        job.site(2)
        job.start(3)
        why = job.report().failures["site-1"]
        works.set()
    assert why.startswith("no update of it came before the round's rule was met: 2 updates")
    assert why in told


def test_nobody_is_told_of_a_rule_that_was_not_met(tmp_path: Path) -> None:
    with spooled(tmp_path, train_timeout=0.5, min_clients=2) as job:
        job.gated(1, "f64")
        job.site(0)
        job.start(2)
        why = str(job.failure().failures["site-1"])
    assert why.endswith("0.5 s had passed (train_timeout)")


def test_a_straggler_takes_part_in_the_next_round(tmp_path: Path) -> None:
    gate = Gate(1)

    def work(tensor: TensorSpec, start: int, values: Array) -> Array:
        return gate(tensor, start, values)

    rules: dict[str, Any] = {"wait_time_after_min_received": 0.2, "num_rounds": 2}
    with spooled(tmp_path, **rules) as job:
        job.extras["on_event"] = lambda event: (
            gate.opens.set() if event.kind.value == "round done" else None
        )
        job.site(1, StreamingExecutor(work))
        job.site(0)
        job.site(2)
        job.rules = job.rules.model_copy(update={"wait_time_after_min_received": 1.0})
        job.start(3)
        first, second = job.reports()
    assert sorted(first.weights) == ["site-0", "site-2"]
    assert sorted(second.weights) == ["site-0", "site-1", "site-2"]


def test_a_lost_client_that_comes_back_is_asked_again_and_counts(tmp_path: Path) -> None:
    with spooled(tmp_path, wait_time_after_min_received=WAIT) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.start(2)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        job.federation.wait_left("site-1")
        gate.opens.set()
        job.site(1)
        report = job.report()
        job.assert_mean_of(0, 1)
    assert report.attempt == 2
    assert report.failures == {}


def test_a_lost_client_that_stays_away_is_left_out_without_another_attempt(tmp_path: Path) -> None:
    with spooled(tmp_path, wait_time_after_min_received=0.2) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.site(2)
        job.start(3)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        report = job.report()
        job.assert_mean_of(0, 2)
    assert report.attempt == 1
    assert list(report.failures) == ["site-1"]


def test_too_few_updates_leave_the_old_model_and_an_empty_spool(tmp_path: Path) -> None:
    with spooled(tmp_path, wait_time_after_min_received=0.1) as job:
        job.site(0)
        job.site(1, StreamingExecutor(raising))
        job.start(2)
        error = job.failure()
        job.assert_unchanged()
    assert isinstance(error, QuorumNotReached)
    assert "the data set is empty" in str(error)
    assert list(tmp_path.rglob("*")) == []


def test_at_train_timeout_the_round_continues_with_the_updates_that_arrived(tmp_path: Path) -> None:
    rules: dict[str, Any] = {"train_timeout": 10.0, "wait_time_after_min_received": 1e6}
    clock = VirtualClock()
    arrived = threading.Semaphore(0)
    job = spooled(tmp_path, federation=Federation(clock=clock), **rules)
    job.extras["on_event"] = lambda event: (
        arrived.release() if event.kind is EventKind.UPDATE_ARRIVED else None
    )
    job.gated(1)
    job.site(0)
    job.site(2)
    job.start(3)
    assert all(arrived.acquire(timeout=WAIT) for _ in range(2))
    clock.advance(11.0)
    job.report()
    job.assert_mean_of(0, 2)
    with clock.running(), job:  # what is waited for at the end has no other clock
        pass


def test_train_timeout_with_too_few_leaves_the_old_model(tmp_path: Path) -> None:
    with spooled(tmp_path, train_timeout=0.5) as job:
        job.gated(1)
        job.site(0)
        job.start(2)
        error = job.failure()
        job.assert_unchanged()
    assert "train_timeout passed" in str(error)


def test_an_update_with_nan_is_rejected_and_the_others_are_not_asked_again(tmp_path: Path) -> None:
    with spooled(tmp_path, non_finite="reject") as job:
        job.site(0)
        job.site(1, StreamingExecutor(with_nan))
        job.site(2)
        job.start(3)
        report = job.report()
        job.assert_mean_of(0, 2)
    assert report.attempt == 1
    assert "'f32'" in report.failures["site-1"]


def test_a_round_may_fail_for_a_nan(tmp_path: Path) -> None:
    with spooled(tmp_path, non_finite="fail") as job:
        job.site(0)
        job.site(1, StreamingExecutor(with_nan))
        job.site(2)
        job.start(3)
        assert "'f32'" in str(job.failure())
        job.assert_unchanged()


def test_the_spool_is_chosen_where_stragglers_may_be_let_go(tmp_path: Path) -> None:
    with spooled(tmp_path, wait_time_after_min_received=0.2) as job:
        job.rules = job.rules.model_copy(update={"gather": "auto"})
        job.gated(1)
        job.site(0)
        job.site(2)
        job.start(3)
        job.report()
        job.assert_mean_of(0, 2)


def test_lockstep_is_chosen_where_everybody_is_needed(tmp_path: Path) -> None:
    seen = []
    with spooled(tmp_path) as job:
        job.rules = job.rules.model_copy(update={"gather": "auto"})
        job.extras["on_event"] = lambda event: seen.append(event.kind.name)
        job.site(0)
        job.site(1)
        job.start(2)
        job.report()
        job.assert_mean_of(0, 1)
    assert "UPDATE_ARRIVED" not in seen


def test_a_spool_without_a_directory_is_refused_at_once() -> None:
    with Job(gather="spool") as job:
        job.start(0)
        with pytest.raises(ValueError, match="spool"):
            job.reports()


def test_an_exception_of_the_embedder_ends_the_round(tmp_path: Path) -> None:
    def veto(event: Any) -> None:
        if event.kind.value == "before persist":
            raise RoundError("the new model is worse")

    with spooled(tmp_path) as job:
        job.extras["on_event"] = veto
        job.site(0)
        job.site(1)
        job.start(2)
        assert "worse" in str(job.failure())
        job.assert_unchanged()


def test_stragglers_leave_no_thread_behind(tmp_path: Path) -> None:
    with spooled(tmp_path, wait_time_after_min_received=0.1) as job:
        gate, _ = job.gated(1)
        job.site(0, executor(0))
        job.site(2)
        job.start(3)
        job.report()
        gate.opens.set()
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("spool")]
    assert left == []
