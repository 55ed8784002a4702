"""What a job says of itself while it runs, and what an operator's orders do to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamlink import TaskResult, WholeExecutor
from streamlink.errors import (
    JobAborted,
    QuorumNotReached,
    RoundError,
    StoreError,
    StreamAborted,
)
from streamlink.link import Totals
from streamlink.operate.control import ControlError
from streamlink.operate.status import JobOperator, Memory, Rates
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.ledger import Ledger
from streamlink.transport.traffic import TrafficCounter
from tests.support.jobs import Job
from tests.support.peers import WAIT


class Watched(Job):
    """A job whose rounds can be asked and ordered while they run."""

    rounds: ScatterAndGather

    def begin(self, clients: int) -> JobOperator:
        self.federation.server.wait_for_peers(clients, WAIT)
        self.prepare()
        threading.Thread(target=self._go, daemon=True).start()
        return JobOperator(self.federation.server, self.rounds, Memory())

    def prepare(self) -> None:
        server, extras = self.federation.server, self.extras
        self.rounds = ScatterAndGather(server, self.store, self.rules, job="test", **extras)

    def _go(self) -> None:
        try:
            self.done.set_result(self.rounds.run())
        except BaseException as error:
            self.done.set_exception(error)


@pytest.fixture
def make() -> Iterator[Callable[..., Watched]]:
    jobs: list[Watched] = []

    def make(**rules: Any) -> Watched:
        jobs.append(Watched(**rules))
        return jobs[-1]

    yield make
    for job in jobs:
        job.__exit__()


def clients(operator: JobOperator) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in operator.status()["clients"]}


# --- status -------------------------------------------------------------------------------


def test_a_job_that_waits_for_its_clients_says_so(make: Callable[..., Watched]) -> None:
    job = make()
    job.site(0)
    job.federation.peer("site-0")
    job.prepare()
    status = JobOperator(job.federation.server, job.rounds, Memory()).status()
    assert (status["phase"], status["round"]) == ("waiting for clients", None)
    assert [each["presence"] for each in status["clients"]] == ["here"]


def test_a_status_says_who_is_how_far_and_who_is_waited_for(make: Callable[..., Watched]) -> None:
    job = make()
    gate, _ = job.gated(1)
    job.site(0)
    operator = job.begin(2)
    assert gate.reached.wait(WAIT)
    status = operator.status()
    assert (status["round"], status["attempt"]) == (0, 1)
    assert status["phase"] in ("gathering", "averaging")
    told = clients(operator)
    total = told["site-0"]["send_total_bytes"]
    assert told["site-0"]["receive_total_bytes"] == total > told["site-1"]["received_bytes"]
    assert told["site-0"]["held_for"] == "site-1"
    assert not told["site-1"]["held_for"]
    assert (told["site-0"]["is_working"], told["site-1"]["is_working"]) == (False, True)
    assert status["memory"]["peak_bytes"] == job.rounds.peak_bytes(2)


def test_a_client_that_trains_works_and_one_that_is_done_does_not(
    make: Callable[..., Watched], tmp_path: Path
) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def train(model: object, task: object) -> TaskResult:
        began.set()
        goes_on.wait(WAIT)
        return TaskResult()

    job = make(gather="spool")
    job.extras["spool"] = tmp_path / "spool"
    job.site(0)
    job.site(1, executor_=WholeExecutor(train))
    operator = job.begin(2)
    assert began.wait(WAIT)
    until = time.monotonic() + WAIT
    while not (told := clients(operator))["site-1"][
        "is_working"
    ]:  # the model has just gone down to it
        assert time.monotonic() < until
    assert not told["site-0"]["is_working"]
    goes_on.set()
    job.report()
    assert not any(each["is_working"] for each in clients(operator).values())


def test_rounds_that_are_done_are_told_with_who_was_in_them(make: Callable[..., Watched]) -> None:
    job = make(num_rounds=2)
    job.site(0), job.site(1)
    operator = job.begin(2)
    job.reports()
    status = operator.status()
    assert (status["phase"], status["rounds_done"], status["updates"]) == ("done", 2, 4)
    assert [each["contributors"] for each in status["last_rounds"]] == [("site-0", "site-1")] * 2


def test_a_client_that_is_gone_is_told_as_lost(
    make: Callable[..., Watched],
) -> None:
    job = make(min_clients=1, wait_time_after_min_received=0.0)
    gate, site = job.gated(1)
    other, _ = job.gated(0)
    operator = job.begin(2)
    assert gate.reached.wait(WAIT)
    assert other.reached.wait(WAIT)
    site.leave()
    job.federation.wait_left("site-1")
    gate.opens.set()
    other.opens.set()
    job.report()
    assert clients(operator)["site-1"]["presence"] == "lost"
    (trouble,) = operator.status()["troubles"]
    assert (trouble["peer_name"], trouble["round"]) == ("site-1", 0)


# --- orders --------------------------------------------------------------------------------


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_an_aborted_job_ends_soon_and_the_last_model_stands(
    gather: str, make: Callable[..., Watched], tmp_path: Any
) -> None:
    job = make(gather=gather)
    job.extras["spool"] = tmp_path / "spool"
    gate, site = job.gated(1)
    job.site(0)
    operator = job.begin(2)
    assert gate.reached.wait(WAIT)
    operator.answer({"do": "abort", "reason": "wrong data"})
    error = job.failure()
    assert isinstance(error, JobAborted)
    assert error.reason == "wrong data"
    job.assert_unchanged()
    assert operator.status()["phase"] == "failed"
    gate.opens.set()
    job.federation.server.__exit__(type(error), error, None)
    with pytest.raises(StreamAborted, match="aborted by the operator: wrong data"):
        site.done.result(WAIT)


def test_a_job_that_waits_for_clients_can_be_aborted(make: Callable[..., Watched]) -> None:
    job = make(wait_for_clients_seconds=600.0)
    job.prepare()
    threading.Thread(target=job._go, daemon=True).start()
    job.rounds.abort("nobody comes")
    assert isinstance(job.failure(), JobAborted)


def test_a_job_that_waits_for_a_lost_client_can_be_aborted(make: Callable[..., Watched]) -> None:
    job = make(wait_time_after_min_received=600.0)
    gate, site = job.gated(1)
    job.site(0)
    job.begin(2)
    assert gate.reached.wait(WAIT)
    site.leave()
    gate.opens.set()
    job.federation.wait_left("site-1")
    job.rounds.abort("enough")
    assert isinstance(job.failure(), JobAborted)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_client_that_is_excluded_does_not_count_and_the_others_go_on(
    gather: str, make: Callable[..., Watched], tmp_path: Any
) -> None:
    job = make(gather=gather, min_clients=1, wait_time_after_min_received=600.0)
    job.extras["spool"] = tmp_path / "spool"
    gate, site = job.gated(1)
    other, _ = job.gated(0)
    operator = job.begin(2)
    assert gate.reached.wait(WAIT)
    assert other.reached.wait(WAIT)
    operator.answer({"do": "drop", "client": "site-1", "reason": "its data is poisoned"})
    gate.opens.set()
    other.opens.set()
    report = job.report()
    assert set(report.weights) == {"site-0"}
    assert "its data is poisoned" in report.failures["site-1"]
    job.assert_mean_of(0)
    with pytest.raises(StreamAborted, match="excluded by the operator: its data is poisoned"):
        site.done.result(WAIT)
    assert "poisoned" in clients(operator)["site-1"]["excluded"]


@pytest.mark.parametrize("when", [EventKind.UPDATE_ARRIVED, EventKind.BEFORE_AGGREGATION])
def test_a_client_is_excluded_though_its_update_is_stored(
    when: EventKind, make: Callable[..., Watched], tmp_path: Any
) -> None:
    def throw_out(event: RoundEvent) -> None:
        if event.kind is when and event.peer_name in ("", "site-1"):
            job.rounds.drop("site-1", "its data is poisoned")

    job = make(gather="spool", min_clients=1, wait_time_after_min_received=600.0)
    job.extras |= {"spool": tmp_path / "spool", "on_event": throw_out}
    job.site(0), job.site(1)
    job.begin(2)
    report = job.report()
    assert set(report.weights) == {"site-0"}
    assert "its data is poisoned" in report.failures["site-1"]
    job.assert_mean_of(0)


def test_a_client_that_is_excluded_while_it_is_away_is_not_waited_for(
    make: Callable[..., Watched], tmp_path: Any
) -> None:
    def throw_out(event: RoundEvent) -> None:
        if event.kind is EventKind.CLIENT_DROPPED and not job.federation.server.barred:
            job.rounds.drop("site-1", "its data is poisoned")

    job = make(gather="spool", min_clients=1, wait_time_after_min_received=600.0)
    job.extras |= {"spool": tmp_path / "spool", "on_event": throw_out}
    gate, site = job.gated(1)
    other, _ = job.gated(0)
    job.begin(2)
    assert gate.reached.wait(WAIT)
    site.leave()
    gate.opens.set()
    job.federation.wait_left("site-1")
    other.opens.set()
    assert "its data is poisoned" in job.report().failures["site-1"]


def test_too_few_after_a_client_was_excluded_fail_the_round(make: Callable[..., Watched]) -> None:
    job = make(wait_time_after_min_received=600.0)
    gate, _ = job.gated(1)
    job.site(0)
    job.begin(2)
    assert gate.reached.wait(WAIT)
    job.rounds.drop("site-1", "no")
    gate.opens.set()
    assert isinstance(job.failure(), QuorumNotReached)
    job.assert_unchanged()


def test_who_was_excluded_comes_back_only_when_readmitted(make: Callable[..., Watched]) -> None:
    job = make()
    job.site(1)
    job.federation.peer("site-1")
    job.prepare()
    operator = JobOperator(job.federation.server, job.rounds, Memory())
    operator.answer({"do": "drop", "client": "site-1", "reason": "no"})
    job.federation.wait_left("site-1")
    with pytest.raises(StreamAborted, match="excluded by the operator: no"):
        job.site(1)
    operator.answer({"do": "readmit", "client": "site-1"})
    job.site(1)
    assert job.federation.peer("site-1").is_here


def test_who_is_out_keeps_the_first_reason_and_who_is_not_is_told_so(
    make: Callable[..., Watched], tmp_path: Path
) -> None:
    job = make()
    job.extras["ledger"] = ledger = Ledger(tmp_path / "ledger", job.store, job.rules, job="test")
    job.site(1)
    job.federation.peer("site-1")
    job.prepare()
    operator = JobOperator(job.federation.server, job.rounds, Memory())
    operator.answer({"do": "drop", "client": "site-1", "reason": "its data is poisoned"})
    job.federation.wait_left("site-1")
    again = operator.answer({"do": "drop", "client": "site-1", "reason": "and late"})["done"]
    assert again.startswith("site-1 was already excluded by the operator: its data is pois")
    assert "poisoned" in clients(operator)["site-1"]["excluded"]
    was_not = operator.answer({"do": "readmit", "client": "site-7"})["done"]
    assert was_not == "site-7 was not excluded, so nothing changes; excluded clients: site-1"
    assert ledger.barred == job.federation.server.barred != {}
    assert operator.answer({"do": "readmit", "client": "site-1"})["done"] == "site-1 is readmitted"
    assert ledger.barred == job.federation.server.barred == {}


def test_a_ledger_that_cannot_be_written_does_not_let_anybody_stay(
    make: Callable[..., Watched], tmp_path: Path
) -> None:
    job = make()
    job.extras["ledger"] = tmp_path / "gone" / "ledger.json"
    job.extras["ledger"].parent.mkdir()
    job.site(1)
    job.federation.peer("site-1")
    job.prepare()
    job.extras["ledger"].parent.rmdir()
    operator = JobOperator(job.federation.server, job.rounds, Memory())
    with pytest.raises(StoreError, match="site-1 is excluded, but only until this server ends: "):
        operator.answer({"do": "drop", "client": "site-1"})
    job.federation.wait_left("site-1")
    with pytest.raises(StreamAborted, match="excluded"):
        job.site(1)


def test_a_job_that_goes_on_neither_lets_in_nor_waits_for_who_was_excluded(
    make: Callable[..., Watched], tmp_path: Path
) -> None:
    job = make(min_clients=1, wait_for_clients_seconds=600.0)
    job.extras["ledger"] = Ledger(tmp_path / "ledger", job.store, job.rules, job="test")
    job.extras["ledger"].begin(["site-0", "site-1"])
    job.extras["ledger"].bar("site-1", "no")
    job.extras["ledger"] = Ledger(
        tmp_path / "ledger", job.store, job.rules, job="test", resume=True
    )
    job.site(0)
    job.begin(1)
    with pytest.raises(StreamAborted, match="no"):
        job.site(1)
    assert set(job.report().weights) == {"site-0"}


def test_nobody_who_is_not_here_is_excluded(make: Callable[..., Watched]) -> None:
    job = make()
    job.site(1)
    job.federation.peer("site-1")
    job.prepare()
    with pytest.raises(RoundError, match="'site-7' is or was connected; connected: site-1"):
        job.rounds.drop("site-7", "no")


@pytest.mark.parametrize("question", [{}, {"do": "dance"}, {"do": "abort", "reason": 3}])
def test_an_order_that_is_none_is_refused(
    question: dict[str, Any], make: Callable[..., Watched]
) -> None:
    job = make()
    gate, _ = job.gated(1)
    job.site(0)
    operator = job.begin(2)
    assert gate.reached.wait(WAIT)
    with pytest.raises(ControlError):
        operator.answer(question)
    gate.opens.set()
    assert set(job.report().weights) == {"site-0", "site-1"}  # it was not aborted


def test_a_listener_hears_of_an_abort_as_a_round_that_failed(make: Callable[..., Watched]) -> None:
    heard: list[RoundEvent] = []
    job = make()
    job.extras["on_event"] = heard.append
    gate, _ = job.gated(1)
    job.site(0)
    job.begin(2)
    assert gate.reached.wait(WAIT)
    job.rounds.abort("stop it")
    job.failure()
    assert heard[-1].kind is EventKind.ROUND_FAILED
    assert "stop it" in heard[-1].detail


# --- rates --------------------------------------------------------------------------------


def test_a_rate_is_what_came_since_the_question_before() -> None:
    now, moved = [100.0], [0]

    class Moving(TrafficCounter):
        def totals(self) -> dict[tuple[str, str], Totals]:
            return {("a", "sent"): Totals(bytes=moved[0])}

    rates = Rates(Moving(), clock=lambda: now[0])
    rates.now()
    now[0], moved[0] = 104.0, 4000
    assert rates.now()[1] == {("a", "sent"): 1000.0}


def test_the_model_before_is_what_an_aborted_first_round_leaves(
    make: Callable[..., Watched],
) -> None:
    job = make()
    job.site(0), job.site(1)
    job.federation.server.wait_for_peers(2, WAIT)
    job.prepare()
    job.rounds.abort("before it began")
    with pytest.raises(JobAborted):
        job.rounds.run()
    job.assert_unchanged()
