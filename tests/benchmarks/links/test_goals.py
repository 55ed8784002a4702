"""The numbers to reach, from raw runs that are made up: met, missed, or not measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.links.cases import Case, Run, Side
from benchmarks.links.goals import GOAL_COLUMNS, Goal, goal_rows, goals_of
from benchmarks.links.lines import LOOPBACK, parse_line
from benchmarks.links.payload import Payload
from benchmarks.links.plans import COMPUTED, What, large_plan, plan_of
from benchmarks.links.tables import rows_of
from tests.benchmarks.links.cases import run_of

MIB, GB = 1 << 20, 10**9
PEERS = ["raw socket", "streamlink", "NVFlare download service", "NVFlare byte stream, gRPC",
         "NVFlare byte stream, TCP"]  # fmt: skip
FLARE = {"NVFlare download service": 15.0, "NVFlare byte stream, gRPC": 3.0,
         "NVFlare byte stream, TCP": 1.3}  # fmt: skip
LEAST = {"100Mbit": 0.98, "100Mbit,50ms": 0.98, "100Mbit,200ms": 0.98, "1Gbit": 0.96,
         "1Gbit,50ms": 0.96, "1Gbit,200ms": 0.96, "200KiB": 0.97}  # fmt: skip

shares = st.floats(0.5, 1.5)


def made(case: Case, seconds: float = 10.0, over: int = 0, wire: float = 1.01) -> Run:
    """Return a run whose receiver holds ``over`` bytes more than the model."""
    size = case.payload.size_bytes
    side = Side(50 * MIB, size + over, 0.5)
    return run_of(case, seconds, sides={"send": side, "receive": side},
                  wire_bytes=int(size * wire))  # fmt: skip


def links(seconds: dict[str, float] | None = None, **more: Any) -> list[Run]:
    """Return a run of each case of the plan; those of a peer take as long as is given."""
    cases = plan_of(What.links, PEERS).cases
    return [made(case, (seconds or {}).get(case.peer, 10.0), **more) for case in cases]


def large(*per_gb: float) -> list[Run]:
    cases = large_plan().cases
    return [made(case, case.payload.size_bytes / GB * each)
            for case, each in zip(cases, per_gb, strict=False)]  # fmt: skip


def goals(what: What, runs: list[Run], word: str) -> list[Goal]:
    return [goal for goal in goals_of(what, rows_of(runs)) if word in goal.what]


@pytest.mark.parametrize(("what", "count"), [(What.links, 7 + 1 + 1 + 1), (What.peers, 6 + 1)])
def test_where_nothing_was_measured_each_number_is_there_and_says_so(
    what: What, count: int
) -> None:
    found = goals_of(what, [])
    assert len(found) == count
    assert all(goal.is_met is None and goal.missed_by == 0 for goal in found)
    for cells in goal_rows(found):
        row = dict(zip(GOAL_COLUMNS, cells, strict=True))
        assert row["reached"] == ""
        assert row["verdict"].startswith("not measured")


@given(share=shares)
def test_a_share_of_the_raw_socket_is_judged_by_the_number_of_its_line(share: float) -> None:
    found = goals(What.links, links({"streamlink": 10.0 / share}), "raw socket")
    assert {goal.where.partition(", 384")[0].partition(", 3712")[0].partition(", 24")[0]: goal.bound
            for goal in found} == LEAST  # fmt: skip
    for goal in found:
        assert goal.reached == pytest.approx(share)
        assert goal.bound is not None
        if abs(share - goal.bound) > 1e-9:
            assert goal.is_met is (share > goal.bound)
        assert goal.missed_by == pytest.approx(max(0.0, 1 - share / goal.bound), abs=1e-9)


@given(wire=st.floats(1.0, 1.1))
def test_bytes_on_the_wire_are_judged_on_the_slowest_line(wire: float) -> None:
    [goal] = goals(What.links, links(wire=wire), "wire")
    assert goal.where.startswith("200KiB")
    assert goal.reached == pytest.approx(wire, abs=1e-6)
    if abs(wire - 1.02) > 1e-6:
        assert goal.is_met is (wire < 1.02)


def test_bytes_that_nobody_counted_are_no_number() -> None:
    runs = links()
    for run in runs:
        run.wire_bytes = None
    [goal] = goals(What.links, runs, "wire")
    assert goal.is_met is None


@given(over=st.lists(st.integers(0, 128), min_size=1, max_size=5))
@pytest.mark.parametrize("what", list(What))
def test_memory_is_judged_where_the_most_is_held_above_the_model(
    what: What, over: list[int]
) -> None:
    payloads = [Payload((at + 1) * 100 * MIB) for at in range(len(over))]
    runs = [made(Case("streamlink", LOOPBACK, payload), over=each * MIB)
            for payload, each in zip(payloads, over, strict=True)]  # fmt: skip
    [goal] = goals(what, runs, "peak over base")
    assert goal.is_met is (max(over) <= 64)
    assert goal.reached is not None
    assert goal.bound is not None
    assert goal.reached - goal.bound == max(over) - 64


def test_memory_of_other_programs_and_of_models_that_are_nowhere_is_not_judged() -> None:
    runs = [made(Case("plain grpcio", LOOPBACK, Payload(MIB)), over=GB),
            made(Case(COMPUTED, LOOPBACK, Payload(MIB, 1, "computed")), over=GB)]  # fmt: skip
    [goal] = goals(What.peers, runs, "peak over base")
    assert goal.is_met is None


@given(per_gb=st.lists(st.floats(0.9, 1.1), min_size=5, max_size=5))
def test_seconds_for_each_gb_may_differ_by_a_tenth(per_gb: list[float]) -> None:
    [goal] = goals(What.links, large(*per_gb), "seconds per GB")
    off = (max(per_gb) / min(per_gb) - 1) * 100
    assert goal.reached == pytest.approx(off, abs=1e-9)
    if abs(off - 10) > 1e-9:
        assert goal.is_met is (off < 10)


def test_seconds_for_each_gb_are_judged_with_all_sizes_only() -> None:
    [goal] = goals(What.links, large(1.0, 1.0, 1.0), "seconds per GB")
    assert goal.is_met is None
    assert goal.cells()[4] == "not measured: 64, 128 GB"


@given(times=st.floats(0.5, 40))
def test_flare_is_judged_by_how_many_times_as_long_it_takes(times: float) -> None:
    cases = plan_of(What.peers, PEERS).cases
    runs = [made(case, 2.0 * (times if case.peer in FLARE else 1.0)) for case in cases]
    found = goals(What.peers, runs, "÷ ours")
    assert len(found) == 2 * len(FLARE)
    for goal in found:
        [bound] = [each for name, each in FLARE.items() if name in goal.what]
        assert goal.bound == bound
        assert goal.reached == pytest.approx(times)
        if abs(times - bound) > 1e-9:
            assert goal.is_met is (times > bound)


def test_a_ratio_is_that_of_runs_in_turn() -> None:
    raw, ours = (Case(peer, parse_line("100Mbit"), Payload(384 * MIB, 64))
                 for peer in ("raw socket", "streamlink"))  # fmt: skip
    pairs = ((10.0, 10.0), (30.0, 33.0), (90.0, 180.0))
    runs = [
        made(case, each) for pair in pairs for case, each in zip((raw, ours), pair, strict=True)
    ]
    [goal] = [each for each in goals(What.links, runs, "raw socket") if each.reached]
    assert goal.reached == pytest.approx(30 / 33)


def test_what_is_only_reported_is_neither_met_nor_missed() -> None:
    goal = Goal("a", "b", None, 2.0)
    assert (goal.is_met, goal.missed_by) == (None, 0.0)
    assert goal.cells()[2:5] == ("reported", "2", "reported")


def test_where_none_may_be_wrong_one_is_a_miss() -> None:
    assert Goal("a", "b", 0.0, 0.0, is_most=True).is_met is True
    assert Goal("a", "b", 0.0, 1.0, is_most=True).cells()[4] == "missed by 100.00%"


def test_what_is_missed_says_by_how_much() -> None:
    assert Goal("a", "b", 0.98, 0.931).cells()[4] == "missed by 5.00%"
    assert Goal("a", "b", 100.0, 110.0, is_most=True).cells()[4] == "missed by 10.00%"
    assert Goal("a", "b", 0.98, 0.98).cells()[4] == "met"


def test_a_peer_that_failed_is_named_where_its_number_would_be() -> None:
    cases = plan_of(What.peers, PEERS).cases
    runs = [run_of(case, error="TimedOut: no" if "TCP" in case.peer else "") for case in cases]
    found = goals(What.peers, runs, "TCP")
    assert {goal.why for goal in found} == {"not measured: NVFlare byte stream, TCP failed"}
    assert all(goal.is_met is None for goal in found)
