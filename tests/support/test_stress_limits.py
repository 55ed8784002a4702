"""``make test-stress``: time limits of tests, which are for a machine that is not overloaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stress import run

# Far beyond its limit, which only counts where the limit is in force.
LIMITED = """
import threading
import pytest

{module}

{test}
def test_it():
    threading.Event().wait(1.0)
"""


@pytest.mark.processes
@pytest.mark.parametrize("where", ["module", "test"])
def test_no_limit_of_a_test_or_of_its_module_is_in_force(tmp_path: Path, where: str) -> None:
    limits = {"module": "", "test": ""}
    limits[where] = {
        "module": "pytestmark = pytest.mark.timeout(0.05)",
        "test": "@pytest.mark.timeout(0.05)",
    }[where]
    file = tmp_path / "test_it.py"
    file.write_text(LIMITED.format(**limits))
    tally = run(tmp_path / "kept", [file.name], runs=1, busy=0, workers=0, root=tmp_path)
    assert (tally.runs.total(), tally.failures.total()) == (1, 0)
