"""What ``bwlimit`` means: a limit for each direction, by the time of day.

The syntax is that of rclone's ``--bwlimit``. A bare number is refused: rclone reads it as KiB per
second, most people read it as bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

__all__ = [
    "LEAST_CHUNK_BYTES",
    "NO_LIMIT",
    "BandwidthLimit",
    "Timetable",
    "least_rate",
    "parse_bwlimit",
]

LEAST_CHUNK_BYTES = 1024
"""Under a limit no chunk is cut smaller than this (bytes)."""

_CHUNKS_IN_TIMEOUT = 8

_EXAMPLE = 'write it as 10M, 10Mbit, 10M:5M (up:down), off, or "Mon-08:00,512K 19:00,off"'
_OFF = "off"
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MINUTES = 24 * 60

_UNITS = {
    "B": Fraction(1),
    **{unit: Fraction(1024**n) for n, unit in enumerate("KMGT", 1)},
    **{f"{unit}IB": Fraction(1024**n) for n, unit in enumerate("KMGT", 1)},
    **{f"{unit}B": Fraction(1000**n) for n, unit in enumerate("KMGT", 1)},
    **{f"{unit}BIT": Fraction(1000**n, 8) for n, unit in enumerate("KMGT", 1)},
}


@dataclass(frozen=True, slots=True)
class BandwidthLimit:
    """Bytes per second that this process may send and receive; None: as many as there are."""

    up: float | None = None
    down: float | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name} {_spelled(getattr(self, name))}" for name in ("up", "down"))


NO_LIMIT = BandwidthLimit()


@dataclass(frozen=True, slots=True)
class Timetable:
    """Limits by the minute of the week at which each begins, in order; empty: never a limit."""

    slots: tuple[tuple[int, BandwidthLimit], ...] = ()

    def at(self, local: datetime) -> BandwidthLimit:
        """Return the limit at a local time: that of the latest slot, which may be last week's.

        The clock on the wall decides. A slot that a change to summer time skips begins right after
        it, and the hour that comes twice in autumn has its slots twice.
        """
        if not self.slots:
            return NO_LIMIT
        minute = local.weekday() * _MINUTES + local.hour * 60 + local.minute
        # Index -1 before the first slot of the week: the last one of the week before still holds.
        return self.slots[bisect_right(self.slots, minute, key=lambda slot: slot[0]) - 1][1]

    @property
    def lowest(self) -> float | None:
        """The lowest limit of all (bytes per second); None: there is none."""
        rates = (rate for _, limit in self.slots for rate in (limit.up, limit.down))
        return min((rate for rate in rates if rate is not None), default=None)


def parse_bwlimit(text: str) -> Timetable:
    """Return the timetable that ``text`` describes; empty or ``off``: never a limit.

    Raises:
        ValueError: it is none; names the part that is wrong, and shows the accepted forms.
    """
    words = text.split()
    if not words:
        return Timetable()
    if len(words) == 1 and "," not in words[0]:
        limit = _limit(words[0])
        return Timetable() if limit == NO_LIMIT else Timetable(((0, limit),))
    slots: dict[int, BandwidthLimit] = {}
    for word in words:
        limit = _limit(word.partition(",")[2])
        for minute in _minutes(word):
            if minute in slots:
                raise ValueError(f"{word!r} begins when another one begins; {_EXAMPLE}")
            slots[minute] = limit
    return Timetable(tuple(sorted(slots.items(), key=lambda slot: slot[0])))


def least_rate(timeout: float) -> float:
    """Return the lowest limit that lets chunks pass well within ``timeout`` seconds."""
    return _CHUNKS_IN_TIMEOUT * LEAST_CHUNK_BYTES / timeout


def _minutes(word: str) -> Iterator[int]:
    """Yield the minutes of the week at which a slot such as ``Mon-08:00,10M`` begins."""
    when = word.partition(",")[0]
    match = re.fullmatch(r"(?:([A-Za-z]+)-)?(\d{1,2}):(\d{2})", when)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59 or "," not in word:
        raise ValueError(f"{word!r} is no time and limit; {_EXAMPLE}")
    minute = int(match[2]) * 60 + int(match[3])
    for number, day in enumerate(_DAYS):
        if match[1] is None or match[1].lower() in (day, day[:3]):
            yield number * _MINUTES + minute
    if match[1] is not None and not any(match[1].lower() in (day, day[:3]) for day in _DAYS):
        raise ValueError(f"{match[1]!r} in {word!r} is no day of the week, such as Mon or Monday")


def _limit(text: str) -> BandwidthLimit:
    up, colon, down = text.partition(":")
    return BandwidthLimit(_rate(up, text), _rate(down if colon else up, text))


def _rate(text: str, whole: str) -> float | None:
    if text.lower() == _OFF:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)(?:/s)?", text)
    unit = match and match[2]
    if match is None or not unit or unit.upper() not in _UNITS or unit[1:] == "b":
        bare = "; a number alone could be bytes or KiB" if match and not unit else ""
        raise ValueError(f"{whole!r} is no bandwidth limit{bare}; {_EXAMPLE}")
    rate = float(Fraction(match[1]) * _UNITS[unit.upper()])
    if not rate:
        raise ValueError(f"{whole!r} would stop all transfers; write off for no limit")
    return rate


def _spelled(rate: float | None) -> str:
    return _OFF if rate is None else f"{rate * 8 / 1e6:.4g} Mbit/s"
