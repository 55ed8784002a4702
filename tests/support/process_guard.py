"""Which tests start processes is held by watching them: those are marked ``processes``, no others.

A pytest plugin. CPython reports every process that is started to audit hooks; a fork server, whose
children the system reports to nobody, calls ``report_start`` for each. So a test that is not marked
cannot slip into ``make test`` with a process, and one that starts none cannot be left out of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

__all__ = ["ProcessGuard", "report_start"]

_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "streamlink.tests.fork"})
_UNMARKED = "this test starts a process; mark it with @pytest.mark.processes (CONTRIBUTING.md)"
_NEEDLESS = "this test is marked 'processes' and starts none; remove the mark"


def report_start() -> None:
    """Tell the guard that a process was started on behalf of the test that runs."""
    sys.audit("streamlink.tests.fork")


class ProcessGuard:
    """Fails a test that starts a process and is not marked for it, or is and starts none."""

    def __init__(self) -> None:
        self._starts = 0
        self._by_fixtures: set[tuple[str, str]] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        if event in _STARTS:
            self._starts += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count from before the test's fixtures are made: they may start processes, too."""
        self._starts = 0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Remember fixtures that start processes: those of a module do it for all its tests."""
        before = self._starts
        result = yield
        if self._starts > before:
            self._by_fixtures.add((fixturedef.baseid, fixturedef.argname))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Judge a test that passes otherwise."""
        result = yield
        is_marked = item.get_closest_marker("processes") is not None
        has_started = self._starts > 0 or self._uses_fixture_of_processes(item)
        if has_started and not is_marked:
            pytest.fail(_UNMARKED, pytrace=False)
        if is_marked and not has_started:
            pytest.fail(_NEEDLESS, pytrace=False)
        return result

    def _uses_fixture_of_processes(self, item: pytest.Item) -> bool:
        names = getattr(item, "fixturenames", ())
        return any(
            name in names and item.nodeid.startswith(base) for base, name in self._by_fixtures
        )
