"""Whether to encode the next range, from what the line carries and what encoding has saved so far.

A line of ``rate`` bytes a second takes ``1 / rate`` seconds for a plain byte. Encoded at ``speed``
bytes a second, to ``share`` of its length, a byte takes ``1 / speed + share / rate``, if nothing of
that overlaps. So to encode is worth it where ``rate < speed * (1 - share)``. In truth much of it
overlaps, so this errs towards plain: it costs a slow line some of the gain, and a fast one nothing.

Two things are not known before they are tried. A range is tried now and then though it seems not
worth it, since the next tensor may shrink by more; but not where even a share of 0 would not pay.
And the rate of a line that waits for its encoder is the encoder's: where all that was sent has
arrived, the next range travels plain, and shows what the line can do. Where encoding saves much
that would cost most of the gain, since one plain range is as long as many encoded ones: so many
travel first that a plain one at most doubles the bytes. Of a model that has not changed, and whose
ranges are a byte each, none is sent plain.

A bandwidth limit of either end leaves a line idle, too, and then the rate of the line says nothing:
ranges come at the pace that the limit permits, so that pace is the rate.

To try a range is to encode it, or the first bytes of it, a *sample*. A fast line carries a range
sooner than it is encoded, so there a sample is tried, and the range travels plain. Above some rate
only ranges that have not changed since a base are worth it, so without one nothing is tried. And
the first acks understate the rate of a fast line: above 50 MB/s, where not every codec keeps up, no
range is tried until some in a row have found the rate no higher than before.

One try that took long says little: its thread may have been interrupted. If it were believed,
nothing might be tried again for the rest of the stream. So of the first tries the fastest counts,
and none as slower than any codec is; a later one counts as no slower than twice what is known. A
processor that is slow all the time is found out within some ranges.

Compare AdOC, which adapts its compression to the length of the queue in front of the line (Jeannot,
Knutsson and Björkman, "Adaptive Online Data Compression", HPDC 2002).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

__all__ = ["Line", "Worth"]

TRY_EVERY = 32
"""Where encoding does not pay, one range of so many is tried (count)."""
STEADY_RANGES = 8
"""Ranges in a row that find the rate of a fast line not grown before one is tried (count)."""
FIRST_TRIES = 3
"""Ranges that are tried before it is judged whether that pays (count)."""
LIMITED_RANGES = 32
"""So many ranges after one that waited for a bandwidth limit go by the measured pace (count), since
a limit permits some at once."""
SAMPLE_BYTES = 256 * 1024
"""How much of a range is tried on a fast line (bytes); less would measure fixed costs."""

_FAST_BYTES_PER_SECOND = 250e6  # about the speed of the codecs; above it a sample is tried
_FASTEST_BYTES_PER_SECOND = 1e9  # without a base, floats break even at about half of it
_GROWS = 1.25  # a rate that is this many times the one before
_SHARE_OF_LITTLE_GAIN = 0.5  # above it a plain range costs little more than an encoded one
_SLOW_SECONDS_PER_BYTE = 2e-8  # 50 MB/s: a codec that encodes this slowly has been interrupted
_LATEST = 0.125  # the weight of the last try in what is known


class Line(Protocol):
    """What carries the ranges: a stream."""

    @property
    def rate(self) -> float:
        """What it has delivered lately (bytes on the wire per second); 0: not known yet."""

    @property
    def is_in_flight(self) -> bool:
        """Whether something was sent that has not arrived."""

    @property
    def is_limited(self) -> bool:
        """Whether the next range had to wait for a bandwidth limit of either end."""


class Worth:
    """Decides for one stream, range by range.

    Args:
        line: carries the ranges.
        clock: gives the time (seconds).
    """

    def __init__(self, line: Line, clock: Callable[[], float]) -> None:
        self._line, self._clock = line, clock
        self._seconds_per_byte = 0.0
        self._share = 0.0
        self._rate, self._steady = 0.0, 0
        self._limited = 0
        self._sent_bytes = 0  # on the wire
        self._marks = deque[tuple[float, int]](maxlen=LIMITED_RANGES)
        self._tries = self._plain = self._encoded = 0
        self._is_sample = False
        self._began = 0.0

    def bytes_to_encode(self, nbytes: int, *, has_base: bool = False) -> int:
        """Return how much of the next range to encode now; ``note`` follows, unless that is 0.

        Args:
            nbytes: the length of the range.
            has_base: whether both ends hold an earlier version of it.

        Returns:
            ``nbytes``: the range travels as it was encoded. Less: so many of its first bytes are a
            sample, and the range travels plain.
        """
        rate = self._look_at_rate()
        self._sent_bytes += nbytes
        waits_for_encoder = not self._limited and not self._line.is_in_flight
        if not rate or (waits_for_encoder and self._is_line_due()):
            self._encoded = 0
            return 0
        is_first = self._tries < FIRST_TRIES
        pays = not is_first and self._pays(self._share)
        may_try = self._is_rate_known() and (has_base or rate < _FASTEST_BYTES_PER_SECOND)
        is_due = is_first or (self._plain >= TRY_EVERY - 1 and self._pays(0.0))
        if not pays and not (may_try and is_due):
            self._plain += 1
            return 0
        self._is_sample = not pays and rate > _FAST_BYTES_PER_SECOND and nbytes > SAMPLE_BYTES
        self._plain, self._began = 0, self._clock()
        return SAMPLE_BYTES if self._is_sample else nbytes

    def note(self, *, nbytes: int, encoded_bytes: int) -> None:
        """Take what has been encoded just now, and what that has shown.

        Args:
            nbytes: how much it was.
            encoded_bytes: its length encoded; ``nbytes`` where that is not shorter.
        """
        seconds_per_byte = (self._clock() - self._began) / nbytes
        known = self._seconds_per_byte if self._tries else _SLOW_SECONDS_PER_BYTE
        if self._tries < FIRST_TRIES:
            self._seconds_per_byte = min(seconds_per_byte, known)
        else:
            self._seconds_per_byte += _LATEST * (min(seconds_per_byte, 2 * known) - known)
        weight = _LATEST if self._tries else 1.0
        self._share += weight * (encoded_bytes / nbytes - self._share)
        self._tries += 1
        if not self._is_sample:
            self._encoded += 1
            self._sent_bytes -= nbytes - encoded_bytes

    def passed(self, encoded_bytes: int) -> None:
        """Take the length of a range that travels encoded without being judged."""
        self._sent_bytes += encoded_bytes

    def _look_at_rate(self) -> float:
        before, self._rate = self._rate, self._line.rate
        self._limited = LIMITED_RANGES if self._line.is_limited else max(0, self._limited - 1)
        if self._limited:
            self._rate = min(self._rate, self._look_at_pace())
        else:
            self._marks.clear()
        self._steady = 0 if self._rate > _GROWS * before else self._steady + 1
        return self._rate

    def _look_at_pace(self) -> float:
        now = self._clock()
        began, sent_then = self._marks[0] if self._marks else (now, 0)
        self._marks.append((now, self._sent_bytes))
        return (self._sent_bytes - sent_then) / (now - began) if now > began else 0.0

    def _is_rate_known(self) -> bool:
        return self._steady >= STEADY_RANGES or self._rate * _SLOW_SECONDS_PER_BYTE < 1.0

    def _is_line_due(self) -> bool:
        """Return whether the next range is to show what the line can do."""
        if not self._tries or self._share > _SHARE_OF_LITTLE_GAIN:
            return True
        return self._encoded * self._share >= 1.0  # together they are as long as a plain one

    def _pays(self, share: float) -> bool:
        return self._rate * self._seconds_per_byte < 1.0 - share
