"""The forecast of a round: what it is made of, and what makes it longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.probing.forecast import EncodingCost, Round, forecast
from streamlink.probing.lanes import SECONDS_TO_OPEN
from streamlink.probing.measured import Measured
from streamlink.transport.lane_rule import SAMPLE_SECONDS, LaneRule
from tests.probing.lines import a_line, lines

SIZES = st.integers(1, 10**12)
PLANES = EncodingCost("planes", 0.7, 300e6, 400e6)
INT8 = EncodingCost("int8", 0.25, 200e6, 400e6, is_lossy=True)
ZSTD = EncodingCost("zstd", 0.9, 600e6, 900e6)


def rounds(nbytes: int, measured: Measured) -> dict[tuple[str, str], Round]:
    found = forecast(nbytes, measured, [ZSTD, PLANES])
    return {(each.executor, each.encoding): each for each in found}


@given(SIZES, lines())
def test_every_executor_has_every_encoding(nbytes: int, measured: Measured) -> None:
    encodings = ("plain", "zstd", "planes", "auto")
    every = {(e, c) for e in ("streaming", "whole", "on disk") for c in encodings}
    assert rounds(nbytes, measured).keys() == every


@given(SIZES, lines())
def test_auto_is_never_slower_than_plain_or_planes(nbytes: int, measured: Measured) -> None:
    found = rounds(nbytes, measured)
    for executor in ("streaming", "whole", "on disk"):
        best = min(found[executor, each].seconds for each in ("plain", "planes"))
        assert found[executor, "auto"].seconds == best


def test_auto_takes_differences_where_they_are_faster_and_never_rounds() -> None:
    costs = [PLANES, EncodingCost("delta", 0.1, 300e6, 400e6), INT8]
    found = {(each.executor, each.encoding): each for each in forecast(10**9, a_line(1e6), costs)}
    auto, delta = found["whole", "auto"], found["whole", "delta"]
    assert auto == replace(delta, encoding="auto")
    assert not auto.is_lossy


def test_a_lossy_format_is_forecast_like_any_other_and_marked() -> None:
    found = {each.encoding: each for each in forecast(10**9, a_line(1e6), [INT8])}
    assert found.keys() == {"plain", "int8"}
    assert [found[each].is_lossy for each in ("plain", "int8")] == [False, True]
    assert found["int8"].seconds == pytest.approx(0.25 * found["plain"].seconds, rel=0.01)


@given(SIZES, SIZES, lines())
def test_a_larger_model_never_takes_less(one: int, other: int, measured: Measured) -> None:
    small, large = rounds(min(one, other), measured), rounds(max(one, other), measured)
    assert all(small[key].seconds <= large[key].seconds for key in small)


def test_a_streaming_round_takes_one_traverse_and_a_whole_one_two() -> None:
    found = rounds(125 * 10**6, a_line(12.5e6, 0.05))
    assert found["whole", "plain"].seconds == pytest.approx(20.2)
    assert found["streaming", "plain"].seconds == pytest.approx(10.0 + 4 * 0.05, abs=0.11)


def test_an_encoding_helps_a_slow_line_and_costs_a_fast_one() -> None:
    slow, fast = rounds(10**9, a_line(1e6)), rounds(10**9, a_line(5e9, 1e-4))
    assert slow["whole", "planes"].seconds == pytest.approx(
        0.7 * slow["whole", "plain"].seconds, rel=0.01
    )
    # Then the processor is what is waited for.
    assert fast["whole", "planes"].down_seconds == pytest.approx(10**9 / 300e6)


# --- over several connections -------------------------------------------------------------------


def test_where_lanes_are_proposed_the_forecast_is_over_them() -> None:
    one, four = rounds(10**12, a_line(1e6)), rounds(10**12, a_line(1e6, gain=4.0))
    for executor in ("streaming", "whole", "on disk"):
        shorter = one[executor, "plain"].seconds / four[executor, "plain"].seconds
        assert shorter == pytest.approx(4.0, rel=0.01)  # of ten days, 18 s are over fewer
        assert (one[executor, "plain"].connections, four[executor, "plain"].connections) == (1, 4)


def test_a_gain_that_proposes_no_lanes_changes_nothing() -> None:
    assert rounds(10**9, a_line(gain=1.09)) == rounds(10**9, a_line(gain=1.0))


def test_a_direction_that_lanes_make_slower_is_forecast_over_one() -> None:
    line = a_line(gain=2.0)
    slower = replace(line, down_several=replace(line.down_several, rate=line.down.rate / 2))
    found, alone = rounds(10**9, slower), rounds(10**9, a_line(gain=1.0))
    for executor in ("on disk", "whole"):
        down = alone[executor, "plain"].down_seconds
        assert found[executor, "plain"].down_seconds == down
        assert found[executor, "plain"].up_seconds < alone[executor, "plain"].up_seconds


def test_a_short_transfer_ends_before_more_connections_are_open() -> None:
    short = int(12.5e6 * 0.9 * SECONDS_TO_OPEN)
    one, four = rounds(short, a_line(gain=1.0)), rounds(short, a_line(gain=4.0))
    assert one["whole", "plain"].seconds == four["whole", "plain"].seconds


def test_a_streaming_round_is_forecast_with_what_several_carry_both_ways_at_once() -> None:
    line = a_line(1e6, gain=4.0)
    half = replace(line.down_several, rate=line.down_several.rate / 2)
    found = rounds(10**12, replace(line, up_both_several=half))
    assert found["streaming", "plain"].down_seconds == pytest.approx(10**12 / 4e6, rel=0.01)
    assert found["streaming", "plain"].up_seconds == pytest.approx(10**12 / 2e6, rel=0.01)
    assert found["whole", "plain"].up_seconds == pytest.approx(10**12 / 4e6, rel=0.01)


def test_where_several_were_not_measured_both_ways_a_streaming_round_is_over_one() -> None:
    line = replace(a_line(1e6, gain=4.0), down_both_several=None, up_both_several=None)
    found = rounds(10**9, line)
    assert found["streaming", "plain"] == rounds(10**9, a_line(1e6))["streaming", "plain"]
    assert found["whole", "plain"].connections == 4


def test_several_that_are_slower_both_ways_at_once_are_forecast_over_one() -> None:
    line = a_line(1e6, gain=4.0)
    tenth = replace(line.down_both, rate=line.down_both.rate / 10)
    found = rounds(10**9, replace(line, down_both_several=tenth, up_both_several=tenth))
    alone = rounds(10**9, a_line(1e6))
    assert found["streaming", "plain"].seconds == alone["streaming", "plain"].seconds


def test_each_further_connection_opens_when_a_stream_opens_it() -> None:
    rule, lanes, received, opened = LaneRule(most=4), 1, 0.0, list[float]()
    for sample in range(40):
        now = sample * SAMPLE_SECONDS
        wanted = rule.wanted(int(received), lanes=lanes, now=now)
        opened += [now] * (wanted - lanes)
        lanes = wanted
        received += lanes * 1e7 * SAMPLE_SECONDS
    assert opened == [SECONDS_TO_OPEN * number for number in (1, 2, 3)]
