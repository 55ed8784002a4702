"""A result names the commit that produced it."""

import subprocess
from pathlib import Path

import pytest

from streamlink.profiling.origin import commit

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
def test_a_result_from_a_checkout_names_its_commit() -> None:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    head = subprocess.run(git, capture_output=True, text=True, check=False)
    if head.returncode:
        pytest.skip("these tests do not run from a checkout")
    assert commit().removesuffix("-dirty") == head.stdout.strip()
