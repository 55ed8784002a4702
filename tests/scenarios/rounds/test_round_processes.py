"""The table of outcomes in ``docs/rounds.md``, with a process for every side."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.peers import assert_same, initial, mean_of
from tests.support.processes import fact
from tests.support.round_processes import Job

pytestmark = [pytest.mark.processes, pytest.mark.parametrize("gather", ["lockstep", "spool"])]

QUICK = {"wait_time_after_min_received": 1.5}


def assert_mean(job: Job, *numbers: int) -> Any:
    """The round ended with exactly the mean of these; returns what was reported."""
    report = fact(job.server, "contributors")
    assert report["contributors"] == [f"site-{number}" for number in numbers]
    assert fact(job.server, "digest")
    assert_same(job.model(), mean_of(initial(), dict.fromkeys(numbers, 1.0)))
    assert job.spooled == []
    return report


def assert_old_model(job: Job) -> Any:
    """The job failed and the model is what it was; returns why."""
    failure = fact(job.server, "failed")
    assert fact(job.server, "digest")
    assert_same(job.model(), initial())
    assert job.spooled == []
    return failure


@pytest.mark.processes(quick=True)
def test_all_clients_answer(gather: str, tmp_path: Path) -> None:
    with Job(tmp_path, gather=gather, fates={0: "", 1: "", 2: ""}) as job:
        assert assert_mean(job, 0, 1, 2)["failures"] == {}


def test_a_killed_client_that_stays_away_is_left_out(gather: str, tmp_path: Path) -> None:
    with Job(tmp_path, gather=gather, fates={0: "", 1: "hang", 2: ""}, **QUICK) as job:
        job.reached(1).kill()
        assert list(assert_mean(job, 0, 2)["failures"]) == ["site-1"]


def test_a_killed_client_that_is_started_again_counts(gather: str, tmp_path: Path) -> None:
    rules = {"wait_time_after_min_received": 30}
    with Job(tmp_path, gather=gather, fates={0: "", 1: "hang", 2: ""}, **rules) as job:
        job.reached(1).kill()
        job.client(1)
        report = assert_mean(job, 0, 1, 2)
        assert report["failures"] == {}
        assert report["attempt"] == (1 if gather == "lockstep" else 2)


def test_a_killed_client_that_is_needed_leaves_the_old_model(gather: str, tmp_path: Path) -> None:
    rules = {**QUICK, "min_clients": 3}
    with Job(tmp_path, gather=gather, fates={0: "", 1: "hang", 2: ""}, **rules) as job:
        job.reached(1).kill()
        failure = assert_old_model(job)
        assert failure["failed"] == "QuorumNotReached"
        assert "site-1" in failure["why"]


def test_a_task_that_raises_leaves_its_client_out(gather: str, tmp_path: Path) -> None:
    with Job(tmp_path, gather=gather, fates={0: "", 1: "raise", 2: ""}) as job:
        assert "the data set is empty" in assert_mean(job, 0, 2)["failures"]["site-1"]


def test_a_task_with_a_wrong_result_leaves_its_client_out(gather: str, tmp_path: Path) -> None:
    with Job(tmp_path, gather=gather, fates={0: "", 1: "short", 2: ""}) as job:
        assert "expected bfloat16" in assert_mean(job, 0, 2)["failures"]["site-1"]


def test_an_update_with_nan_is_rejected_by_its_name(gather: str, tmp_path: Path) -> None:
    fates, rules = {0: "", 1: "nan", 2: ""}, {"non_finite": "reject"}
    with Job(tmp_path, gather=gather, fates=fates, **rules) as job:
        assert "'bf16'" in assert_mean(job, 0, 2)["failures"]["site-1"]


def test_an_update_with_nan_fails_the_round_where_that_is_the_rule(
    gather: str, tmp_path: Path
) -> None:
    fates, rules = {0: "", 1: "nan", 2: ""}, {"non_finite": "fail"}
    with Job(tmp_path, gather=gather, fates=fates, **rules) as job:
        assert "'bf16'" in assert_old_model(job)["why"]


def test_a_client_that_hangs_is_late(gather: str, tmp_path: Path) -> None:
    # A spool waits for one that is late, once the others have arrived; lockstep for all.
    # A spool waits for one that is late, once the others have arrived; lockstep for all.
    rules = {"train_timeout": 6.0 if gather == "lockstep" else 60.0}
    rules["wait_time_after_min_received"] = 0.5
    with Job(tmp_path, gather=gather, fates={0: "", 1: "hang", 2: ""}, **rules) as job:
        if gather == "spool":
            job.reached(1)
            assert "too late" in assert_mean(job, 0, 2)["failures"]["site-1"]
        else:
            # On a busy machine the next block may not have come from one of the others, either.
            why = assert_old_model(job)["why"]
            assert "train_timeout of 6 s passed while waiting for site-" in why


def test_a_stopped_client_is_dead_to_the_server(gather: str, tmp_path: Path) -> None:
    with Job(tmp_path, gather=gather, fates={0: "", 1: "stop", 2: ""}, **QUICK) as job:
        stopped = job.reached(1)
        assert list(assert_mean(job, 0, 2)["failures"]) == ["site-1"]
        stopped.send_signal(signal.SIGCONT)
        stopped.wait(60)  # it hears that it is not wanted any more, and ends
