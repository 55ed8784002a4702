"""A spooled round asks more clients than it needs, and counts exactly the first updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamlink.config import RoundConfig
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import EventKind, RoundEvent
from tests.support.jobs import Job
from tests.support.peers import WAIT, executor

RULES: dict[str, Any] = {
    "gather": "spool",
    "min_clients": 2,
    "take_first": 2,
    "wait_time_after_min_received": WAIT,
}


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"take_first": 2}, "set gather to spool"),
        ({"take_first": 2, "gather": "spool", "min_clients": 3}, "raise take_first, or lower"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_at_once(rules: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RoundConfig(**rules)


def test_a_straggler_is_left_out_at_once_and_named(tmp_path: Path) -> None:
    with Job(extras={"spool": tmp_path / "spool"}, **RULES) as job:
        gate, _ = job.gated(1)
        job.site(0)
        job.site(2)
        job.start(3)
        report = job.report()
        job.assert_mean_of(0, 2)
        assert not gate.opens.is_set()
    assert set(report.failures) == {"site-1"}
    assert "the first 2 updates had arrived (take_first)" in report.failures["site-1"]


def test_of_many_at_the_same_time_exactly_the_first_count(tmp_path: Path) -> None:
    names = {f"site-{number}" for number in range(6)}
    with Job(extras={"spool": tmp_path / "spool"}, **RULES) as job:
        for number in range(6):
            job.site(number)
        job.start(6)
        report = job.report()
        job.assert_mean_of(*(int(name[-1]) for name in report.weights))
    assert len(report.weights) == 2
    assert report.failures.keys() == names - report.weights.keys()
    assert all("take_first" in why for why in report.failures.values())
    assert list(tmp_path.rglob("*")) == []


def test_a_resumed_round_counts_those_that_were_the_first_and_asks_nobody(tmp_path: Path) -> None:
    first, offered = set[str](), list[str]()

    def interrupt(event: RoundEvent) -> None:
        if event.kind is EventKind.UPDATE_ARRIVED:
            first.add(event.peer_name)
        if event.kind is EventKind.BEFORE_PERSIST:
            raise KeyboardInterrupt

    def note(event: RoundEvent) -> None:
        if event.kind is EventKind.TASK_OFFERED:
            offered.append(event.peer_name)

    place: Any = {"ledger": tmp_path / "ledger", "resume": True, "spool": tmp_path / "spool"}
    rules = RoundConfig(**RULES, num_rounds=1)
    with Job() as job:
        for number in range(4):
            job.site(number, executor(number))
        server = job.federation.server
        server.wait_for_peers(4, WAIT)
        with pytest.raises(KeyboardInterrupt):
            ScatterAndGather(server, job.store, rules, on_event=interrupt, **place).run()
        (report,) = ScatterAndGather(server, job.store, rules, on_event=note, **place).run()
        job.assert_mean_of(*(int(name[-1]) for name in first))
    assert report.weights.keys() == first == set(report.recovered)
    assert offered == []
