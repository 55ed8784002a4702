"""Opens one call after another for what has to be carried, with growing pauses (tenacity).

It runs in the client only, since all calls start there. The time limit is not here: the machines of
sessions and streams count the seconds that they have been without a call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tenacity import Retrying, retry_if_result

from streamlink.transport.carriers import CallEnd, ClientCall, DataCarrier
from streamlink.transport.jitter import FullJitter, below
from streamlink.transport.pump import Pump

__all__ = ["Carriage", "keep_carried"]

logger = logging.getLogger("streamlink.client")

FIRST_PAUSE_SECONDS = 0.1
"""Most that is waited before the first try; doubles with each that moves nothing (seconds)."""

# Small beside ``reconnect_timeout`` (30 s), so that a link which is back is used at once; and a
# server that failed waits so long for a client that is away (``drain``).
LONGEST_PAUSE_SECONDS = 2.0
"""Most that is ever waited between two tries (seconds)."""


class Carriage:
    """Keeps one pump carried, over one call after another, until both ends know how it ended.

    Args:
        pump: what is carried.
        carrier: what its calls go over.
        new_call: makes the next.
        before: called before each; waits while no call could succeed.
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
    def met_another_service(self) -> bool:
        """Whether the last call ended because the other end has no such method."""
        return self._ended is CallEnd.UNIMPLEMENTED

    @property
    def is_over(self) -> bool:
        """Whether the pump has ended, and the server knows of it or can no longer be reached.

        Only the ticker, which excuses our own standstills, ends a pump for having no call.
        """
        pump = self.pump
        is_told = pump.is_settled or (pump.is_closed and self._ended is CallEnd.ENDED)
        return is_told or (pump.is_closed and pump.is_lost)

    def run(self) -> bool:
        """Carry over one new call until it ends; returns whether that made progress."""
        self._before()
        self._ended = None
        try:
            self._ended = self._carrier.carry(self._new_call())
        # No thread or no memory for this call; later there may be. It is one more call that was
        # lost: the machine's deadlines say how long another is tried.
        except (RuntimeError, MemoryError) as error:
            self._ended = CallEnd.BROKEN
            logger.warning("a call ends: %s; another is tried", error)
            return False  # the next follows after a longer pause, whatever this one has moved
        return self.pump.has_moved


def keep_carried(
    carry: Callable[[], bool], *, is_over: Callable[[], bool], pause: Callable[[float], object]
) -> None:
    """Call ``carry`` again and again until ``is_over``.

    Every pause is random, between nothing and its limit (full jitter): clients that have lost their
    connections together do not come back together.

    Args:
        carry: opens a call, carries until that ends, and returns whether anything moved.
        is_over: whether nothing is left to carry, or it was cancelled.
        pause: waits up to so many seconds, and less where it is over earlier.
    """

    def sleep(seconds: float) -> None:
        pause(seconds)

    while not is_over():
        # A new one after each call that moved something: then the pauses begin small again.
        Retrying(
            retry=retry_if_result(lambda has_moved: not has_moved and not is_over()),
            wait=FullJitter(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS),
            sleep=sleep,
        )(carry)
        if not is_over():
            # Also after progress, or calls that a proxy always ends early would follow in a flood.
            pause(below(FIRST_PAUSE_SECONDS))
