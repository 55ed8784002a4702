"""APPFL itself over streamlink: its service, its clients, its aggregation, as processes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.integrations import appfl
from benchmarks.integrations.cases import ALL_KILLED, NOT_FINITE, STAYS_CUT, Case, Outcome
from benchmarks.integrations.running import run_case
from tests.support.framework_environments import environment_of
from tests.support.framework_failures import failing

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).parents[2]
CASE = Case("appfl", 16_000_000, 4, "first", clients=2, rounds=2)


python = environment_of("appfl")


def outcome(case: Case, python: Path) -> Outcome:
    seen = run_case(case, appfl.run, python, limit_bytes=8_000_000_000, timeout=500)
    assert seen.ended == "done", seen.said
    assert seen.left_behind == []
    return seen


@pytest.mark.integrations(small=True)
def test_what_the_wrappers_use_of_appfl_is_as_we_know_it(python: Path) -> None:
    done = subprocess.run(
        [str(python), "-m", "tests.integrations.appfl_checks"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("line", ["first", "second"])
@pytest.mark.parametrize("clients", [2, 4])
def test_synchronous_rounds_end_with_the_mean_of_all_clients(
    python: Path, line: str, clients: int
) -> None:
    seen = outcome(replace(CASE, line=line, clients=clients), python)
    assert seen.exact
    assert len(seen.rounds) == clients * CASE.rounds


@pytest.mark.parametrize("line", ["first", "second"])
@pytest.mark.parametrize("clients", [2, 4])
def test_asynchronous_updates_are_whole(python: Path, line: str, clients: int) -> None:
    seen = outcome(replace(CASE, line=line, clients=clients, mode="async"), python)
    assert seen.exact


@pytest.mark.parametrize("line", ["first", "second"])
def test_appfls_certificate_and_authenticator_guard_the_port_of_the_models(
    python: Path, line: str
) -> None:
    assert outcome(replace(CASE, line=line, mode="tls"), python).exact


@pytest.mark.parametrize("line", ["bare", "tuned"])
def test_appfl_alone_gives_the_same_model(python: Path, line: str) -> None:
    assert outcome(replace(CASE, line=line), python).exact


def test_bfloat16_arrives_as_bfloat16(python: Path) -> None:
    assert outcome(replace(CASE, dtype="bfloat16"), python).exact


@failing()
def test_whatever_fails_the_job_goes_on_or_ends_and_nothing_stays(
    python: Path, failure: str, line: str, size: int
) -> None:
    seen = outcome(replace(CASE, line=line, failure=failure, size_bytes=size), python)
    assert seen.exact is (True if failure == "cut" else None)
    assert seen.said


@pytest.mark.parametrize("mode", ["processes", "async"])
def test_a_client_whose_line_stays_cut_ends_with_an_error_and_the_others_as_if_it_were_killed(
    python: Path, mode: str
) -> None:
    seen = outcome(replace(CASE, mode=mode, failure=STAYS_CUT), python)
    assert seen.said


def test_clients_that_poll_for_their_answers_get_the_same_model(python: Path) -> None:
    assert outcome(replace(CASE, mode="polling"), python).exact


def test_a_server_whose_clients_were_all_lost_while_they_trained_ends(python: Path) -> None:
    assert "ended by itself" in outcome(replace(CASE, failure=ALL_KILLED), python).said


@pytest.mark.parametrize("mode", ["processes", "polling", "async"])
def test_an_update_that_is_not_finite_is_an_error_that_names_its_client_in_the_second_line(
    python: Path, mode: str
) -> None:
    case = replace(CASE, line="second", mode=mode, failure=NOT_FINITE)
    assert "the error named site-2" in outcome(case, python).said


def test_appfls_own_aggregation_lets_in_what_is_not_finite(python: Path) -> None:
    assert outcome(replace(CASE, failure=NOT_FINITE), python).exact is False


@pytest.mark.parametrize("failure", ["killed", "stopped", "unfetched"])
def test_with_an_asynchronous_scheduler_the_others_go_on_without_a_client_that_is_lost(
    python: Path, failure: str
) -> None:
    seen = outcome(replace(CASE, mode="async", failure=failure), python)
    assert "the others went on" in seen.said
