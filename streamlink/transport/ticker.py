"""One thread that looks at the clocks of all pumps.

Each thread that meets at a pump may be blocked (in flow control, in a sink, in the network) exactly
when a deadline matters, so none of them can be the one that watches it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger("streamlink.transport")

Clock = Callable[[], float]


class Ticked(Protocol):
    """What has clocks: a pump."""

    def tick(self, *, excused: float = 0.0) -> None:
        """Look at them. ``excused`` seconds were our own standstill."""

    @property
    def is_over(self) -> bool:
        """Whether none of them will ever run again."""


class Ticker:
    """One thread that looks at the clocks of many pumps.

    It also notices when this process itself stood still (stopped, starved, suspended): then every
    clock is pushed back by the pause, so that the frames that are waiting are read before anyone is
    blamed for being silent.
    """

    INTERVAL_SECONDS = 0.2
    PAUSE_SECONDS = 1.0

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._pumps: set[Ticked] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamlink-ticker", daemon=True)
        self._thread.start()

    def add(self, pump: Ticked) -> None:
        """Watch ``pump`` until it is over."""
        with self._lock:
            self._pumps.add(pump)

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        last = self._clock()
        while not self._stop.wait(self.INTERVAL_SECONDS):
            now = self._clock()
            pause = now - last - self.INTERVAL_SECONDS
            self._tick_all(pause if pause > self.PAUSE_SECONDS else 0.0)
            last = now

    def _tick_all(self, excused: float) -> None:
        with self._lock:
            pumps = list(self._pumps)
        for pump in pumps:
            try:
                pump.tick(excused=excused)
            except Exception:
                logger.exception("a clock failed")  # the other streams still need theirs
            if pump.is_over:
                with self._lock:
                    if pump.is_over:  # still: a new call may have come for its last words
                        self._pumps.discard(pump)
