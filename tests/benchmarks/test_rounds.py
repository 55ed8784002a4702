"""Programs that measure rounds: the model is checked, each runs small, each claim is judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

import streamlink
from benchmarks import crowd, executors, shipped, straggler, traverse
from benchmarks.__main__ import PROGRAMS
from benchmarks.jobs import Ran, run_job
from benchmarks.lines import Line, opened, plain_seconds
from benchmarks.models import APART, RAMP, GrowingStore, Layout
from benchmarks.parts import Facts
from benchmarks.processes import Usage, Worker, WorkerFailed
from benchmarks.stats import Result
from streamlink.model import GeneratedModel

MIB = 1 << 20
SMALL = Layout(tensors=3, tensor_bytes=MIB + 4)


# --- the model --------------------------------------------------------------


def _stored(store: GrowingStore, layout: Layout, grown: float) -> None:
    streamlink.copy_model(layout.model(grown), store.begin(layout.spec), 300_001)


def _values(model: GeneratedModel, offset: int, count: int) -> list[float]:
    return [one for view in model.read(offset, 4 * count) for one in view.cast("f").tolist()]


def test_a_store_of_growing_models_expects_each_to_be_a_step_further() -> None:
    store = GrowingStore(SMALL, 2.5)
    _stored(store, SMALL, 2.5)
    _stored(store, SMALL, 5.0)
    assert (store.models, store.wrong_bytes) == (2, 0)
    assert _values(store.open(), 0, 2) == [5.0, 6.0]


@pytest.mark.parametrize("layout", [SMALL, replace(SMALL, trains_one=True)])
def test_a_model_that_is_not_the_mean_is_noticed(layout: Layout) -> None:
    store = GrowingStore(layout, 2.0)
    _stored(store, layout, 1.5)
    assert 0 < store.wrong_bytes <= layout.nbytes


def test_a_model_that_is_not_whole_is_not_committed() -> None:
    sink = GrowingStore(SMALL, 1.0).begin(SMALL.spec)
    sink.write(0, memoryview(bytes(8)))
    with pytest.raises(streamlink.StreamlinkError, match="after 8"):
        sink.commit()


def test_tensors_differ_and_every_value_takes_a_half_exactly() -> None:
    assert _values(SMALL.model(0.0), SMALL.tensor_bytes, 2) == [APART, APART + 1]
    assert np.array_equal((RAMP + np.float32(0.5)).astype(np.float64), RAMP.astype(float) + 0.5)


def test_work_on_one_element_leaves_the_others() -> None:
    model = replace(SMALL, trains_one=True).model(3.0)
    assert _values(model, 0, 2) == [3.0, 1.0]
    assert _values(model, 4, 2) == [1.0, 2.0]


# --- the programs, small ----------------------------------------------------


@pytest.mark.processes
def test_a_mean_that_is_another_one_fails_the_run() -> None:
    job = replace(crowd.crowded(2, SMALL), grows=7.0)
    with pytest.raises(WorkerFailed, match="bytes are wrong"):
        run_job(job, crowd.sites(2))


@pytest.mark.processes
@pytest.mark.parametrize("name", ["executors", "straggler"])
def test_a_quick_run_measures_and_judges_nothing(name: str) -> None:
    quick(name)


def quick(name: str) -> Result:
    """Run a program as ``--quick`` does; each job in it has checked its model."""
    result = PROGRAMS[name](True)
    assert result.met is None
    assert result.rows
    assert {len(row) for row in result.rows} == {len(result.columns)}
    return result


@pytest.mark.processes
def test_a_quick_crowd_is_in_the_mean() -> None:
    ran = quick("crowd").facts["ran"]
    assert ran["rounds"][-1]["weights"].keys() == {"site-01", "site-02", "site-03"}


@pytest.mark.processes
def test_a_quick_traverse_trains_what_the_store_expects_over_several_rounds() -> None:
    [line] = quick("traverse").facts["lines"]
    assert {name: [len(ran["rounds"]) for ran in runs] for name, runs in line["runs"].items()} == {
        "duplex": [3],
        "in turn": [3],
        "streaming": [3],
    }


@pytest.mark.processes
def test_a_quick_round_beside_frameworks_is_of_streamlink_alone() -> None:
    [turn] = quick("shipped").facts["rounds"]["streamlink"]
    assert len(turn) == 2


@pytest.mark.processes
def test_a_client_with_its_models_on_the_disk_takes_part() -> None:
    case = executors.CASES[2]
    ran = executors.measure(case, SMALL)
    assert executors.is_met({case: ran.clients["site-1"].over_base_bytes}, SMALL.nbytes)


@pytest.mark.processes
def test_a_plain_socket_is_no_faster_than_the_line() -> None:
    assert plain_seconds(2 * MIB, Line(10e6)) > 0.1


@pytest.mark.processes
def test_a_line_ends_with_those_who_opened_it() -> None:
    with ExitStack() as workers:
        end = workers.enter_context(Worker("benchmarks.lines:drain", {}, name="drain"))
        assert ":" in opened(Line(1e6), end.expect("listening")["address"], workers)


# --- the verdicts -----------------------------------------------------------


def _ran(
    *, seconds: float = 5.0, over: int = 10, peak: int = 20, names: tuple[str, ...] = ()
) -> Ran:
    done_at = tuple(seconds * number for number in range(1, 6))
    rounds = ({"weights": dict.fromkeys(names, 1.0)},)
    return Ran(rounds, done_at, peak, Usage(100, 100 + over, 0.0), {})


def test_steady_rounds_are_those_between_the_first_and_the_last() -> None:
    ran = replace(_ran(), done_at=(9.0, 10.0, 12.0, 15.0, 30.0))
    assert ran.steady_seconds == (1.0, 2.0, 3.0)
    assert ran.seconds == 30.0


def test_a_crowd_is_judged_by_who_is_in_the_mean_and_by_memory() -> None:
    ran = _ran(names=("a", "b", "c"))
    assert crowd.is_met(ran, 3)
    assert not crowd.is_met(ran, 4)
    assert not crowd.is_met(_ran(names=("a", "b", "c"), over=30), 3)


@pytest.mark.parametrize(
    ("duplex", "streaming", "met"),
    [(5.7, 5.5, True), (6.0, 5.5, False), (5.7, 5.7, False)],
)
def test_a_steady_round_is_judged_in_traverses(duplex: float, streaming: float, met: bool) -> None:
    runs = {"duplex": [_ran(seconds=duplex)] * 3, "streaming": [_ran(seconds=streaming)] * 3}
    assert traverse.is_met([5.0] * 3, runs) is met


@pytest.mark.parametrize(
    ("flower", "appfl", "met"),
    [
        ([[9.0, 30.0], [10.0]], [[5.0]], True),
        ([[9.9]], [[5.0]], False),
        ([[10.0]], [[4.9]], False),
        ([[10.0]], [[]], None),
        ([[9.0]], [[]], False),
        ([[10.0], []], [[5.0], [5.0]], None),  # one of its turns failed
    ],
)
def test_a_round_is_judged_beside_those_of_frameworks_that_could_be_run(
    flower: list[list[float]], appfl: list[list[float]], met: bool | None
) -> None:
    found = {"streamlink": [[1.0, 1.0], [0.5, 3.0]], "flower": flower, "appfl": appfl}
    assert shipped.is_met(found) is met


def test_a_turn_that_failed_is_named_in_its_row_and_the_later_turns_are_run() -> None:
    turns = iter((["timeout: no", ""], ["", "NoEnvironment: no index"], ["", ""]))

    def part(name: str, seconds: float, measure: Callable[[], Facts]) -> Facts:
        failed = {each: why for each, why in zip(shipped.LEAST, next(turns), strict=True) if why}
        rounds = {"flower": [20.0], "appfl": [20.0]} | {each: [] for each in failed}
        return {"rounds": {"streamlink": [1.0], **rounds}, "failed": failed}

    result = shipped.run(quick=False, part=part)
    assert result.met is None
    assert {row[0]: row[-1] for row in result.rows} == {
        "streamlink": "",
        "flower": "turn 1: timeout: no",
        "appfl": "turn 2: NoEnvironment: no index",
    }
    assert next(turns, None) is None


def test_a_job_survives_its_json() -> None:
    ran = replace(_ran(names=("a",)), clients={"a": Usage(1, 2, 0.5)})
    assert Ran.from_json(json.loads(json.dumps(ran.as_json()))) == ran


@pytest.mark.parametrize(
    ("spooled", "met"),
    [
        (_ran(names=("site-1", "site-2")), True),
        (_ran(names=("site-1", "site-2", "slow")), False),  # it waited after all
        (_ran(names=("site-1", "slow")), False),
        (_ran(names=("site-1", "site-2"), over=30), False),  # whole updates in memory
        (_ran(names=("site-1", "site-2"), seconds=30), False),
    ],
)
def test_a_spooled_round_leaves_just_the_slow_one_out(spooled: Ran, met: bool) -> None:
    assert straggler.is_met([spooled], [_ran(seconds=20)]) is met


@pytest.mark.parametrize(("over", "met"), [(1064, True), (1065, False), (2064, False)])
def test_weights_cost_one_model(over: int, met: bool) -> None:
    assert executors.is_met({executors.CASES[0]: over * MIB}, 1000 * MIB) is met


def test_differences_in_memory_cost_two_models_and_nothing_is_promised_of_the_disk() -> None:
    in_memory, on_disk = executors.CASES[1], executors.CASES[-1]
    assert executors.is_met({in_memory: 2064 * MIB, on_disk: 9000 * MIB}, 1000 * MIB)
    assert not executors.is_met({in_memory: 2065 * MIB}, 1000 * MIB)


def test_a_case_whose_library_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    missing = [case.missing for case in executors.CASES if case.missing]
    assert len(missing) == 3
    assert "torch is not installed" in missing[0]
