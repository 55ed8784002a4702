"""What may be written for a line, and what it is made of."""

from __future__ import annotations

import re

import pytest

from benchmarks.links.lines import LOOPBACK, Line, Stalls, Way, parse_line
from benchmarks.links.relaying import shape


def test_a_line_is_read_as_a_person_writes_it() -> None:
    line = parse_line("100Mbit, 50ms, jitter=5ms, stall=1s/10s")
    assert line.up == line.down
    assert line.up == Way(rate=100e6, delay=0.025, jitter=0.005, stalls=Stalls(1, 10))


@pytest.mark.parametrize(
    ("text", "rate"), [("200KiB", 8 * 200 * 1024), ("1Gbit", 1e9), ("2MiB/s", 16 * 1024 * 1024)]
)
def test_bits_and_bytes_are_told_apart(text: str, rate: float) -> None:
    assert parse_line(text).rate == rate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "10Mbit,10Mbit",
        "loss=2",
        "loss=100%",
        "stall=3s/2s",
        "0Mbit",
        "jitter=5",
        "up-fast=1ms",
        "up-50ms",
        "delay=5ms",
        "up-loss=2",
        "1Mbit,up-loss=1%,up-loss=2%",
        "up=1Mbit,loss=1%",
        "tbf",
        "1Mbit,5ms,tbf",
        "1Mbit,jitter=1ms,tbf",
        "up=1Mbit,tbf",
        f"{'9' * 400}Gbit",
        f"1Mbit,{'9' * 400}s",
        f"1Mbit,jitter={'9' * 400}ms",
        f"1Mbit,stall=1s/{'9' * 400}s",
        f"1Mbit,up-loss={'9' * 400}%",
    ],
)
def test_what_is_no_line_is_refused_with_itself_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s)line {re.escape(repr(text))}.*100Mbit,50ms"):
        parse_line(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("loopback", "loopback"),
        ("10Mbit", "relay"),
        ("5ms", "relay"),
        ("1Mbit,loss=1%", "emulated"),
        ("1Mbit,tbf", "shaped"),
    ],
)
def test_what_a_line_is_made_of_follows_from_what_it_does(text: str, kind: str) -> None:
    assert parse_line(text).kind == kind


@pytest.mark.parametrize(
    "text", ["loopback", "10Mbit,30ms,loss=0.1%", "2MiB,stall=1s/5s", "up=1Mbit,down=9Mbit,tbf"]
)
def test_a_line_survives_its_json(text: str) -> None:
    line = parse_line(text)
    assert Line.from_json(line.as_json()) == line


def test_a_rate_may_be_written_for_each_direction() -> None:
    line = parse_line("up=20Mbit,down=100Mbit,30ms")
    assert line.ways == (Way(rate=20e6, delay=0.015), Way(rate=100e6, delay=0.015))
    assert parse_line("1Mbit,up=2Mbit").ways == (Way(rate=2e6), Way(rate=1e6))


def test_all_else_may_be_written_for_each_direction_too() -> None:
    up, down = "up=20Mbit,up-delay=30ms,up-loss=1%", "down=100Mbit,down-jitter=5ms,down-stall=1s/9s"
    line = parse_line(f"{up},{down}")
    assert line.up == Way(rate=20e6, delay=0.03, loss=0.01)
    assert line.down == Way(rate=100e6, jitter=0.005, stalls=Stalls(1, 9))
    assert (line.kind, line.round_trip) == ("emulated", 0.03)
    assert Line.from_json(line.as_json()) == line


def test_what_is_written_for_a_direction_replaces_what_is_written_for_both() -> None:
    line = parse_line("10Mbit,40ms,jitter=2ms,up-jitter=8ms,down-delay=0ms")
    assert line.up == Way(rate=10e6, delay=0.02, jitter=0.008)
    assert line.down == Way(rate=10e6, delay=0.0, jitter=0.002)


def test_directions_may_differ() -> None:
    line = Line("adsl", up=Way(rate=1e6, delay=0.01), down=Way(rate=16e6, delay=0.02))
    assert line.round_trip == pytest.approx(0.03)
    assert line.seconds(10**6) == pytest.approx(8.0)
    assert [shape(way).bandwidth for way in line.ways] == [1e6 / 8, 2e6]


def test_a_loopback_takes_no_time() -> None:
    assert LOOPBACK.seconds(1 << 30) == 0.0
