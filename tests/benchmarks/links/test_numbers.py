"""All numbers in one table, from files that are made up: met, missed, or not measured, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import auto, finetune, probes, shipped, traverse
from benchmarks.links.goals import GOAL_COLUMNS, Goal
from benchmarks.links.kept import append
from benchmarks.links.numbers import Counts, numbers_of, remake_pages, show_numbers
from benchmarks.links.programs import PROGRAMS, Part
from benchmarks.links.reports import Files, write
from tests.benchmarks.links.cases import case_of, run_of
from tests.benchmarks.links.site_runs import site_run


def wrote(folder: Path, name: str, **facts: Any) -> None:
    summary = {"commits": ["abc"], "is_small": False, **facts}
    (folder / f"{name}.json").write_text(json.dumps(summary))


def numbers(folder: Path, word: str, **more: Any) -> list[Goal]:
    return [goal for goal in numbers_of(folder, **more) if word in goal.what]


def probed(off: float) -> list[dict[str, Any]]:
    way = {"forecast": 1 + off, "took": 1.0}
    return [{"name": str(line), "transfers": {"up": way}} for line in probes.LINES]


def trained(ratio: float, is_equal: bool = True) -> dict[str, Any]:
    return {str(rate): {"ratio": ratio, "is_equal": is_equal} for rate in finetune.LEARNING_RATES}


def limited(**more: Any) -> dict[str, Any]:
    case = {"carrier": "tcp", "limited": "serve", "lanes": 1}
    return {"case": case, "name": "tcp, sends", "least": 0.96, "most": 0.99,
            "heartbeats_late": 0.02, **more}  # fmt: skip


def test_without_any_file_each_number_has_its_row(tmp_path: Path) -> None:
    found = numbers_of(tmp_path)
    assert all(goal.is_met is None for goal in found)
    verdicts = {goal.cells()[4].partition(":")[0] for goal in found}
    assert verdicts == {"not measured"}
    counts = {"raw socket": 7, "wire ÷": 1, "forecast": 9, "wire time": 2, "auto ÷": 2,
              "limit of": 2, "heartbeats": 1, "traverse": 2, "NVFlare": 6, "round of": 2,
              "receiver's peak": 2, "seconds per GB": 1, "stated": 3}  # fmt: skip
    for word, count in counts.items():
        assert len([goal for goal in found if word in goal.what]) == count, word


@pytest.mark.parametrize(("off", "met"), [(0.05, [True] * 9), (-0.15, [False] * 8 + [True])])
def test_the_forecast_of_each_line_is_judged_by_its_worst_way(
    off: float, met: list[bool], tmp_path: Path
) -> None:
    wrote(tmp_path, "probe", lines=probed(off))
    found = numbers(tmp_path, "forecast")
    assert [goal.is_met for goal in found] == met
    assert {(goal.commit, goal.file) for goal in found} == {("abc", "probe.json")}


def test_a_line_that_this_machine_cannot_have_says_why(tmp_path: Path) -> None:
    lossy = str(probes.LINES[-1])
    wrote(tmp_path, "probe", lines=probed(0.05)[:-1], missing={lossy: "it needs root"})
    last = numbers(tmp_path, "forecast")[-1]
    assert (last.where, last.is_met) == (lossy, None)
    assert last.cells()[4:] == ("not measured: it needs root", "abc", "")


def test_one_learning_rate_is_judged_and_both_are_reported(tmp_path: Path) -> None:
    wrote(tmp_path, "finetune", plan={}, runs=trained(2.0))
    assert [goal.cells()[4] for goal in numbers(tmp_path, "wire time")] == [
        "missed by 33.33%", "reported",
    ]  # fmt: skip
    assert [goal.is_met for goal in numbers(tmp_path, "other bits")] == [True]
    wrote(tmp_path, "finetune", plan={}, runs=trained(4.0, is_equal=False))
    assert [goal.is_met for goal in numbers(tmp_path, "wire time")] == [True, None]
    assert [goal.is_met for goal in numbers(tmp_path, "other bits")] == [False]


def test_without_torch_fine_tuning_says_that_it_is_missing(tmp_path: Path) -> None:
    wrote(tmp_path, "finetune", plan="skipped: torch is not installed", runs={})
    assert {goal.why for goal in numbers(tmp_path, "wire time")} == {
        "not measured: skipped: torch is not installed"
    }


def test_a_limit_is_judged_by_the_worst_case_of_each_kind(tmp_path: Path) -> None:
    bad = limited(name="grpc, receives", least=0.94, most=1.01, heartbeats_late=0.2)
    free = limited(case={"carrier": "tcp", "limited": "", "lanes": 1}, least=9.0, most=9.0)
    wrote(tmp_path, "bwlimit", cases=[limited(), free])
    words = ("any 10 s, least", "any 10 s, most", "heartbeats")
    assert [numbers(tmp_path, word)[0].is_met for word in words] == [True] * 3
    wrote(tmp_path, "bwlimit", cases=[limited(), bad, free])
    found = [numbers(tmp_path, word)[0] for word in words]
    assert [goal.is_met for goal in found] == [False] * 3
    assert all("worst of 2: grpc, receives" in goal.where for goal in found)


def test_a_round_with_streaming_clients_is_judged_on_each_line(tmp_path: Path) -> None:
    ratios = dict(zip(map(traverse.where_of, traverse.LINES), (1.05, 1.2), strict=True))
    lines = [{"name": name, "traverses": {"streaming": each}} for name, each in ratios.items()]
    wrote(tmp_path, "traverse", lines=lines)
    assert [goal.is_met for goal in numbers(tmp_path, "traverse")] == [True, False]


def test_auto_is_judged_with_each_kind_of_weights(tmp_path: Path) -> None:
    one, other = map(auto.where_of, auto.PAYLOADS)
    wrote(tmp_path, "auto", ratios={one: 0.99, other: 0.9})
    assert [goal.is_met for goal in numbers(tmp_path, "auto ÷ plain")] == [True, False]


def test_a_turn_that_failed_never_leaves_a_number_met(tmp_path: Path) -> None:
    name = next(iter(shipped.LEAST))
    for ratio, failed, met in ((12.0, [], True), (12.0, ["turn 2: timeout"], None),
                               (9.0, ["turn 2: timeout"], False)):  # fmt: skip
        wrote(tmp_path, "shipped", ratios={name: ratio}, failed={name: failed})
        goal = numbers(tmp_path, f"round of {name}")[0]
        assert goal.is_met is met
    wrote(tmp_path, "shipped", ratios={name: 12.0}, failed={name: ["turn 2: timeout"]})
    assert numbers(tmp_path, f"round of {name}")[0].why == (
        "not measured: turn 2: timeout (12 in the others)"
    )


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_what_was_only_tried_or_is_of_other_code_is_not_a_number(name: str, tmp_path: Path) -> None:
    wrote(tmp_path, name, is_small=True)
    tried = [goal for goal in numbers_of(tmp_path) if "--small" in goal.why]
    assert tried
    wrote(tmp_path, name)
    again = numbers_of(tmp_path, lambda program, found: found.commit == "def")
    assert {goal.why for goal in again if goal.what in {each.what for each in tried}} == {
        "not measured"
    }


def test_a_program_that_has_not_ended_says_how_far_it_came(tmp_path: Path) -> None:
    append(tmp_path / "traverse.jsonl", Part("pair 1", {"found": 1}))
    assert numbers(tmp_path, "traverse")[0].why == (
        "not measured: interrupted, parts kept so far: 1; run it again"
    )
    append(tmp_path / "traverse.jsonl", Part("pair 2", error="WorkerFailed: no"))
    assert numbers(tmp_path, "traverse")[0].why == ("not measured: pair 2 failed: WorkerFailed: no")


def test_numbers_of_plans_and_sites_name_commit_and_file(tmp_path: Path) -> None:
    append(tmp_path / "peers.jsonl", run_of(case_of()))
    append(tmp_path / "sites.jsonl", site_run())
    _, peers = numbers(tmp_path, "receiver's peak")
    assert (peers.commit, peers.file) == ("abc", "peers.jsonl")
    assert {goal.file for goal in numbers(tmp_path, "stated")} == {"sites.jsonl"}


def test_the_table_is_printed_and_kept_as_text_and_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrote(tmp_path, "probe", lines=probed(0.05))
    goals = show_numbers(tmp_path, None)
    text = (tmp_path / "numbers.txt").read_text("utf-8")
    assert capsys.readouterr().out.strip() == text.strip()
    assert all(column in text for column in GOAL_COLUMNS)
    assert len(json.loads((tmp_path / "numbers.json").read_text("utf-8"))) == len(goals)


@pytest.mark.slow  # matplotlib
def test_whichever_page_was_written_first_all_of_a_folder_end_with_the_same_numbers(
    tmp_path: Path,
) -> None:
    """A program that is measured after a page was written is in its table all the same."""
    plans = [Files(tmp_path, name) for name in ("links", "peers")]
    for files in plans:
        append(files.raw, run_of(case_of()))
        write(files, [run_of(case_of())], numbers_of(tmp_path))
    wrote(tmp_path, "probe", lines=probed(0.05), commits=["fed"])
    assert "probe.json" not in plans[0].table.read_text("utf-8")
    goals = show_numbers(tmp_path, None)
    assert remake_pages(tmp_path, goals, None) == plans
    table = (tmp_path / "numbers.txt").read_text("utf-8")
    for files in plans:
        assert files.table.read_text("utf-8").endswith(table + "\n")
        assert files.page.read_text("utf-8").count("probe.json") == len(probes.LINES)


@pytest.mark.slow  # matplotlib
def test_a_page_made_anew_has_of_a_case_what_counts_or_else_what_the_last_commit_had(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path, "links")
    append(files.raw, run_of(case_of(arrays=64), 2.0, commit="old"))
    for commit, seconds in (("abc", 2.0), ("def", 4.0), ("fed", 8.0)):
        append(files.raw, run_of(case_of(), seconds, commit=commit))
    some: list[tuple[Counts, list[str]]] = [
        (lambda name, run: run.commit in ("abc", "def"), ["abc", "def", "old"]),
        (lambda name, run: False, ["fed", "old"]),
    ]
    for counts, shown in some:
        assert remake_pages(tmp_path, [], counts) == [files]
        assert json.loads(files.summary.read_text("utf-8"))["commits"] == shown


def test_where_no_plan_was_run_no_page_is_made(tmp_path: Path) -> None:
    assert remake_pages(tmp_path, show_numbers(tmp_path, None), None) == []
    assert not list(tmp_path.glob("*.html"))
