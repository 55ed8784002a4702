"""``PreferredCarrier``: streams go over the carrier that the welcome names, while that works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from typing import Any

from streamlink.clock import Clock
from streamlink.config.values import MiB
from streamlink.transport.carriers import CallEnd, ClientCall, DataCarrier, ProvableCarrier
from streamlink.transport.proving import ProvenCarrier
from streamlink.transport.pump import Pump
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump

__all__ = ["HOLD_SECONDS", "LEAST_LEFT_BYTES", "PreferredCarrier"]

HOLD_SECONDS = 0.2
"""On a short line a try has succeeded by then (seconds). Otherwise a stream begins over the carrier
of the session."""

LEAST_LEFT_BYTES = 64 * MiB
"""A stream changes over to a carrier that is proven later if it has at least so much to move
(bytes). The change costs a round trip, and what is in flight is sent again."""


class PreferredCarrier:
    """Carries streams over the preferred carrier, or else over the one that sessions use.

    A stream changes from one to the other by resuming: nothing is lost by that, and the server need
    not know.

    Args:
        usual: carries streams wherever sessions are carried; closed with this.
        clock: what tries and waits go by.
        hold_seconds: how long a stream waits for the result of a try that is under way.
    """

    def __init__(
        self, usual: DataCarrier, *, clock: Clock, hold_seconds: float = HOLD_SECONDS
    ) -> None:
        self._usual, self._clock, self._hold_seconds = usual, clock, hold_seconds
        self._lock = threading.Lock()
        self._preferred: ProvenCarrier | None = None
        self._is_closed = False
        self._on_usual: set[Pump[Any]] = set()

    def prefer(self, carrier: ProvableCarrier | None) -> None:
        """Try ``carrier`` from now on, in the place of any before; it is closed here."""
        with self._lock:
            old, self._preferred = self._preferred, None
        # Without the lock: closing ends calls, whose threads may be about to take it.
        if old is not None:
            old.close()
        if carrier is not None:
            self._try(carrier)

    def drop(self, carrier: ProvableCarrier) -> None:
        """Give ``carrier`` up if it is still the preferred one: its session has ended."""
        with self._lock:
            old = self._preferred
            if old is None or not old.is_of(carrier):
                return
            self._preferred = None
        old.close()

    def _try(self, carrier: ProvableCarrier) -> None:
        proven = ProvenCarrier(carrier, clock=self._clock, on_proven=self._change_over)
        with self._lock:
            if not self._is_closed:
                self._preferred = proven
                return
        proven.close()

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        preferred = self._preferred  # read once: ``prefer`` may change it at any time
        if preferred is None:
            return self._usual.carry(call)
        if preferred.is_ready(self._hold_seconds):
            return preferred.carry(call)
        return self._carry_for_now(call, preferred)

    def renew(self) -> None:
        """See ``DataCarrier``."""
        for each in self._both():
            each.renew()

    def close(self) -> None:
        """See ``DataCarrier``."""
        with self._lock:
            self._is_closed = True
        for each in self._both():
            each.close()

    def _both(self) -> list[DataCarrier | ProvenCarrier]:
        with self._lock:
            return [each for each in (self._preferred, self._usual) if each is not None]

    # --- changing over ------------------------------------------------------------------

    def _carry_for_now(self, call: ClientCall, preferred: ProvenCarrier) -> CallEnd:
        """Carry over the usual carrier, until the preferred one is proven."""

        def look_again() -> None:
            # It may have been proven when there was nothing to cut yet.
            if preferred.is_ready(0.0):
                self._change_over()

        with self._lock:
            self._on_usual.add(call.pump)
        try:
            return self._usual.carry(_Watched(call, look_again))
        finally:
            with self._lock:
                self._on_usual.discard(call.pump)

    def _change_over(self) -> None:
        """End the calls of streams on the usual carrier that have much to move."""
        with self._lock:
            pumps = list(self._on_usual)
        for pump in pumps:
            if _left_bytes(pump) >= LEAST_LEFT_BYTES:
                pump.cut()


class _Watched(ClientCall):
    """A call that tells when it has been attached."""

    def __init__(self, call: ClientCall, then: Callable[[], None]) -> None:
        super().__init__(call.pump, call.wire, first=call.first)
        self._call, self._then = call, then

    def attach(self, cut: Callable[[], None], carrier: str = "", *, is_lane: bool = False) -> int:
        """See ``ClientCall``."""
        number = self._call.attach(cut, carrier, is_lane=is_lane)
        self._then()
        return number


def _left_bytes(pump: Pump[Any]) -> float:
    if not isinstance(pump, SendPump | ReceivePump):
        return 0
    stats = pump.stream.stats
    # Before the model is known to a receiver, it may be of any size.
    return stats.extent.stop - stats.received_bytes if stats.total_bytes else inf
