"""``Filled``: the arrays and modules that exchanges fill now, so that none is filled by two."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from streamlink.errors import ModelError

__all__ = ["Filled"]


class Filled:
    """What is being filled, by identity. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By number: a dict has no hash. Who has taken one holds it, so no other gets its number.
        self._taken: set[int] = set()

    def take(self, into: object) -> Callable[[], None]:
        """Take ``into`` for one exchange; return what gives it back, once.

        Only mappings and modules count: a store, or a function, makes a sink for each answer.

        Raises:
            ModelError: another exchange fills it.
        """
        if not (isinstance(into, Mapping) or hasattr(into, "state_dict")):
            return lambda: None
        number = id(into)
        with self._lock:
            if number in self._taken:
                raise ModelError(
                    "another exchange still fills these arrays, and both answers would be mixed in "
                    "them; pass others, or wait until that exchange is over (one that was "
                    "cancelled needs a moment)"
                )
            self._taken.add(number)
        return lambda: self._give_back(number)

    def _give_back(self, number: int) -> None:
        with self._lock:
            self._taken.discard(number)
