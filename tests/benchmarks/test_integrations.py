"""The harness of the frameworks' cases: what it keeps, watches, cleans up and judges."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.integrations import inside
from benchmarks.integrations.cases import Case, Memory, Outcome
from benchmarks.integrations.environments import PINS, Environment, digest_of
from benchmarks.integrations.kept import read
from benchmarks.integrations.report import failed, verdicts
from benchmarks.integrations.running import CaseFailed, Running, run_case
from benchmarks.integrations.sides import is_in_memory, processes_of

CASE = Case("appfl", 1_000_000, 4, "first", rounds=2)
GB = 10**9


def outcome(line: str, *, call: float, turn: float, server: int, client: int) -> Outcome:
    memory = {"server": Memory(0, server, server), "site-1": Memory(0, client, client)}
    calls = {"site-1": {"send": call, "receive": 0.0}}
    case = replace(CASE, line=line)
    return Outcome(case, "done", 9.0, exact=True, rounds=[turn], calls=calls, memory=memory)


def test_a_line_is_judged_by_the_median_of_its_ratios_to_what_ran_without_us() -> None:
    bare = [outcome("bare", call=9, turn=9, server=9 * GB, client=3 * GB)]
    ours = [outcome("first", call=call, turn=5, server=6 * GB, client=GB) for call in (1, 1.5, 99)]
    assert verdicts(ours, bare) == [
        ("exact", True),
        ("calls ≤ 1/5", True),
        ("round ≤ 2/3", True),
        ("server ≤ 0.6", False),
        ("client ≤ 0.6", True),
        ("client ≤ 1.1 model + 64 MiB", False),
    ]


def test_a_run_is_compared_with_the_one_that_is_nearest_in_time() -> None:
    def at(minute: int, line: str, turn: float) -> Outcome:
        run = outcome(line, call=1, turn=turn, server=1, client=1)
        return replace(run, at=f"2026-01-02T03:{minute:02d}:00+00:00")

    bare = [at(0, "bare", 8), at(50, "bare", 100)]  # the machine has become slower meanwhile
    assert ("round ≤ 2/3", True) in verdicts([at(9, "first", 4), at(59, "first", 60)], bare)
    assert ("round ≤ 2/3", False) in verdicts([at(9, "first", 6), at(59, "first", 90)], bare)


def test_the_second_line_is_judged_by_windows_and_not_by_ratios() -> None:
    ours = [outcome("second", call=1, turn=1, server=200_000_000, client=1)]
    assert ("server ≤ 256 MiB + 0.1 model", True) in verdicts(ours, [])
    assert ("calls ≤ 1/5", None) in verdicts(ours, [])


def test_a_first_line_out_of_memory_fails_only_if_the_framework_alone_completed_the_case() -> None:
    bare, first, second = (
        replace(outcome(line, call=1, turn=1, server=1, client=1), ended="out of memory")
        for line in ("bare", "first", "second")
    )
    assert failed([bare, first, second]) == [second]
    assert failed([replace(bare, ended="done"), first]) == [first]
    larger = replace(CASE, line="bare", size_bytes=2 * CASE.size_bytes)
    assert failed([replace(bare, case=larger, ended="done"), first]) == []


def test_a_run_of_ours_fails_by_a_wrong_value_an_early_end_or_what_it_leaves_behind() -> None:
    done = outcome("first", call=1, turn=1, server=1, client=1)
    cut = replace(done, case=replace(CASE, failure="cut"), exact=None)  # it was told otherwise
    wrong = [
        replace(done, exact=False),
        replace(done, exact=None),
        replace(done, ended="timeout"),
        replace(cut, ended="failed"),
        replace(done, left_behind=["a process"]),
    ]
    alone = replace(outcome("bare", call=1, turn=1, server=1, client=1), ended="failed")
    assert failed([done, cut, alone, *wrong]) == wrong


def test_a_failure_that_a_framework_does_not_have_is_refused_with_those_that_it_has() -> None:
    assert Case("nvflare", failure="cut off").failure == "cut off"
    with pytest.raises(ValueError, match=r"'cut off'; it can be one of cut, .*restarted$"):
        Case("flower", failure="cut off")


def test_a_result_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    run = outcome("first", call=1, turn=1, server=1, client=1)
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(run.as_json()) + "\n" + '{"cut off')
    assert read(path) == [run]


def test_an_environment_is_named_by_all_that_is_installed_in_it() -> None:
    first = Environment(("a==1",))
    assert digest_of(first) == digest_of(Environment(("a==1",)))
    others = [Environment(("a==2",)), Environment((), ("a==1",)), replace(first, stubs=("b",))]
    assert len({digest_of(each) for each in [first, *others]}) == 4
    assert set(PINS) == {"nvflare", "flower", "appfl"}


def test_the_arrays_of_a_case_have_the_closed_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STREAMLINK_CASE_FACTS", json.dumps(CASE.as_json()))
    monkeypatch.setenv("STREAMLINK_MARKS", str(tmp_path / "marks"))
    model = inside.arrays()
    for _ in range(2):
        updates = [{name: each.copy() for name, each in model.items()} for _ in range(2)]
        for client, update in enumerate(updates, 1):
            inside.train(update, client)
        model = {name: (updates[0][name] + updates[1][name]) / 2 for name in model}
    assert sum(each.nbytes for each in model.values()) == CASE.size_bytes
    assert inside.check_all(model, rounds=2)
    assert not inside.check_all(model, rounds=1)
    part = model["layer_0003"][1000:]
    assert inside.check("layer_0003", part, 2, start=1000)
    part[-1] = np.nextafter(part[-1], 99)
    assert not inside.check("layer_0003", part, 2, start=1000)


PROGRAM = """
import subprocess, sys, time
from benchmarks.integrations import inside
inside.idle()
kept = bytearray(b"x") * {size}
with inside.call("send"), inside.round(1):
    pass
inside.result(True)
inside.mark("ready")
{then}
"""


def program(size: int = 1, then: str = "") -> list[object]:
    return [sys.executable, "-c", PROGRAM.format(size=size, then=then)]


@pytest.mark.processes
def test_a_run_tells_memory_over_the_base_calls_rounds_and_verdict() -> None:
    def run(running: Running) -> None:
        process = running.start("site-1", program(64_000_000, "sys.stdin.read(); time.sleep(1)"))
        running.until("ready", "site-1")
        running.finish(process)

    seen = run_case(CASE, run, Path(sys.executable), limit_bytes=GB, timeout=60)
    assert (seen.ended, seen.exact, len(seen.rounds)) == ("done", True, 1), seen.said
    assert set(seen.calls) == {"site-1"}
    assert seen.memory["site-1"].over_base_bytes >= 60_000_000
    assert seen.memory["site-1"].base_bytes > 1_000_000
    assert seen.left_behind == []


def test_a_process_that_is_idle_goes_on_when_it_was_looked_at_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = list[float]()
    looks = tmp_path / "marks.looks"

    def look(seconds: float) -> None:
        waits.append(seconds)
        with looks.open("ab") as file:
            file.write(b".")

    monkeypatch.setattr("time.sleep", look)
    inside.wait_for_looks(str(tmp_path / "marks"))
    assert len(waits) == 2


@pytest.mark.processes
def test_a_run_is_ended_when_its_sides_have_more_than_the_limit() -> None:
    def run(running: Running) -> None:
        running.finish(running.start("server", program(64_000_000, "time.sleep(600)")))

    seen = run_case(CASE, run, Path(sys.executable), limit_bytes=40_000_000, timeout=60)
    assert seen.ended == "out of memory"
    assert "all sides together" in seen.said


@pytest.mark.processes
def test_what_a_case_left_behind_is_ended_and_named() -> None:
    daemon = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(601)'])"
    names: list[str] = []

    def run(running: Running) -> None:
        running.finish(running.start("server", program(1, daemon)))
        names.append(running.name)

    seen = run_case(CASE, run, Path(sys.executable), limit_bytes=GB, timeout=60, left_seconds=0.0)
    assert [command for command in seen.left_behind if "601" in command]
    assert processes_of(names[0]) == {}


@pytest.mark.processes
def test_a_process_that_ends_before_its_word_fails_the_case_with_its_log(tmp_path: Path) -> None:
    with ExitStack() as stack:
        running = Running(CASE, Path(sys.executable), tmp_path, stack)
        running.start("server", [sys.executable, "-c", "print('no model'); raise SystemExit(3)"])
        with pytest.raises(CaseFailed, match="server ended with 3 before 'listening'"):
            running.until("listening", "server")
        assert "no model" in running.log()
        running.close()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no /dev/shm")
def test_a_folder_in_memory_is_told_from_one_on_a_disk() -> None:
    assert is_in_memory(Path("/dev/shm"))
    assert not is_in_memory(Path(__file__).parent)
