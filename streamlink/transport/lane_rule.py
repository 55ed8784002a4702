"""``LaneRule``: how many connections carry one stream at once. No I/O, no clock.

Hill climbing on what arrives. A stream begins with one connection. One more is tried, and kept
where the rate rises by more than the noise of both measurements; then the next. Later one less is
tried, and kept where that costs nothing. In between nothing is tried for a while, and for longer
each time that a trial has changed nothing, since each costs a moment of a worse number.

The two comparisons differ on purpose. A connection has to prove its worth, or noise would add more
and more of them; and the proof that one is needed must not be asked for again and again: not soon
after it was given, and no longer than until the stream is plainly slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, inf, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

__all__ = ["SAMPLE_SECONDS", "LaneRule"]

SAMPLE_SECONDS = 0.5
"""How often the rule is asked (seconds)."""

FIRST_HOLD_SECONDS, LONGEST_HOLD_SECONDS = 20.0, 320.0
"""How long nothing is tried after a trial; doubles with each that changed nothing (seconds)."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 64.0
"""How long none is opened after one was lost; doubles with each that follows soon (seconds)."""

_SETTLING = 4  # samples after a change that say nothing: TCP has to find its rate first
_MEASURED = 8  # samples of one measurement
_LEAST_GAIN = 0.05  # a smaller one is not worth a connection, however certain it is
_NOISES = 2.0  # standard errors of a difference that are taken for noise
_CLEARLY_LESS = 0.85  # of the rate before: one less is missed, and the trial ends at once
_LOOKS = 3  # samples before that can be said


class LaneRule:
    """The number of connections of one stream.

    Args:
        most: of them (count).
        fixed: just so many, whatever is measured; 0: as many as make the stream faster.
    """

    def __init__(self, *, most: int, fixed: int = 0) -> None:
        self._most, self._is_fixed = most, bool(fixed)
        self._wanted = fixed or 1
        self._received, self._at = 0, inf  # at the last sample
        self._rates: list[float] = []
        self._settling = _SETTLING
        self._before = _Rate(0.0, 0.0)
        self._trial = 0  # 1: one more is on trial, -1: one less
        self._direction = 1  # of the next trial
        self._is_needed = False  # the last one: this has been measured
        self._hold = FIRST_HOLD_SECONDS / 2
        self._hold_until = -inf
        self._pause, self._pause_until = 0.0, -inf

    def wanted(self, received: int, *, lanes: int, now: float) -> int:
        """Return how many there should be now.

        Args:
            received: how far the stream has come (bytes).
            lanes: how many carry it now (count).
            now: the time (seconds).
        """
        rate = self._rate_until(received, now)
        if not self._is_fixed:
            self._sample(rate, lanes, now)
        return self._wanted if now >= self._pause_until else min(self._wanted, lanes)

    def lost(self, *, now: float) -> None:
        """Note that one could not be made, or has ended unasked, at ``now`` (seconds)."""
        is_soon = now - self._pause_until <= LONGEST_PAUSE_SECONDS
        longer = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        self._pause = max(longer if is_soon else 0.0, FIRST_PAUSE_SECONDS)
        self._pause_until = now + self._pause
        if self._trial > 0:
            self._take_back(now)

    # --- measuring ----------------------------------------------------------------------

    def _rate_until(self, received: int, now: float) -> float:
        """Return the rate since the last sample (bytes per second)."""
        seconds, nbytes = now - self._at, received - self._received
        self._received, self._at = received, now
        return nbytes / seconds if seconds > 0 else 0.0

    def _sample(self, rate: float, lanes: int, now: float) -> None:
        # A stream that stands still waits for somebody, and with another number of connections than
        # is wanted it is not that number which is measured.
        if lanes != self._wanted or rate <= 0:
            self._measure_anew()
        elif self._settling:
            self._settling -= 1
        else:
            self._rates.append(rate)
        if len(self._rates) == _MEASURED or self._is_clearly_less():
            measured, self._rates = _Rate.of(self._rates), []
            self._judge(measured, now)

    def _is_clearly_less(self) -> bool:
        """Whether a trial of one less costs so much that it need not be measured to its end."""
        if self._trial >= 0 or len(self._rates) < _LOOKS:
            return False
        return fmean(self._rates) < _CLEARLY_LESS * self._before.mean

    def _measure_anew(self) -> None:
        self._rates, self._settling = [], _SETTLING

    # --- trying -------------------------------------------------------------------------

    def _judge(self, measured: _Rate, now: float) -> None:
        before, self._before = self._before, measured
        if not self._trial:
            if now >= self._hold_until:
                self._begin(now)
        elif self._is_better(before, measured):
            self._hold = FIRST_HOLD_SECONDS / 2  # this has changed something
            self._is_needed = self._trial > 0
            self._try(self._trial, now)
        else:
            self._take_back(now)

    def _is_better(self, before: _Rate, measured: _Rate) -> bool:
        if self._trial > 0:
            return measured.exceeds(before)
        return measured.mean >= before.mean * (1 - _LEAST_GAIN)

    def _begin(self, now: float) -> None:
        """Try one more, or one less; at either end only one of them is possible."""
        if self._direction < 0 and self._is_needed:
            self._is_needed = False  # the next time it is an open question again
            self._wait(now)
            return
        for step in (self._direction, -self._direction):
            if 1 <= self._wanted + step <= self._most:
                self._change(step)
                return

    def _try(self, step: int, now: float) -> None:
        """Go on in the same direction, as far as there is more."""
        if 1 <= self._wanted + step <= self._most:
            self._change(step)
        else:
            self._end_trial(now)

    def _change(self, step: int) -> None:
        self._trial = step
        self._wanted += step
        self._measure_anew()

    def _take_back(self, now: float) -> None:
        self._wanted -= self._trial
        self._end_trial(now)

    def _end_trial(self, now: float) -> None:
        self._direction, self._trial = -self._trial, 0
        self._wait(now)
        self._measure_anew()

    def _wait(self, now: float) -> None:
        self._hold = min(2 * self._hold, LONGEST_HOLD_SECONDS)
        self._hold_until = now + self._hold


class _Rate(NamedTuple):
    """A measured rate (bytes per second), and how far off its mean may be (standard error)."""

    mean: float
    error: float

    @classmethod
    def of(cls, rates: Sequence[float]) -> _Rate:
        return cls(fmean(rates), stdev(rates) / sqrt(len(rates)))

    def exceeds(self, other: _Rate) -> bool:
        noise = _NOISES * hypot(self.error, other.error)
        return self.mean - other.mean > max(noise, _LEAST_GAIN * other.mean)
