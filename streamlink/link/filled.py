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
        # By number: arrays have no hash.
        self._taken: set[int] = set()

    def take(self, into: object) -> Callable[[], None]:
        """Take ``into`` for one exchange; return what gives it back.

        Only mappings, by what is in them, and modules count: a store, or a function, makes a sink
        for each answer. Two arrays over the same memory are not noticed.

        Raises:
            ModelError: another exchange fills it, or an array that is in it.
        """
        held: list[object] = []
        if isinstance(into, Mapping):
            held = list(into.values())
        elif hasattr(into, "state_dict"):
            held = [into]
        numbers = {id(each) for each in held}
        with self._lock:
            if self._taken & numbers:
                raise ModelError(
                    "another exchange still fills these arrays, and both answers would be mixed in "
                    "them; pass others, or wait until that exchange is over (one that was "
                    "cancelled needs a moment)"
                )
            self._taken |= numbers

        def give_back() -> None:
            with self._lock:
                self._taken -= numbers
            held.clear()  # not before: nothing else may get one of their numbers

        return give_back
