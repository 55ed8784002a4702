"""One thread that looks at the clocks of all pumps.

Each thread that meets at a pump may be blocked (in flow control, in a sink, in the network) exactly
when a deadline matters, so none of them can be the one that watches it.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from streamlink.clock import Clock

logger = logging.getLogger("streamlink.transport")

_LOOKS_AWAY = 3  # looks left out after a pause: the frames that have waited are read first
_CLOSE_SECONDS = 5.0  # what its last look may take


class Ticked(Protocol):
    """What has clocks: a pump."""

    def tick(self) -> None:
        """Look at them."""

    @property
    def is_over(self) -> bool:
        """Whether no clock of it will ever run again."""


class Ticker:
    """One thread that looks at the clocks of many pumps.

    It keeps ``clock`` read, which so notices when this process itself stood still. After such a
    pause nobody is blamed until what the peers have said meanwhile could be read.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._pumps: set[Ticked] = set()
        self._lock = threading.Lock()
        self._stop = clock.event()
        # Nobody read it while there was no ticker: that gap is no standstill, so it is left out.
        self._clock()
        self._missed = clock.missed
        self._looks_away = 0
        self._thread = threading.Thread(target=self._run, name="streamlink-ticker", daemon=True)
        self._thread.start()

    def add(self, pump: Ticked) -> None:
        """Watch ``pump`` until it has ended and no call carries it."""
        with self._lock:
            self._pumps.add(pump)

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._clock.join(self._thread, _CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self._clock.read_seconds):
            if not self._has_just_woken():
                self._tick_all()

    def _has_just_woken(self) -> bool:
        """Read the clock; returns whether it is too early after a pause to look at deadlines."""
        self._clock()
        paused = self._clock.missed - self._missed
        self._missed += paused
        if paused:
            logger.warning(
                "this process did not run for %.1f s; that time counts against no deadline", paused
            )
        if self._looks_away:  # also where it pauses over and over: one look in four is taken
            self._looks_away -= 1
            return self._looks_away > 0
        if paused:
            self._looks_away = _LOOKS_AWAY
        return bool(paused)

    def _tick_all(self) -> None:
        with self._lock:
            # A copy: a tick takes the pump's lock and may log, and ``add`` must not wait for that.
            pumps = list(self._pumps)
        for pump in pumps:
            try:
                pump.tick()
            except Exception:
                # And no more than that: the other streams still need theirs.
                logger.exception("the deadlines of a stream could not be checked")
            if pump.is_over:
                with self._lock:
                    if pump.is_over:  # looked at again: a new call may have come for its abort
                        self._pumps.discard(pump)
