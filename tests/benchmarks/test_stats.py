"""Comparison and its presentation: known numbers in, known words out."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.stats import (
    Comparison,
    Result,
    compare,
    environment,
    interleave,
    median_interval,
    print_result,
    summarize,
    write_json,
)


def test_runs_are_taken_in_turn() -> None:
    order: list[str] = []
    results = interleave({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, pairs=3)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert {name: len(runs) for name, runs in results.items()} == {"a": 3, "b": 3}


def test_median_and_percentiles_of_known_numbers() -> None:
    seen = summarize([5.0, 1.0, 3.0, 2.0, 4.0])
    assert seen.count == 5
    assert (seen.low, seen.median, seen.high) == pytest.approx((1.4, 3.0, 4.6))


def test_nothing_cannot_be_summarized() -> None:
    with pytest.raises(ValueError, match="no values"):
        summarize([])


@given(st.lists(st.floats(min_value=0.1, max_value=1e12), min_size=1, max_size=40))
def test_the_median_lies_inside_the_spread_and_the_spread_inside_the_values(
    values: list[float],
) -> None:
    seen = summarize(values)
    edge = 1e-9 * max(values)  # interpolation rounds
    assert min(values) - edge <= seen.low <= seen.median + edge
    assert seen.median - edge <= seen.high <= max(values) + edge


def test_ratios_are_taken_pair_by_pair() -> None:
    found = compare("a", [2.0, 6.0, 4.0, 8.0, 10.0], "b", [1.0, 2.0, 2.0, 4.0, 5.0])
    assert found.ratios == (2.0, 3.0, 2.0, 2.0, 2.0)
    assert found.summary.median == 2.0


def test_runs_without_their_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        compare("a", [1.0, 2.0], "b", [1.0])


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((1.50, 1.52, 1.51, 1.49, 1.50), "faster"),
        ((0.60, 0.61, 0.59, 0.60, 0.62), "slower"),
        ((1.05, 0.80, 1.40, 1.10, 1.20), "no difference"),  # smaller than the spread
        ((1.00, 1.00, 1.00, 1.00, 1.00), "no difference"),
        ((2.00, 2.00, 2.00, 2.00), "no difference"),  # too few pairs to say anything
    ],
)
def test_a_difference_smaller_than_the_spread_is_none(
    ratios: tuple[float, ...], verdict: str
) -> None:
    assert Comparison("a", "b", ratios).verdict == verdict


def test_a_comparison_reads_as_median_and_spread() -> None:
    assert str(Comparison("a", "b", (1.0, 2.0, 3.0))) == "2.00x (1.20..2.80)"


def test_a_result_is_printed_with_its_claim_and_its_judgement() -> None:
    out = io.StringIO()
    result = Result("bulk", "it is fast", ("what", "GB/s"), (("streamlink", "3.1"),), met=False)
    print_result(result, Console(file=out, width=100))
    assert "bulk: it is fast" in out.getvalue()
    assert "3.1" in out.getvalue()
    assert "claim NOT met" in out.getvalue()


@pytest.mark.processes(quick=True)
def test_the_environment_names_commit_date_machine_and_versions() -> None:
    facts = environment()
    assert facts["commit"]
    assert facts["date"].endswith("+00:00")
    assert facts["machine"]["cores"] >= 1
    assert facts["machine"]["memory_bytes"] > 0
    assert set(facts["versions"]) >= {"python", "grpcio", "numpy"}


@pytest.mark.processes(quick=True)
def test_json_carries_the_facts_and_where_they_come_from(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "found.json"
    write_json(path, [Result("bulk", "it is fast", (), (), facts={"rate": 3.5}, met=True)])
    document = json.loads(path.read_text())
    assert document["results"]["bulk"] == {"claim": "it is fast", "met": True, "rate": 3.5}
    assert document["commit"] == environment()["commit"]
    assert [entry.name for entry in path.parent.iterdir()] == ["found.json"]


def test_the_interval_of_a_median_holds_it_and_narrows_with_more_pairs() -> None:
    few, many = median_interval((0.9, 1.0, 1.1) * 2), median_interval((0.9, 1.0, 1.1) * 40)
    assert few[0] <= 1.0 <= few[1]
    assert many == pytest.approx((1.0, 1.0), abs=0.05)
    assert many[1] - many[0] < few[1] - few[0]
