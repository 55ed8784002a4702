"""Several clients are lost at once, and come back: none waits until another one has answered."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from streamlink.executors.executor import Task
from streamlink.executors.whole import WholeExecutor
from tests.support.jobs import Job
from tests.support.peers import WAIT, Array, Site, initial

CLIENTS = 3


class Training:
    """A whole-model executor whose training has begun, and ends when the test says so."""

    def __init__(self) -> None:
        self.began, self.ends = threading.Event(), threading.Event()
        self.executor = WholeExecutor(self._train, initial())

    def _train(self, arrays: dict[str, Array], task: Task) -> None:
        self.began.set()
        self.ends.wait(3 * WAIT)


@pytest.fixture(params=["lockstep", "spool"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    extras = {"spool": tmp_path / "spool"}
    rules: dict[str, Any] = {"min_clients": CLIENTS, "wait_time_after_min_received": 3 * WAIT}
    with Job(gather=request.param, extras=extras, **rules) as job:
        yield job


def begin(job: Job) -> tuple[list[Training], list[Site]]:
    trainings = [Training() for _ in range(CLIENTS)]
    sites = [job.site(number, each.executor) for number, each in enumerate(trainings)]
    return trainings, sites


def all_began(trainings: list[Training]) -> None:
    for number, each in enumerate(trainings):
        assert each.began.wait(WAIT), f"site-{number} waits for the others' answers"


def test_all_that_are_back_are_asked_at_once(job: Job) -> None:
    lost, sites = begin(job)
    job.start(CLIENTS)
    all_began(lost)
    for site, each in zip(sites, lost, strict=True):
        each.ends.set()
        site.leave()
    for number in range(CLIENTS):
        job.federation.wait_left(f"site-{number}")
    back, _ = begin(job)
    all_began(back)  # and nobody has answered yet
    for each in back:
        each.ends.set()
    report = job.report()
    assert sorted(report.weights) == [f"site-{number}" for number in range(CLIENTS)]
    assert report.failures == {}
