"""Proposed settings: within what the configuration takes, and fit for the line, with reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from streamlink.config import JobConfig, StreamConfig, TimeoutConfig
from streamlink.config.values import KiB, MiB
from streamlink.probing.measured import Measured
from streamlink.probing.proposal import Choice, longest_silence, propose, size_text
from streamlink.protocol.liveness import Liveness
from tests.probing.lines import a_line, lines

KEYS = {
    "stream.chunk_bytes",
    "stream.window_bytes",
    "stream.max_lanes",
    "timeouts.streaming_read_timeout",
    "timeouts.streaming_ack_wait",
    "timeouts.communication_timeout",
}


def proposed(measured: Measured) -> dict[str, Choice]:
    return {each.name: each for each in propose(measured)}


@given(lines())
def test_every_proposal_can_be_set_and_says_why(measured: Measured) -> None:
    choices = proposed(measured)
    assert choices.keys() == KEYS
    JobConfig.assemble(settings=[f"{each.name}={each.text}" for each in choices.values()])
    assert all(len(each.reason.split()) > 5 for each in choices.values())


@given(lines())
def test_timeouts_outlast_ten_silences_of_the_line_and_a_lost_connection(
    measured: Measured,
) -> None:
    choices = proposed(measured)
    silence = longest_silence(measured, int(choices["stream.chunk_bytes"].value))
    timeouts = TimeoutConfig()
    # Nothing has arrived on the stream yet: then a silent connection is kept longest.
    unnoticed = Liveness(timeouts.call_timeout, open_timeout=timeouts.open_timeout)
    lost = unnoticed.timeout(is_handshake=False) + timeouts.reconnect_timeout * 4 / 3
    for key in ("streaming_read_timeout", "streaming_ack_wait", "communication_timeout"):
        assert choices[f"timeouts.{key}"].value >= max(lost, 10 * silence)


@given(lines())
def test_a_window_holds_what_the_line_holds_or_is_the_most(measured: Measured) -> None:
    choices = proposed(measured)
    window, chunk = choices["stream.window_bytes"], choices["stream.chunk_bytes"].value
    held = measured.fastest * measured.idle.median
    largest = window.value if window.is_set else StreamConfig().longest_window_bytes
    assert largest >= min(256 * MiB, held + 4 * chunk)


@given(lines())
def test_a_chunk_takes_a_second_at_most_or_is_the_smallest(measured: Measured) -> None:
    chunk = proposed(measured)["stream.chunk_bytes"].value
    assert 64 * KiB <= chunk <= 2 * MiB
    assert chunk == 64 * KiB or chunk / measured.slowest <= 1.0


@pytest.mark.parametrize(("gain", "lanes"), [(0.9, 1), (1.05, 1), (1.5, 4)])
def test_lanes_are_proposed_where_several_connections_carry_more(gain: float, lanes: int) -> None:
    choice = proposed(a_line(gain=gain))["stream.max_lanes"]
    assert choice.value == lanes
    assert f"{gain:.2f} x" in choice.reason


def test_no_lanes_are_proposed_where_the_carrier_takes_none() -> None:
    choice = proposed(replace(a_line(gain=3.0), carrier="grpc"))["stream.max_lanes"]
    assert choice.value == 1
    assert "only tcp carries a stream over several, not grpc" in choice.reason


def test_timeouts_do_not_grow_with_a_model_but_with_the_silence() -> None:
    fast, slow = a_line(12.5e6), a_line(1_000, gap=20.0)
    choice = proposed(fast)["timeouts.streaming_ack_wait"]
    assert choice.value == 120.0
    assert "20 s (call_timeout), or 80 s before the first bytes of a stream" in choice.reason
    assert "may take 40 s (reconnect_timeout, and a third of it)" in choice.reason
    choice = proposed(slow)["timeouts.streaming_ack_wait"]
    assert choice.value >= 1300.0  # two chunks of 64 KiB take 131 s
    assert "every byte that moves restarts it" in choice.reason


def test_a_long_fast_line_gets_a_window_above_the_default_and_the_figures() -> None:
    choice = proposed(a_line(250e6, 0.2))["stream.window_bytes"]
    assert (choice.text, choice.is_set) == ("128MiB", True)
    assert "250 MB/s x 200 ms" in choice.reason


@pytest.mark.parametrize("round_trip", [0.0005, 0.05, 0.15])
def test_a_window_that_grows_enough_by_itself_is_not_set(round_trip: float) -> None:
    choice = proposed(a_line(125e6, round_trip))["stream.window_bytes"]
    assert (choice.text, choice.is_set) == ("16MiB", False)
    assert "grows to up to 48MiB" in choice.reason


@pytest.mark.parametrize(("nbytes", "text"), [(2 * MiB, "2MiB"), (96 * KiB, "96KiB"), (7, "7")])
def test_a_size_is_written_in_the_largest_unit(nbytes: int, text: str) -> None:
    assert size_text(nbytes) == text
