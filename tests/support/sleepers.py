"""Sees which threads wait and which are woken, for what must sleep until there is news."""

from __future__ import annotations

import threading
import weakref

import pytest

from tests.support.peers import WAIT


class Sleepers:
    """Watches every ``threading.Condition`` that is made from now on; a fixture makes one first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.woken: list[str] = []
        """The names of the threads that were woken, one after the other."""
        self._changed = threading.Condition()  # made before the patch, so not watched itself
        self._waits: dict[str, int] = {}
        self._asleep: weakref.WeakKeyDictionary[object, set[str]] = weakref.WeakKeyDictionary()
        sleepers = self

        class Watched(threading.Condition):
            def wait(self, timeout: float | None = None) -> bool:
                sleepers.falls_asleep(self)
                return super().wait(timeout)

            def notify(self, n: int = 1) -> None:
                sleepers.wakes(self)
                super().notify(n)

        monkeypatch.setattr(threading, "Condition", Watched)

    def wait(self, name: str, count: int = 1) -> None:
        """Wait until the thread of that name has fallen asleep so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._waits.get(name, 0) >= count, WAIT)

    # --- what conditions report; both hold their locks -----------------------------------

    def falls_asleep(self, condition: object) -> None:
        name = threading.current_thread().name
        with self._changed:
            self._asleep.setdefault(condition, set()).add(name)
            self._waits[name] = self._waits.get(name, 0) + 1
            self._changed.notify_all()

    def wakes(self, condition: object) -> None:
        with self._changed:
            self.woken += self._asleep.pop(condition, ())
