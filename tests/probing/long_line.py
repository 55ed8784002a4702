"""A simulated line with a large bandwidth-delay product, to test what a probe measures on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamlink.clock import RunningClock
from streamlink.link.probe_line import Flow, Moved, ProbeLine, Way
from streamlink.link.probe_wire import INITIAL_WINDOW, LONG_INITIAL, LONGEST_WINDOW, MODELS

__all__ = ["LongLine", "arrivals"]

_SAMPLE_SECONDS = 0.005
_OWN = 1 << 20
_LATE_SECONDS, _LATE_SHARE = 3.0, 20


class SteppedClock(RunningClock):
    """A clock that stands still until whoever has it says that time has passed."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class LongLine(ProbeLine):
    """Every stream has a window that doubles with each round trip, and is silent for the rest.

    Args:
        rate: what it carries each way (bytes per second).
        round_trip: seconds.
        longest_window: with which a model may begin (bytes); 0: the server is older.
        share: of ``rate`` that one connection can have; both directions share ``rate`` where it
            is less than 1.
        most_models: that the server moves at the same time (count).
        slowed: a direction in which a model alone has half of its rate.
        late: a direction in which the first model that takes long has a twentieth of its rate for
            three seconds, as after losses in slow start.
    """

    def __init__(
        self,
        rate: float,
        round_trip: float,
        longest_window: int = 48 << 20,
        share: float = 1.0,
        most_models: int = 32,
        slowed: Way | None = None,
        late: Way | None = None,
    ) -> None:
        super().__init__("nowhere:1")
        self._rate, self._round_trip, self._share = rate, round_trip, share
        self._slowed, self._late = slowed, late
        self.clock = self._time = SteppedClock()
        self.server = {MODELS: str(most_models)}
        if longest_window:
            self.server |= {INITIAL_WINDOW: str(_OWN), LONG_INITIAL: str(4 << 20)}
            self.server[LONGEST_WINDOW] = str(longest_window)

    @property
    def reconnects(self) -> int:
        return 0

    def echo(self) -> float:
        self._time.now += self._round_trip
        return self._round_trip

    def move(
        self,
        flows: Sequence[tuple[Way, int]],
        initial_windows: Mapping[Way, int] | None = None,
        up_lead: float = 0.0,
    ) -> Moved:
        ways, moved = [way for way, _ in flows], []
        for way, nbytes in flows:
            asked = (initial_windows or {}).get(way, 0)
            is_older = way == "down" and LONGEST_WINDOW not in self.server
            window = _OWN if is_older else asked or self.initial_window(way, self._round_trip)
            sharing = ways.count(way) if self._share == 1.0 else len(ways)
            rate = min(self._rate * self._share, self._rate / sharing)
            rate /= 2 if ways == [self._slowed] else 1
            samples = arrivals(nbytes, rate, self._round_trip, window)
            if ways == [self._late] and nbytes > 3 * rate * _LATE_SECONDS / _LATE_SHARE:
                self._late, samples = None, _begun_late(samples, rate)
            took = samples[-1][0] + self._round_trip
            moved.append(Flow(way, nbytes, took, tuple(samples), 0, "tcp"))
        self._time.now += max(each.seconds for each in moved)
        return Moved(tuple(moved), ())


def arrivals(
    nbytes: int, rate: float, round_trip: float, window: int = _OWN
) -> list[tuple[float, int]]:
    """Return when how much of a model has arrived (seconds, bytes)."""
    found: list[tuple[float, int]] = []
    now, done = 2 * round_trip, 0  # after the request and the greeting of the stream
    while done < nbytes:
        part = min(window, nbytes - done)
        seconds = part / rate
        count = max(1, round(seconds / _SAMPLE_SECONDS))
        found += [
            (now + seconds * n / count, done + part * n // count) for n in range(1, count + 1)
        ]
        done += part
        now += max(round_trip, seconds)
        window *= 2
    return found


def _begun_late(samples: list[tuple[float, int]], rate: float) -> list[tuple[float, int]]:
    count = round(_LATE_SECONDS / _SAMPLE_SECONDS)
    few = rate * _LATE_SECONDS / _LATE_SHARE
    slow = [(_LATE_SECONDS * n / count, int(few * n / count)) for n in range(1, count + 1)]
    return slow + [(_LATE_SECONDS + when, done) for when, done in samples if done > few]
