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
def test_no_limit_of_a_test_or_of_its_module_is_in_force(tmp_path: Path) -> None:
    module, test = "pytestmark = pytest.mark.timeout(0.05)", "@pytest.mark.timeout(0.05)"
    files = {
        "test_a.py": LIMITED.format(module=module, test=""),
        "test_b.py": LIMITED.format(module="", test=test),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    tally = run(tmp_path / "kept", list(files), runs=1, busy=0, workers=0, root=tmp_path)
    assert (tally.runs.total(), tally.failures.total()) == (2, 0)
