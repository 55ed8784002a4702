"""Every cell of the kill matrix once: a job goes on as if nobody had been killed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.scenarios.kills import Cell, run_cell, undisturbed
from tests.support.forkserver import ForkServer
from tests.support.kill_points import STATES, KillPoint
from tests.support.supervised import ROLES

MOVING = ("down opening", "down half", "up half", "up committing")


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as made:
        yield made


@pytest.fixture(scope="module")
def expected(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    return undisturbed(forks, tmp_path_factory.mktemp("undisturbed") / "job", "lockstep")


def test_the_matrix_has_enough_cells() -> None:
    assert len(STATES) >= 12
    assert len(ROLES) == 3


@pytest.mark.processes
@pytest.mark.parametrize("state", STATES)
def test_a_process_killed_at_any_state_changes_nothing(
    forks: ForkServer, expected: str, tmp_path: Path, state: str
) -> None:
    with ThreadPoolExecutor(len(ROLES)) as pool:
        jobs = [
            pool.submit(run_cell, forks, tmp_path / role, Cell(role, state, 0), expected)
            for role in ROLES
        ]
    for job in jobs:
        job.result()


@pytest.mark.processes
@pytest.mark.parametrize("role", ROLES)
def test_a_process_killed_while_models_move_over_tcp_changes_nothing(
    forks: ForkServer, expected: str, tmp_path: Path, role: str
) -> None:
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(run_cell, forks, tmp_path / state, Cell(role, state, 0, "tcp"), expected)
            for state in MOVING
        ]
    for job in jobs:
        job.result()


@pytest.mark.processes
def test_a_spooled_round_gives_the_same_model(
    forks: ForkServer, expected: str, tmp_path: Path
) -> None:
    assert undisturbed(forks, tmp_path / "job", "spool") == expected


@pytest.mark.processes
def test_a_death_that_never_comes_is_noticed(
    forks: ForkServer, expected: str, tmp_path: Path
) -> None:
    class Never(Cell):
        kill = KillPoint("client", "up done", 99)

    with pytest.raises(AssertionError, match=r"killed were \[\]"):
        run_cell(forks, tmp_path / "job", Never("whole", "up done", 0), expected)
