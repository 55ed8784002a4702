"""A command's lines: each is read once, however many come at a time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.commands import Command

SAYS = "import sys; sys.stderr.write('one\\ntwo\\nthree\\n'); sys.stdout.write('more' * 50_000)"


@pytest.mark.processes
def test_lines_that_come_with_the_one_that_was_waited_for_are_not_lost(tmp_path: Path) -> None:
    with Command([sys.executable, "-c", SAYS], tmp_path) as running:
        running.until("one")
        assert running.end() == 0
    assert running.log == "one\ntwo\nthree\n"
    assert running.output == "more" * 50_000
