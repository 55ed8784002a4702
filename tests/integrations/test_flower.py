"""Flower 1.41 in an environment of its own: its SuperLink, SuperNodes and simulation, over us."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.integrations.cases import Case, Outcome
from benchmarks.integrations.flower import run
from benchmarks.integrations.running import run_case
from tests.support.framework_environments import environment_of
from tests.support.framework_failures import failing

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.processes,
    pytest.mark.timeout(1800),
]

ROOT = Path(__file__).parents[2]
MB = 1_000_000


python = environment_of("flower")


def outcome_of(python: Path, case: Case) -> Outcome:
    outcome = run_case(case, run, python, limit_bytes=8_000 * MB, timeout=1500)
    assert outcome.ended == "done", outcome.said
    assert outcome.exact
    assert not outcome.left_behind
    return outcome


@pytest.mark.integrations(small=True)
def test_records_grid_mod_and_strategy_hold_their_checks(python: Path) -> None:
    command = [str(python), "-m", "tests.integrations.flower_checks"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("line", ["bare", "first", "second"])
def test_processes_end_with_the_model_of_the_closed_form(python: Path, line: str) -> None:
    outcome = outcome_of(python, Case("flower", 16 * MB, 8, line, rounds=2))
    assert len(outcome.rounds) == 2


def test_the_simulation_resolves_streamlink_and_ends_with_the_closed_form(python: Path) -> None:
    outcome_of(python, Case("flower", 4 * MB, 4, "second", rounds=2, mode="simulation"))


@pytest.mark.parametrize("line", ["first", "second"])
def test_bfloat16_arrives_as_bfloat16_at_clients_and_server(python: Path, line: str) -> None:
    outcome = outcome_of(python, Case("flower", 4 * MB, 4, line, rounds=2, dtype="bfloat16"))
    here = [each["dtype"] for each in outcome.marks if each["event"] == "model is here"]
    back = [each["dtypes"] for each in outcome.marks if each["event"] == "round ends"]
    assert (here, back) == (["bfloat16"] * 4, [["bfloat16"]] * 2)


@pytest.mark.parametrize("mode", ["tls", "mutual"])
def test_the_certificates_of_flower_serve_here_too(python: Path, mode: str) -> None:
    outcome_of(python, Case("flower", 4 * MB, 4, "second", rounds=2, mode=mode))


GOOD_REPLIES = {
    "cut": [2, 1, 2],
    "killed": [2, 1, 2],
    "unfetched": [2, 1, 2],
    "restarted": [2, 0, 2],
    "stopped": [2, 1],  # ended by the round's timeout
}
"""The second round fails; Flower's strategies go on with who is left, and the next has all."""


@failing()
def test_a_round_ends_without_who_fails_and_the_next_one_has_all_again(
    python: Path, failure: str, line: str, size: int
) -> None:
    good = GOOD_REPLIES[failure]
    outcome = outcome_of(python, Case("flower", size, 8, line, rounds=len(good), failure=failure))
    ends = [each for each in outcome.marks if each["event"] == "round ends"]
    assert [each["good"] for each in ends] == good, outcome.said
