"""Schedules: their values, their text, and what clients get of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import RoundError
from streamlink.executors.executor import Task
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link import Attempt
from streamlink.rounds.schedule import SCHEDULES, Schedule, Schedules, schedules_of
from streamlink.stores.memory import MemoryStore
from streamlink.testing import run_job
from tests.support.peers import Array


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("constant:value=32", ["32"] * 3),
        ("step:start=1,every=2,factor=0.5", ["1.0", "1.0", "0.5", "0.5", "0.25"]),
        ("linear:start=1,end=0.5,rounds=3", ["1.0", "0.75", "0.5", "0.5"]),
        ("linear:start=1,end=0.5,rounds=1", ["0.5"]),
        ("cosine:start=1,end=0.5,rounds=3", ["1.0", "0.75", "0.5", "0.5"]),
        ("cosine:start=1,rounds=4,warmup=3", ["0.25", "0.5", "0.75", "0.0", "0.0"]),
    ],
)
def test_the_values_of_a_schedule(text: str, values: list[str]) -> None:
    schedules = schedules_of(f"lr={text}")
    assert [schedules.facts(number)["lr"] for number in range(len(values))] == values


def test_a_cosine_falls_as_the_formula_says() -> None:
    schedules = schedules_of("lr=cosine:start=0.1,end=0.001,rounds=50,warmup=5")
    for number in range(5, 50):
        expected = 0.001 + 0.099 * (1 + math.cos(math.pi * (number - 5) / 44)) / 2
        assert float(schedules.facts(number)["lr"]) == pytest.approx(expected)


def test_several_facts_are_separated_by_semicolons() -> None:
    found = schedules_of(" lr = step:start=1,every=1 ; batch=constant:value=32;")
    assert found.facts(1) == {"lr": "0.1", "batch": "32"}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_text_of_a_schedule_makes_the_same_one(name: str) -> None:
    given = {
        "constant": "value=32",
        "cosine": "start=0.1,end=0.0,rounds=9,warmup=2",
        "linear": "start=0.1,end=0.0,rounds=9",
        "step": "start=0.1,every=10,factor=0.5",
    }
    assert str(schedules_of(f"x={name}:{given[name]}").by_name["x"]) == f"{name}:{given[name]}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lr", "'lr' is not of the form FACT=NAME:SETTING=VALUE"),
        ("lr:start=0.1", "is not of the form FACT=NAME:SETTING=VALUE"),
        ("lr=0.1", "no schedule is called '0.1'; there are: 'constant', 'cosine'"),
        ("lr=step:start=0.1", "every: Field required"),
        ("lr=step:start=nan,every=1", "start: Input should be a finite number, not 'nan'"),
        ("lr=step:start=1,every=0", "every: Input should be greater than or equal to 1"),
        ("lr=step:start=1,every=1,gamma=2", "gamma: Extra inputs"),
        ("lr=cosine:start=1,rounds=5,warmup=5", "warmup is 5; it must be below rounds, 5"),
        ("lr=constant:value=1;lr=constant:value=2", "the fact 'lr' has two schedules"),
        ("=constant:value=1", "cannot be called ''"),
    ],
)
def test_a_text_that_is_wrong_is_refused_at_once(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        schedules_of(text)


def test_what_is_no_function_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"the schedule of 'lr' is 0\.1; give a function"):
        Schedules({"lr": 0.1})  # type: ignore[dict-item]


@pytest.mark.parametrize("value", [math.nan, math.inf, None, [1]])
def test_a_function_that_returns_no_number_fails_the_round(value: object) -> None:
    with pytest.raises(RoundError, match="the schedule of 'lr' returned"):
        Schedules({"lr": lambda number: value}).facts(0)  # type: ignore[dict-item, return-value]


def test_numbers_of_numpy_arrive_as_numbers() -> None:
    assert Schedules({"lr": lambda number: np.float64(0.5)}).facts(0) == {"lr": "0.5"}


class Work:
    """A client that remembers the facts of its tasks."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, str]] = []

    def executor(self) -> StreamingExecutor:
        return StreamingExecutor(
            lambda tensor, start, values: values, weight=self._train, evaluate=self._evaluate
        )

    def _train(self, task: Task) -> float:
        self._see(task)
        return 1.0

    def _evaluate(self, model: dict[str, Array], task: Task) -> dict[str, float]:
        self._see(task)
        return {"loss": 0.5}

    def _see(self, task: Task) -> None:
        self.seen.append((task.name, task.round, task.metadata["lr"]))


@pytest.mark.parametrize(
    "schedule", [lambda number: 1 / (1 + number), schedules_of("lr=linear:start=1,rounds=3")]
)
def test_clients_get_the_value_of_their_round_for_training_and_evaluation(
    schedule: Callable[[int], float] | Schedules,
) -> None:
    work = Work()
    by_name: dict[str, Schedule] = {}
    by_name.update(schedule.by_name if isinstance(schedule, Schedules) else {"lr": schedule})
    reports = run_job(
        MemoryStore({"w": np.zeros(4, np.float32)}),
        {"site-1": work.executor()},
        RoundConfig(min_clients=1, num_rounds=2, start_round=7, evaluate_every=1),
        schedules=by_name,
    )
    tasks = [("train", 7, "1.0"), ("evaluate", 7, "1.0"), ("train", 8, "0.5")]
    assert work.seen == [*tasks, ("evaluate", 8, "0.5")]
    assert [each.scheduled for each in reports] == [{"lr": "1.0"}, {"lr": "0.5"}]


def test_a_fact_for_one_client_replaces_the_scheduled_one() -> None:
    one, other = Work(), Work()

    def metadata(attempt: Attempt, peer: str) -> dict[str, str]:
        return {"lr": "9"} if peer == "site-1" else {}

    run_job(
        MemoryStore({"w": np.zeros(4, np.float32)}),
        {"site-1": one.executor(), "site-2": other.executor()},
        RoundConfig(min_clients=2, num_rounds=1, schedules="lr=constant:value=1"),
        metadata=metadata,
    )
    assert (one.seen, other.seen) == ([("train", 0, "9")], [("train", 0, "1")])


def test_a_schedule_that_raises_fails_its_round_before_a_client_is_asked() -> None:
    work = Work()

    def broken(number: int) -> float:
        raise ArithmeticError("no such round")

    with pytest.raises(ArithmeticError, match="no such round"):
        run_job(
            MemoryStore({"w": np.zeros(4, np.float32)}),
            {"site-1": work.executor()},
            RoundConfig(min_clients=1, num_rounds=1),
            schedules={"lr": broken},
        )
    assert work.seen == []
