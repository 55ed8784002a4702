"""``python -m benchmarks strategies``: the models that it expects, and its verdicts."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import strategies
from benchmarks.jobs import Ran
from benchmarks.models import Layout
from benchmarks.processes import Usage, WorkerFailed
from benchmarks.stats import Result
from benchmarks.strategies import Case, Run
from streamlink.model.payloads import as_bytes_view
from streamlink.stores import SafetensorsStore

MIB, MB = 1 << 20, 10**6
SMALL = Layout(tensors=2, tensor_bytes=4000)


# --- the models -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "two", "eight"),
    [("mean", 1.5, 8.0), ("fedadam", 1.5, 8.0), ("median", 1.5, 5.0), ("trimmed_mean", 1.5, 6.0)],
)
def test_a_first_round_moves_elements_as_the_aggregator_says(
    strategy: str, two: float, eight: float
) -> None:
    assert strategies.grown(strategy, strategies.ADDED[:2], 1) == two
    assert strategies.grown(strategy, strategies.ADDED, 1) == eight


def test_steps_of_fedadam_grow_with_the_momentum_and_others_do_not() -> None:
    assert strategies.grown("fedadam", [1, 2], 2) == 1.5 + 2.25
    assert strategies.grown("median", [1, 2], 2) == 2 * 1.5


@pytest.mark.parametrize("quick", [True, False])
def test_all_that_is_expected_of_an_element_is_exact(quick: bool) -> None:
    for case in strategies.cases(quick):
        for bound in case.bounds:
            assert (bound * 32).is_integer()


def _stored(place: Path, values: npt.NDArray[np.float32]) -> SafetensorsStore:
    store = SafetensorsStore(place)
    sink = store.begin(SMALL.spec)
    sink.write(0, as_bytes_view(values))
    sink.commit()
    return store


def _first_model() -> npt.NDArray[np.float32]:
    views = SMALL.model(0.0).read(0, SMALL.nbytes)
    return np.frombuffer(b"".join(views), np.float32).copy()


def test_elements_outside_the_bounds_are_counted(tmp_path: Path) -> None:
    values = _first_model() + np.float32(2)
    values[[0, 7, -1]] = [-1, 1e9, np.nan]
    store = _stored(tmp_path, values)
    assert strategies.outside(store, SMALL, 2.0, 2.0) == 3
    assert strategies.outside(store, SMALL, -1.0, 3.0) == 2
    assert strategies.outside(store, SMALL, 3.0, 4.0) == values.size


# --- the program, small ---------------------------------------------------------------------------


@pytest.mark.processes
def test_each_model_of_a_quick_run_is_what_its_strategy_makes_of_the_updates() -> None:
    result = strategies.run(quick=True)
    runs = result.facts["runs"]
    assert [(run["case"]["strategy"], run["case"]["is_poisoned"]) for run in runs] == [
        ("median", True),
        *((strategy, False) for strategy in strategies.STRATEGIES),
    ]
    assert [run["elements_outside"] for run in runs] == [0] * len(runs)
    assert [len(run["round_seconds"]) for run in runs] == [0, 1, 1, 1, 1]
    assert result.met is None
    assert {len(row) for row in result.rows} == {len(result.columns)}


@pytest.mark.processes
def test_a_model_that_is_not_as_computed_fails_the_run() -> None:
    with pytest.raises(WorkerFailed, match="not as computed"):
        strategies.measure(_Wrong("mean", 2, 4000))


class _Wrong(Case):
    @property
    def bounds(self) -> tuple[float, float]:
        return 2.0, 2.0  # after two rounds it is 3


@pytest.mark.processes
def test_a_poisoned_update_moves_the_mean() -> None:  # and, in a quick run, not the median
    found = strategies.measure(Case("mean", 2, 4000, rounds=1, is_poisoned=True))
    assert found.outside == found.case.layout.nbytes // 4


class _Disk(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_without_room_is_refused_before_the_first_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Disk(10**12, 0, MB))
    with pytest.raises(OSError, match="TMPDIR chooses another folder"):
        strategies.run(quick=True)


# --- the verdicts ---------------------------------------------------------------------------------


def _run(case: Case, *, seconds: float = 10.0, over: int = 100 * MIB, outside: int = 0) -> Run:
    server = Usage(0, over, 0.0)
    return Run(case, Ran((), (5.0, 5.0 + seconds), 200 * MIB, server, {}), outside)


def _runs() -> list[Run]:
    return [_run(case) for case in strategies.cases(quick=False)]


def _changed(runs: list[Run], strategy: str, clients: int, change: Run) -> list[Run]:
    """Return the runs, those of one kind at full size with the figures of ``change``."""
    return [
        replace(change, case=run.case)
        if (run.case.strategy, run.case.clients, run.case.tensor_bytes)
        == (strategy, clients, 256 * MB)
        else run
        for run in runs
    ]


def test_equal_rounds_in_equal_memory_meet_the_claim() -> None:
    assert strategies.is_met(_runs())


@pytest.mark.parametrize(
    ("strategy", "clients", "change", "met"),
    [
        ("fedadam", 2, {"seconds": 15.0}, True),
        ("fedadam", 2, {"seconds": 15.1}, False),
        ("fedadam", 8, {"seconds": 15.1}, False),
        ("median", 8, {"seconds": 20.0}, True),
        ("median", 8, {"seconds": 20.1}, False),
        ("trimmed_mean", 8, {"seconds": 99.0}, True),  # nothing is claimed of its time
        ("median", 2, {"over": 118 * MIB}, True),
        ("median", 2, {"over": 119 * MIB}, False),  # it grows with the model
        ("mean", 8, {"outside": 1}, False),
    ],
)
def test_time_memory_and_models_are_judged(
    strategy: str, clients: int, change: dict[str, float], met: bool
) -> None:
    changed = _run(Case(strategy, clients, 1), **change)  # type: ignore[arg-type]
    assert strategies.is_met(_changed(_runs(), strategy, clients, changed)) is met


def test_memory_above_what_is_stated_is_not_met() -> None:
    runs = [_run(case, over=201 * MIB) for case in strategies.cases(quick=False)]
    assert not strategies.is_met(runs)


def test_a_poisoned_element_outside_the_others_range_is_not_met() -> None:
    runs = [_run(each.case, outside=int(each.case.is_poisoned)) for each in _runs()]
    assert not strategies.is_met(runs)


def test_each_run_is_kept_as_soon_as_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Result] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Disk(10**12, 0, 10**12))
    result = strategies.run(quick=False, keep=kept.append, once=_run)
    assert [len(each.facts["runs"]) for each in kept] == list(range(1, len(_runs()) + 1))
    assert [each.met for each in kept] == [None] * (len(kept) - 1) + [True]
    assert result.facts == kept[-1].facts
    last = json.loads(json.dumps(result.facts))["runs"][-1]
    assert (last["case"]["strategy"], last["case"]["clients"]) == ("trimmed_mean", 8)
    assert {len(row) for row in result.rows} == {len(result.columns)}
