"""The rate of a line from when bytes arrived. Arithmetic only.

TCP begins slowly and streamlink's window grows, so the first third of a measurement is left out,
and up to half where the line had not reached its rate before. What that cost is kept apart as the
time to start: a model of ``n`` bytes takes ``start_seconds + n / rate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Samples", "Speed", "speed_of"]

Samples = Sequence[tuple[float, int]]
"""When how many bytes had arrived: seconds since the request, and bytes; both grow."""

_WARM_UP = 1 / 3
_SLICES = 8
_LEAST_SLICE_SECONDS = 0.25
_LEAST_SHARE = 1 / 3  # less time in common with others shows moments, and no rate
_FEW_ROUND_TRIPS = 8
_FASTEST, _STEPS = 1 / 3, 24
_GROWN = 0.9  # of the rate of the second half: slower at first, and it was still growing


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast models move in one direction."""

    rate: float
    """Once it has started (bytes per second)."""
    start_seconds: float
    """What a transfer takes beside its bytes: to be opened, to grow fast, to be committed."""
    lowest: float
    """The slowest part of the measurement (bytes per second); ``rate`` where it was too short."""
    highest: float
    """The fastest part of it."""
    longest_gap: float
    """The longest time in which nothing arrived (seconds)."""
    seconds: float
    """How long was measured."""
    nbytes: int
    """How much was moved for it (bytes)."""

    @property
    def variation(self) -> float:
        """The distance between the slowest and the fastest part, as a share of the rate."""
        return (self.highest - self.lowest) / self.rate

    def seconds_for(self, nbytes: float) -> float:
        """Return how long a transfer of ``nbytes`` takes (seconds)."""
        return self.start_seconds + nbytes / self.rate


def speed_of(
    flows: Sequence[tuple[int, float, Samples]],
    beside: Sequence[Samples] = (),
    round_trip: float = 0.0,
) -> Speed:
    """Return the speed of models that moved at the same time in one direction, together.

    Args:
        flows: of each model its bytes, its seconds from request to commit, and its samples.
        beside: samples of what moved meanwhile in the other direction; only the time in which all
            were under way counts, where that is at least a third of the time of the models.
        round_trip: of the idle line (seconds). Models that move beside others for a few round trips
            only have the rate of the fastest third of their time: for the rest they wait for acks
            behind the chunks of the others, with windows that have not grown to the queue yet.

    Raises:
        ValueError: there is no model, or one without bytes.
    """
    if not flows or any(nbytes <= 0 or seconds <= 0 for nbytes, seconds, _ in flows):
        raise ValueError("a speed needs at least one model, with bytes and a time")
    total = sum(nbytes for nbytes, _, _ in flows)
    longest = max(seconds for _, seconds, _ in flows)
    curves = [samples for _, _, samples in flows]
    first, stop = _common(curves)
    with_others = _common([*curves, *beside])
    if with_others[1] - with_others[0] >= _LEAST_SHARE * (stop - first):
        first, stop = with_others
    begin = max(
        first + (stop - first) * _WARM_UP,
        _grown_at([_between(samples, first, stop) for samples in curves]),
    )
    inside = [_between(samples, begin, stop) for samples in curves]
    rate = sum(map(_slope, inside))
    if beside and stop - first < _FEW_ROUND_TRIPS * round_trip:
        rate = max(rate, _fastest(curves, first, stop))
    if rate <= 0:  # too short to tell the start from the rest
        rate = total / longest
    slices = [rate, *_slices(inside)]
    return Speed(
        rate=rate,
        start_seconds=max(0.0, longest - total / rate) if not beside else 0.0,
        lowest=min(slices),
        highest=max(slices),
        longest_gap=max(map(_longest_gap, curves)),
        seconds=longest,
        nbytes=total,
    )


def _common(curves: Sequence[Samples]) -> tuple[float, float]:
    """Return the time in which all are under way."""
    known = [samples for samples in curves if samples]
    first = max((samples[0][0] for samples in known), default=0.0)
    return first, min((samples[-1][0] for samples in known), default=0.0)


def _between(samples: Samples, begin: float, stop: float) -> Samples:
    """Return the samples in that time, and the last one before it: between two is one chunk."""
    later = [each for each in samples if begin <= each[0] <= stop]
    earlier = [each for each in samples if each[0] < begin]
    return [*earlier[-1:], *later] if later else []


def _slope(samples: Samples) -> float:
    # From one arrival to another: a slow line has few chunks, and to begin or to end between two
    # arrivals would be wrong by a whole chunk.
    if len(samples) < 2:
        return 0.0
    (began, before), (ended, after) = samples[0], samples[-1]
    return (after - before) / (ended - began) if ended > began else 0.0


def _fastest(curves: Sequence[Samples], first: float, stop: float) -> float:
    """Return the highest rate that all curves together have for a third of that time."""
    width = (stop - first) * _FASTEST
    known = [samples for samples in curves if len(samples) > 1]
    if width <= 0 or not known:
        return 0.0
    begins = [first + (stop - first - width) * step / _STEPS for step in range(_STEPS + 1)]
    return max(
        sum(_at(samples, begin + width) - _at(samples, begin) for samples in known) / width
        for begin in begins
    )


def _grown_at(curves: Sequence[Samples]) -> float:
    """Return when the curves had first reached their rate, at half of their time at the latest.

    A line of 200 ms takes two seconds to fill, and longer where the machine is busy: more than a
    third of what a probe has time for. Slower parts behind that are the line's own.
    """
    edges, rates = _parts(curves)
    if not rates:
        return 0.0
    half = len(rates) // 2
    enough = _GROWN * sum(rates[half:]) / (len(rates) - half)
    return edges[next((number for number in range(half) if rates[number] >= enough), half)]


def _slices(curves: Sequence[Samples]) -> list[float]:
    """Return the rates of equal parts of the time that all curves share; none: it is too short."""
    return _parts(curves)[1]


def _parts(curves: Sequence[Samples]) -> tuple[list[float], list[float]]:
    """Return the edges of those parts, one more than there are, and the rates."""
    known = [samples for samples in curves if len(samples) > 1]
    if len(known) < len(curves) or not known:
        return [], []
    begin = max(samples[0][0] for samples in known)
    stop = min(samples[-1][0] for samples in known)
    # A slice of fewer than two arrivals would show the size of a chunk.
    fewest = min(len(samples) for samples in known)
    count = min(_SLICES, int((stop - begin) / _LEAST_SLICE_SECONDS), fewest // 3)
    if count < 2:
        return [], []
    width = (stop - begin) / count
    edges = [begin + width * number for number in range(count + 1)]
    marks = [sum(_at(samples, edge) for samples in known) for edge in edges]
    return edges, [(after - before) / width for before, after in pairwise(marks)]


def _at(samples: Samples, moment: float) -> float:
    """Return how many bytes had arrived then, by a straight line between two samples."""
    before = samples[0]
    for after in samples[1:]:
        if moment <= after[0]:
            share = (moment - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 1.0
            return before[1] + max(0.0, share) * (after[1] - before[1])
        before = after
    return before[1]


def _longest_gap(samples: Samples) -> float:
    times = [moment for moment, _ in samples]
    return max((b - a for a, b in pairwise(times)), default=0.0)
