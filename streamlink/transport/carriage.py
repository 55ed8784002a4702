"""What keeps one pump carried at the client: call after call, until both ends know how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlink.transport.carriers import CallEnd, ClientCall, DataCarrier
from streamlink.transport.driver import Pump

__all__ = ["Carriage"]


class Carriage:
    """Has one pump carried, over one call at a time.

    Args:
        pump: what is carried.
        carrier: what its calls go over.
        new_call: makes the next.
        before: called before each; waits where none could succeed.
    """

    def __init__(
        self,
        pump: Pump[Any],
        carrier: DataCarrier,
        new_call: Callable[[], ClientCall],
        *,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self.pump = pump
        self._carrier, self._new_call, self._before = carrier, new_call, before
        self._ended: CallEnd | None = None

    @property
    def was_cut(self) -> bool:
        """Whether the last call ended because it was cancelled, here or by the server."""
        return self._ended is CallEnd.CUT

    @property
    def is_over(self) -> bool:
        """Whether the pump has ended and the server knows of it, or cannot be told any more.

        Only the ticker, which excuses our own standstills, ends a pump for having no call.
        """
        pump = self.pump
        is_told = pump.is_settled or (pump.is_closed and self._ended is CallEnd.ENDED)
        return is_told or (pump.is_closed and pump.is_lost)

    def run(self) -> bool:
        """Carry over a new call until that ends; returns whether anything that counts came."""
        self._before()
        self._ended = None
        self._ended = self._carrier.carry(self._new_call())
        return self.pump.has_moved
