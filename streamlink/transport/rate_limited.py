"""Warnings that strangers cause: the first few in full, then one a second that counts the rest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from streamlink.clock import running_time
from streamlink.protocol.limits import Allowance

__all__ = ["RateLimitedLog"]

_PER_SECOND, _BURST = 1.0, 20.0


class RateLimitedLog:
    """Writes warnings to ``logger``, as many as a person can read. Any thread may warn."""

    def __init__(
        self, logger: logging.Logger, *, clock: Callable[[], float] = running_time
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._allowance = Allowance(_PER_SECOND, burst=_BURST)
        self._left_out = 0

    def warning(self, text: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log a warning, or count it where there were too many; the next that is logged says so."""
        with self._lock:
            if not self._allowance.spend(now=self._clock()):
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        if left_out:
            text, args = f"{text} (%d like it were left out)", (*args, left_out)
        self._logger.warning(text, *args, extra=extra)
