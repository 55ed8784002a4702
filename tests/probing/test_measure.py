"""What a probe measures: also where the server ends it early, and on a line that holds much."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from streamlink.config import LinkConfig, StreamConfig
from streamlink.errors import StreamAborted
from streamlink.link.probe_line import Way
from streamlink.link.probe_wire import MAX_PROBE_BYTES, MAX_PROBE_SECONDS
from streamlink.link.server import Server
from streamlink.probing import ProbeLine, RoundTrips, Speed, measure
from tests.probing.long_line import LongLine, arrivals


def test_each_measurement_is_noted_as_soon_as_it_is_there() -> None:
    found: dict[str, RoundTrips | Speed] = {}
    with ExitStack() as stack:
        # Slow: all that follows takes longer than the server needs to notice its round.
        slow = LinkConfig(stream=StreamConfig(bwlimit="4M"))
        server = stack.enter_context(Server(config=slow))
        line = stack.enter_context(ProbeLine(server.address))

        def note(name: str, each: RoundTrips | Speed) -> None:
            found[name] = each
            if name == "down, alone":
                stack.enter_context(server.occupied("round 4 runs"))

        with pytest.raises(StreamAborted, match="round 4 runs"):
            measure(line, address=server.address, seconds=0.5, note=note)
    assert list(found)[:2] == ["round trip, idle", "down, alone"]
    assert "down, beside up" not in found
    assert isinstance(found["round trip, idle"], RoundTrips)
    assert isinstance(found["down, alone"], Speed)


def test_what_is_noted_is_what_is_returned() -> None:
    found: dict[str, RoundTrips | Speed] = {}
    with Server() as server, ProbeLine(server.address) as line:
        measured = measure(
            line, address=server.address, seconds=0.5, most=4 << 20, note=found.__setitem__
        )
    assert found == {
        "round trip, idle": measured.idle,
        "down, alone": measured.down,
        "up, alone": measured.up,
        "down, 4 at once": measured.down_several,
        "up, 4 at once": measured.up_several,
        "down, beside up": measured.down_both,
        "up, beside down": measured.up_both,
    }


LINES = [(125e6, 0.2), (125e6, 0.05), (25e6, 0.1), (12.5e6, 0.2), (1.25e6, 0.2), (125e6, 0.0005)]


@pytest.mark.parametrize(("rate", "round_trip"), LINES)
def test_the_forecast_is_that_of_a_stream_whose_window_grows(
    rate: float, round_trip: float
) -> None:
    measured = measure(LongLine(rate, round_trip), address="nowhere:1")
    large = int(rate * 20)
    usual = max(1 << 20, min(int((20 << 20) * round_trip), 4 << 20))
    took = arrivals(large, rate, round_trip, usual)[-1][0] + round_trip
    assert measured.down.seconds_for(large) == pytest.approx(took, rel=0.01)
    assert measured.up.seconds_for(large) == pytest.approx(took, rel=0.01)
    assert measured.down_both.rate == pytest.approx(rate, rel=0.05)
    assert measured.up_both.rate <= measured.up.rate
    assert measured.nbytes <= MAX_PROBE_BYTES


def test_several_that_carry_more_are_measured_in_both_directions_too() -> None:
    measured = measure(LongLine(12.5e6, 0.05, share=0.3), address="nowhere:1")
    assert measured.down_several.rate == pytest.approx(12.5e6, rel=0.05)
    assert measured.down_both.rate == pytest.approx(0.3 * 12.5e6, rel=0.05)
    for each in (measured.down_both_several, measured.up_both_several):
        assert each is not None
        assert each.rate == pytest.approx(0.5 * 12.5e6, rel=0.05)
    assert measured.nbytes <= MAX_PROBE_BYTES


@pytest.mark.parametrize(("rate", "round_trip"), LINES)
def test_no_line_makes_a_probe_move_more_than_it_may(rate: float, round_trip: float) -> None:
    for share in (0.3, 1.0):
        line = LongLine(rate, round_trip, share=share)
        assert measure(line, address="nowhere:1").nbytes <= MAX_PROBE_BYTES


def test_several_both_ways_take_half_of_the_time_of_one() -> None:
    line = LongLine(2.5e6, 0.05, share=0.6)
    measured = measure(line, address="nowhere:1", seconds=4.0)
    assert measured.down_both_several is not None
    together = measured.down_both.seconds + measured.down_both_several.seconds
    assert together <= 2 * 4.0 * 1.1  # both directions share the line


def test_a_server_of_few_streams_is_not_asked_for_more() -> None:
    measured = measure(LongLine(12.5e6, 0.05, share=0.3, most_models=7), address="nowhere:1")
    assert (measured.down_both_several, measured.up_both_several) == (None, None)
    assert measured.gain_of_several > 2


def test_a_model_alone_that_was_slowed_gets_the_higher_rate_beside_the_other_direction() -> None:
    measured = measure(LongLine(2.5e6, 0.05, slowed="up"), address="nowhere:1")
    for each in (measured.down, measured.up, measured.up_both):
        assert each.rate == pytest.approx(2.5e6, rel=0.05)


@pytest.mark.parametrize("late", ["down", "up"])
def test_a_model_that_was_mostly_start_is_followed_by_one_more(late: Way) -> None:
    usual = measure(LongLine(6.25e6, 0.1), address="nowhere:1")
    measured = measure(LongLine(6.25e6, 0.1, late=late), address="nowhere:1")
    found, expected = getattr(measured, late), getattr(usual, late)
    assert found.rate == pytest.approx(6.25e6, rel=0.02)
    assert found.start_seconds == pytest.approx(expected.start_seconds, rel=0.1)
    assert found.seconds >= 3.0, "one that is short would show a moment, too"


FAR = [(2.5e6, 0.6), (6.25e6, 0.6), (625e3, 0.7), (250e3, 0.2), (2.5e6, 0.1), (200e3, 0.02)]


@pytest.mark.parametrize("late", [None, "down", "up"])
@pytest.mark.parametrize(("rate", "round_trip"), FAR)
def test_all_of_a_probe_fits_into_the_time_that_a_server_allows(
    rate: float, round_trip: float, late: Way | None
) -> None:
    measured = measure(LongLine(rate, round_trip, late=late), address="nowhere:1")
    assert measured.seconds < MAX_PROBE_SECONDS - 3.0


def test_several_that_carry_no_more_are_not_measured_in_both_directions() -> None:
    measured = measure(LongLine(12.5e6, 0.05), address="nowhere:1")
    assert (measured.down_both_several, measured.up_both_several) == (None, None)


def test_a_server_that_grants_no_larger_window_shows_its_window_and_not_the_line() -> None:
    line = LongLine(125e6, 0.2, longest_window=0)
    assert measure(line, address="nowhere:1").down.rate < 0.7 * 125e6
