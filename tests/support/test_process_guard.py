"""The guard over the guards: a test's mark says whether it starts a process, or the test fails."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.processes(quick=True)

HEAD = """
import subprocess, sys
import pytest
from tests.support.process_guard import ProcessGuard, report_start

def start():
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)

@pytest.fixture(scope="module")
def started():
    report_start()
"""
CONFTEST = """
from tests.support.process_guard import ProcessGuard

def pytest_configure(config):
    config.addinivalue_line("markers", "processes(quick=False): starts processes")
    config.pluginmanager.register(ProcessGuard())
"""


def outcome(pytester: pytest.Pytester, test: str) -> str:
    """Return what pytest prints of a file with this test."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(HEAD + test)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.str()


def test_a_test_that_starts_a_process_must_be_marked(pytester: pytest.Pytester) -> None:
    found = outcome(pytester, "def test_it(): start()")
    assert "mark it with @pytest.mark.processes" in found


def test_so_must_a_test_whose_fixture_starts_one_for_all_of_a_module(
    pytester: pytest.Pytester,
) -> None:
    tests = "def test_one(started): ...\ndef test_other(started): ...\ndef test_none(): ..."
    assert "2 failed, 1 passed" in outcome(pytester, tests)


def test_a_marked_test_that_starts_one_passes(pytester: pytest.Pytester) -> None:
    test = "@pytest.mark.processes\ndef test_it(): start()\n"
    fixture = "@pytest.mark.processes\ndef test_too(started): ...\n"
    assert "2 passed" in outcome(pytester, test + fixture)


def test_a_marked_test_that_starts_none_must_lose_its_mark(pytester: pytest.Pytester) -> None:
    test = "@pytest.mark.processes\ndef test_it(): ...\ndef test_other(): start()"
    assert "starts none; remove the mark" in outcome(pytester, test)
