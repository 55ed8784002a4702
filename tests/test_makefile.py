"""What the targets of the Makefile do where a part of them fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.sources import ROOT

TESTS = "#!/bin/sh\nexit {status}\n"
CASES = '#!/bin/sh\n[ "$2" = benchmarks.integrations ] || exit 0\necho a table\nexit {status}\n'


def make_integrations(folder: Path, tests: int, cases: int) -> subprocess.CompletedProcess[str]:
    """Run the target with an environment whose programs only end with these statuses."""
    (folder / "bin").mkdir()
    for name, text, status in (("pytest", TESTS, tests), ("python", CASES, cases)):
        program = folder / "bin" / name
        program.write_text(text.format(status=status))
        program.chmod(0o755)
    for stamp in (".created", ".dev"):
        (folder / stamp).touch()
    command = ["make", "--silent", "test-integrations", f"VENV={folder}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.processes(quick=True)
@pytest.mark.parametrize(("tests", "cases", "status"), [(0, 0, 0), (1, 0, 1), (0, 3, 3), (1, 3, 1)])
def test_the_table_of_the_integrations_is_printed_also_where_a_test_fails(
    tmp_path: Path, tests: int, cases: int, status: int
) -> None:
    done = make_integrations(tmp_path, tests, cases)
    assert done.stdout.splitlines() == ["a table"]
    assert bool(done.returncode) == bool(status)
    assert not status or f"Error {status}" in done.stderr
