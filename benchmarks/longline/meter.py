"""Bytes that arrive over time; ``rates`` makes rates of them."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Mark", "Meter", "Span"]

Mark = tuple[float, int]
"""Seconds since the first byte, and how many bytes had arrived then."""

MARK_SECONDS = 0.05
WARM_UP_SECONDS = 10.0


@dataclass(frozen=True)
class Span:
    """When is measured: for ``seconds``, which begin ``warm_up`` seconds after the first byte."""

    warm_up: float
    seconds: float

    @classmethod
    def of(cls, seconds: float) -> Span:
        """Return the span of a run that measures so long; a short trial warms up shortly."""
        return cls(min(WARM_UP_SECONDS, seconds / 3), seconds)

    @property
    def end(self) -> float:
        """How long the run lasts, from its first byte on (seconds)."""
        return self.warm_up + self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


class Meter:
    """Counts bytes as they arrive, in any thread, until a span is over."""

    def __init__(self, span: Span) -> None:
        self.marks: list[Mark] = []
        self._span = span
        self._lock = threading.Lock()
        self._first_at = 0.0
        self._total = 0
        self._is_over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the span is over, or nothing more will come."""
        return self._is_over.is_set()

    def add(self, nbytes: int, now: float | None = None) -> None:
        """Note that so many bytes have arrived."""
        at = time.monotonic() if now is None else now
        with self._lock:
            if not self.marks:
                self._first_at = at
            self._total += nbytes
            since = at - self._first_at
            is_end = since >= self._span.end and not self.is_over
            if is_end or not self.marks or since >= self.marks[-1][0] + MARK_SECONDS:
                self.marks.append((since, self._total))
            if is_end:
                self._is_over.set()

    def stop(self) -> None:
        """Have nobody wait any longer: nothing more will come."""
        self._is_over.set()

    def wait(self, timeout: float) -> bool:
        """Wait until the span is over; returns whether it is."""
        return self._is_over.wait(timeout)
