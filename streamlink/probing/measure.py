"""Runs a probe: which models move when, how large they are, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from streamlink.link.probe_line import Flow, Moved, ProbeLine, Way
from streamlink.link.probe_wire import MAX_PROBE_BYTES
from streamlink.probing.growth import burst_rate, grown_window, growth_seconds, rate_in_window
from streamlink.probing.lanes import are_worth_it
from streamlink.probing.measured import Measured, RoundTrips, gain_of
from streamlink.probing.speed import Speed, speed_of

__all__ = ["LEAST_BYTES", "MOST_SECONDS", "SEVERAL", "Note", "measure"]

Note = Callable[[str, RoundTrips | Speed], None]
"""``note(name, found)`` takes one measurement as soon as it is there."""

SEVERAL = 4
"""How many connections are tried at once (count)."""

MOST_SECONDS = 6.0
"""The longest that one measurement may be asked to take. Then all fit into what a server allows,
with round trips of up to 0.6 s; one model alone may take twice as long, where it starts slowly."""

LEAST_BYTES = 4 << 20
"""The least that a probe may move in all (bytes)."""

_ECHOES = 10
_FIRST_BYTES = 16 << 10
_ALONE, _SEVERAL = 0.22, 0.14  # shares of all bytes, for each direction; both at once has the rest
_ENOUGH = 0.6  # of the wanted time
_MOST_START, _MOST_ROUND_TRIPS = 0.4, 8  # more than both, and a model's rate is not believed
_SPARE_SECONDS = 25.0  # later there is no time for more models than usual
_LONG_SECONDS, _LONG_ROUND_TRIPS = 1.0, 16
_CLEARLY_FASTER = 1.1  # a smaller difference may come from how acks arrive
_LEAST_GROWTH, _MOST_GROWTH = 1.5, 8.0
_MOST_TIMES_MEAN = 16
_MOST_LONGER = 2.0  # than if all of its time had been at the mean rate: a short tail may mislead


def measure(
    line: ProbeLine,
    *,
    address: str,
    is_encrypted: bool = False,
    seconds: float = 5.0,
    most: int = MAX_PROBE_BYTES,
    tell: Callable[[str], None] = lambda what: None,
    note: Note = lambda name, found: None,
) -> Measured:
    """Measure a line to a server that has let ``line`` in.

    Args:
        line: the open session.
        address: of the server, for the result.
        is_encrypted: whether TLS is on.
        seconds: how long each measurement should take (seconds).
        most: how much may be moved in all (bytes).
        tell: called with what is measured next.
        note: called with what is known so far: for whoever has to make do with a part, since the
            server may end a probe at any time.

    Raises:
        Cancelled: the token of ``line`` was cancelled.
        StreamlinkError: the server or the line failed, or the server has ended the probe.
    """
    began, reconnects = line.clock(), line.reconnects
    tell("round trips on the idle line")
    idle = RoundTrips.of([line.echo() for _ in range(_ECHOES)])
    run = _Run(line, seconds, most, idle.lowest)
    note("round trip, idle", idle)
    tell("down, alone")
    down = run.alone("down")
    note("down, alone", down)
    tell("up, alone")
    up = run.alone("up")
    note("up, alone", up)
    down_several = run.several("down", down, tell, note)
    up_several = run.several("up", up, tell, note)
    # Once: streams may change to another carrier meanwhile.
    carrier = run.flows[-1].carrier
    gain = gain_of((down, down_several), (up, up_several))
    is_worth_it = are_worth_it(carrier, gain) and line.most_models >= 2 * SEVERAL
    parts = 2 if is_worth_it else 1
    tell("both ways at once")
    (down, down_both), (up, up_both) = run.both(down, up, 1, parts, parts)
    note("down, beside up", down_both)
    note("up, beside down", up_both)
    down_both_several = up_both_several = None
    if is_worth_it:
        tell(f"both ways at once, {SEVERAL} each")
        found = run.both(down_several, up_several, SEVERAL, parts, 1)
        (down_several, down_both_several), (up_several, up_both_several) = found
    return Measured(
        address=address,
        carrier=carrier,
        is_encrypted=is_encrypted,
        idle=idle,
        loaded=RoundTrips.of(run.echoes or [line.echo()]),
        down=down,
        up=up,
        down_both=down_both,
        up_both=up_both,
        several=SEVERAL,
        down_several=down_several,
        up_several=up_several,
        down_both_several=down_both_several,
        up_both_several=up_both_several,
        lost_connections=sum(each.resumes for each in run.flows) + line.reconnects - reconnects,
        seconds=line.clock() - began,
        nbytes=sum(each.nbytes for each in run.flows),
    )


class _Run:
    """What one probe has moved so far."""

    def __init__(self, line: ProbeLine, seconds: float, most: int, round_trip: float) -> None:
        self._line, self._seconds, self._most = line, seconds, most
        self._round_trip = round_trip  # of the idle line (seconds)
        self._began = line.clock()
        self.flows: list[Flow] = []
        self.echoes: list[float] = []

    def alone(self, way: Way) -> Speed:
        """Move ever larger models in one direction, until one takes long enough."""
        left, size, window = int(self._most * _ALONE), _FIRST_BYTES, self._usual_window(way)
        was_long = False
        while True:
            moved = self._move([(way, size)], {way: window})
            left -= size
            took, speed = moved.flows[0].seconds, _speed(moved, way)
            is_long = took >= self._seconds * _ENOUGH
            is_enough = is_long and (was_long or not self._is_mostly_start(speed))
            has_time = not was_long or self._has_time
            # A smaller model than the last one would show more of its start.
            if is_enough or not has_time or left < size * _LEAST_GROWTH:
                return self._with_all_growth(speed, way, window)
            was_long = was_long or is_long
            began_with, window = window, self._grown(speed, moved.flows[0])
            rate, least = speed.rate, size * _LEAST_GROWTH
            if window > self._usual_window(way):  # the window has limited the rate
                rate = max(rate, rate_in_window(window, self._round_trip))
            size = min(left, int(size * self._growth(took, speed, rate)))
            if window > began_with:  # it may still be too small: measure one window
                size = min(size, int(max(window, least)))

    def _is_mostly_start(self, speed: Speed) -> bool:
        """Return whether a long model is to be followed by one more, while there is time.

        Where packets were lost early, it may be start for a large part, and its rate that of a
        moment. A start of a few round trips is no sign of that.
        """
        usual = max(speed.seconds * _MOST_START, _MOST_ROUND_TRIPS * self._round_trip)
        return self._has_time and speed.start_seconds > usual

    @property
    def _has_time(self) -> bool:
        return self._line.clock() - self._began < _SPARE_SECONDS

    def _grown(self, speed: Speed, flow: Flow) -> int:
        """Return the window to which a larger model would have grown (bytes)."""
        # The rate of a burst is uncertain: it counts only where the window has limited the mean
        # rate, and up to a multiple of that.
        mean = grown_window(speed.rate, self._round_trip)
        if mean <= self._usual_window(flow.way):
            return self._usual_window(flow.way)
        burst = grown_window(burst_rate(flow.samples), self._round_trip)
        return self._granted(flow.way, min(burst, _MOST_TIMES_MEAN * mean))

    def _usual_window(self, way: Way) -> int:
        """Return the initial window of a model on this line, unless the probe asks for another."""
        return self._line.initial_window(way, self._round_trip)

    def _granted(self, way: Way, window: float) -> int:
        """Return ``window`` within what both ends allow (bytes)."""
        own = self._line.initial_window(way, 0.0)
        return max(own, int(min(window, self._line.longest_window)))

    def _with_all_growth(self, speed: Speed, way: Way, began_with: int) -> Speed:
        """Add the start-up time that a model with the usual initial window takes."""
        rate, round_trip = speed.rate, self._round_trip
        whole = growth_seconds(self._usual_window(way), rate, round_trip)
        # The measured start includes the rest of the growth.
        left = growth_seconds(began_with, rate, round_trip)
        return replace(speed, start_seconds=speed.start_seconds + whole - left)

    def _growth(self, took: float, speed: Speed, rate: float) -> float:
        """Return how much larger the next model is: what is left of the time once it has started.

        By the mean rate alone it would end too early on a long line, and be half start.
        """
        left = self._seconds - speed.start_seconds
        longer = min(_MOST_LONGER * self._seconds / took, rate * left / speed.nbytes)
        return min(_MOST_GROWTH, max(_LEAST_GROWTH, longer))

    def several(self, way: Way, alone: Speed, tell: Callable[[str], None], note: Note) -> Speed:
        """Move several models in one direction."""
        what = f"{way}, {SEVERAL} at once"
        tell(what)
        nbytes = min(alone.rate * self._seconds, self._most * _SEVERAL)
        speed = _speed(self._together([(way, alone.rate, SEVERAL, nbytes)]), way)
        note(what, speed)
        return speed

    def both(
        self, down: Speed, up: Speed, count: int, parts: int, parts_left: int
    ) -> tuple[tuple[Speed, Speed], tuple[Speed, Speed]]:
        """Move models in both directions; returns for each its speed alone, and beside the other.

        Args:
            down: of ``count`` connections while nothing goes up.
            up: of as many while nothing comes down.
            count: of models in each direction.
            parts: how many measurements of both directions share the time of one.
            parts_left: how many of them, with this one, share the bytes that are left.
        """
        left = self._most - sum(each.nbytes for each in self.flows)
        most, seconds = left / (2 * parts_left), self._seconds / parts
        ways: tuple[tuple[Way, Speed], ...] = (("down", down), ("up", up))
        moved = self._together(
            [(way, alone.rate, count, min(alone.rate * seconds, most)) for way, alone in ways]
        )
        trip = self._round_trip
        return (
            _agreed(down, _speed(moved, "down", "up", trip), trip),
            _agreed(up, _speed(moved, "up", "down", trip), trip),
        )

    def _together(self, parts: Sequence[tuple[Way, float, int, float]]) -> Moved:
        """Move several models at once.

        Args:
            parts: of each its direction, the rate of that direction alone (bytes per second), how
                many models, and how many bytes they have together.
        """
        flows: list[tuple[Way, int]] = []
        for way, _, count, nbytes in parts:
            flows += [(way, max(1, int(nbytes / count)))] * count
        # The bandwidth-delay product: a longer queue would delay the acks of the other direction.
        # Acks of a model that goes up arrive here a round trip later than the chunks of one that
        # comes down, so it begins earlier. Otherwise they would hardly overlap on a long line.
        held = {way: rate * self._round_trip / count for way, rate, count, _ in parts}
        windows = {way: self._granted(way, each) for way, each in held.items()}
        return self._move(flows, windows, up_lead=self._round_trip)

    def _move(
        self,
        flows: Sequence[tuple[Way, int]],
        initial_windows: Mapping[Way, int],
        up_lead: float = 0.0,
    ) -> Moved:
        moved = self._line.move(flows, initial_windows, up_lead)
        self.flows += moved.flows
        self.echoes += moved.echoes
        return moved


def _agreed(alone: Speed, beside: Speed, round_trip: float) -> tuple[Speed, Speed]:
    """Return both, where no direction is faster beside the other one than alone.

    Acks queue behind the chunks of the other direction, and then arrive in a burst. In a short
    measurement such a burst looks like a rate that the line does not have. If a long one is much
    faster, the one alone was slowed by something else, such as packets lost during slow start.
    """
    is_long = beside.seconds >= max(_LONG_SECONDS, _LONG_ROUND_TRIPS * round_trip)
    if is_long and beside.rate > _CLEARLY_FASTER * alone.rate:
        return replace(alone, rate=beside.rate, highest=max(alone.highest, beside.rate)), beside
    rate = min(beside.rate, alone.rate)
    return alone, replace(beside, rate=rate, lowest=min(beside.lowest, rate))


def _speed(moved: Moved, way: Way, beside: Way | None = None, round_trip: float = 0.0) -> Speed:
    meant = [(each.nbytes, each.seconds, each.samples) for each in moved.flows if each.way == way]
    others = [each.samples for each in moved.flows if each.way == beside]
    return speed_of(meant, others, round_trip)
