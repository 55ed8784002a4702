"""What new memory costs: the command that explains a part of the integrations' figures."""

from __future__ import annotations

import pytest

from benchmarks.integrations.touch import main


@pytest.mark.processes
def test_each_use_of_new_memory_has_a_row_for_before_and_after(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(megabytes=4, idle=0.0, repeats=1)
    rows = [line for line in capsys.readouterr().out.splitlines() if "memory f" in line]
    assert [row.split(",")[0].strip(" │") for row in rows] == [
        *["arrays"] * 2,
        *["a file in the page cache"] * 2,
    ]
    # No figure is judged: a few pages may be mapped already, and the kernel counts in ticks.
    assert all(float(cell) >= 0 for row in rows for cell in row.split("│")[2:4])
