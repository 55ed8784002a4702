"""What ``bwlimit`` means: a limit for each direction, by the time of day.

The syntax is that of rclone's ``--bwlimit``. A bare number is refused: rclone reads it as KiB per
second, most people read it as bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

__all__ = [
    "DEBT_SECONDS",
    "LEAST_CHUNK_BYTES",
    "NO_LIMIT",
    "BandwidthLimit",
    "Timetable",
    "debt_seconds",
    "least_rate",
    "parse_bwlimit",
    "shown",
]

LEAST_CHUNK_BYTES = 1024
"""Under a limit no chunk is cut smaller than this (bytes)."""

_CHUNKS_IN_TIMEOUT = 10
"""One each of eight streams that wait in turn; their headers and what the limit leaves free take
the time of two more."""

DEBT_SECONDS = 2.0
"""Bytes that moved unasked, as after a resume, hold up all streams no longer than this (seconds),
and no longer than the timeouts of a peer permit (``debt_seconds``)."""

_TURN_SECONDS = 0.6
"""What so many chunks take where the limit lets them grow (seconds)."""

_EXAMPLE = 'write it as 10M, 10Mbit, 10M:5M (sent:received), off, or "Mon-08:00,512K 19:00,off"'
_NO_SPACES = "a limit has no space in it, and one of several begins with a time"
_OFF = "off"
_SHOWN = 60  # of a wrong value, in an error (characters)
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
        return f"sends {_spelled(self.up)}, receives {_spelled(self.down)}"


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

    A slot of one weekday takes the place of a daily one that begins at the same minute.

    Raises:
        ValueError: it is none; names the part that is wrong, and shows the accepted forms.
    """
    words = text.split()
    if not words:
        return Timetable()
    if len(words) == 1 and "," not in words[0]:
        limit = _limit(words[0])
        return Timetable() if limit == NO_LIMIT else Timetable(((0, limit),))
    daily: dict[int, BandwidthLimit] = {}
    weekly: dict[int, BandwidthLimit] = {}
    for word in words:
        when, comma, which = word.partition(",")
        if not comma:
            where = f"{shown(word)} in {shown(text)}"
            raise ValueError(f"{where} is no time and limit: {_NO_SPACES}; {_EXAMPLE}")
        day, minutes = _minutes(when, word)
        limit = _limit(which, word)
        slots = weekly if day else daily
        for minute in minutes:
            if minute in slots:
                raise ValueError(f"{shown(word)} begins when another one begins; {_EXAMPLE}")
            slots[minute] = limit
    return Timetable(tuple(sorted((daily | weekly).items(), key=lambda slot: slot[0])))


def debt_seconds(timeout: float) -> float:
    """Return how long a debt may hold up streams whose shortest timeout is ``timeout`` (seconds).

    Half of what a turn of eight streams leaves of it; the other half is for the round trip.
    """
    return min(DEBT_SECONDS, max(0.0, timeout - _TURN_SECONDS) / 2)


def least_rate(timeout: float) -> float:
    """Return the lowest limit at which each of eight streams moves within ``timeout`` seconds.

    That is so even where a debt holds them up first.
    """
    return _CHUNKS_IN_TIMEOUT * LEAST_CHUNK_BYTES / (timeout - debt_seconds(timeout))


def shown(text: str) -> str:
    """Return a value that was refused, in quotes and no longer than an error has room for."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 20]}...{text[-17:]}")


def _minutes(when: str, word: str) -> tuple[str, list[int]]:
    """Return the weekday of a slot, empty for a daily one, and the minutes of the week it begins.

    Args:
        when: such as ``Mon-08:00`` or ``08:00``.
        word: all of the slot, for an error.
    """
    match = re.fullmatch(r"(?:([A-Za-z]+)-)?(\d{1,2}):(\d{2})", when)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise ValueError(f"{shown(word)} begins with no time of day; {_EXAMPLE}")
    day, minute = (match[1] or "").lower(), int(match[2]) * 60 + int(match[3])
    days = [number for number, each in enumerate(_DAYS) if day in ("", each, each[:3])]
    if not days:
        raise ValueError(
            f"{shown(match[1])} in {shown(word)} is no day of the week, such as Mon or Monday; "
            f"{_EXAMPLE}"
        )
    return day, [number * _MINUTES + minute for number in days]


def _limit(text: str, whole: str = "") -> BandwidthLimit:
    """Return the limit that ``text`` is; ``whole`` is the slot that it stands in, for an error."""
    up, colon, down = text.partition(":")
    whole = whole or text
    return BandwidthLimit(_rate(up, whole), _rate(down if colon else up, whole))


def _rate(text: str, whole: str) -> float | None:
    if text.lower() == _OFF:
        return None
    # So many digits are enough for any line, and every rate is finite.
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)([A-Za-z]*)(?:/s)?", text)
    unit = match and match[2]
    if match is None or not unit or unit.upper() not in _UNITS or unit[1:] == "b":
        bare = "; a number alone could be bytes or KiB" if match and not unit else ""
        raise ValueError(f"{shown(whole)} is no bandwidth limit{bare}; {_EXAMPLE}")
    rate = float(Fraction(match[1]) * _UNITS[unit.upper()])
    if not rate:
        raise ValueError(f"{shown(whole)} would stop all transfers; write off for no limit")
    return rate


def _spelled(rate: float | None) -> str:
    return "without a limit" if rate is None else f"at most {rate / 1e6:.4g} MB/s"
