"""``Remembered``: what was lately, up to a number of it."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Remembered"]

K = TypeVar("K")
V = TypeVar("V")


class Remembered(dict[K, V]):
    """A dict of the newest ``most`` entries; it has no lock."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        # Dicts keep the order of insertion, so the first is the oldest.
        while len(self) > self._most:
            del self[next(iter(self))]
