"""Cuts, a slow line and flipped bits, in small and with fixed seeds: each claim holds."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

import streamlink
from benchmarks import cuts, flips, slow
from benchmarks.__main__ import PROGRAMS
from benchmarks.hits import IN_MESSAGES, Hit, Outcome, Place
from benchmarks.http2 import Frame, Span
from benchmarks.models import Layout
from benchmarks.passing import Left

FOUND: tuple[Outcome, ...] = ("repaired", "damaged", "not delivered")
KIB, MB = 1 << 10, 10**6
CUTS, FLIPS, SEED = 20, 60, 7
SMALL = streamlink.LinkConfig(
    stream=streamlink.StreamConfig(
        chunk_bytes=64 * KIB, window_bytes=512 * KIB, initial_window_bytes=256 * KIB
    )
)


def hit(place: Place, outcome: Outcome) -> Hit:
    span = Span(0, 1, "message", Frame(), None, 0)
    return Hit("up", place, span, 1, 0.0, 0, 0, 0, outcome)


def test_all_three_can_be_asked_for_by_name() -> None:
    assert {"cuts", "slow", "flips"} <= set(PROGRAMS)


@pytest.mark.parametrize(("carrier", "lanes"), [("grpc", 0), ("tcp", 0), ("tcp", 3)])
@pytest.mark.slow
def test_a_model_outlives_twenty_cuts_and_little_is_sent_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, carrier: str, lanes: int
) -> None:
    caplog.set_level(logging.WARNING, "streamlink")  # what it keeps of errors keeps their sockets
    layout = Layout(4, 4 * MB)
    at = cuts.places(layout.nbytes, CUTS, SEED)
    config = cuts.with_lanes(SMALL, lanes)
    passed, left, is_equal = cuts.cut(layout, at, tmp_path, config, carrier=carrier)
    # Two may fall on one call; and a busy machine may keep a stream on the session's carrier.
    assert passed.sent.stats.resumes >= CUTS // 2 or carrier != "grpc"
    assert cuts.faults_of(passed, left, is_equal, CUTS * SMALL.stream.window_bytes) == []


def test_what_a_cut_left_behind_is_a_fault(tmp_path: Path) -> None:
    passed, _, _ = cuts.cut(Layout(1, MB), [], tmp_path, SMALL)
    stats = replace(passed.sent.stats, resent_bytes=2)
    worse = replace(passed, sent=replace(passed.sent, stats=stats, digest="other"))
    assert len(cuts.faults_of(worse, Left(1, 1), False, 1)) == 5


def test_a_slow_line_carries_little_more_than_the_model() -> None:
    layout = Layout(2, 400_000)
    passed, wrong_bytes = slow.crawl(layout, 400 * KIB)
    assert passed.sent.stats.resumes == passed.sent.stats.repairs == wrong_bytes == 0
    assert slow.overhead(passed, layout) <= slow.MOST_OVERHEAD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("carrier", "count"),
    [("grpc", FLIPS), ("tcp", 30)],  # over TCP a header that was hit costs the connection
)
def test_each_of_many_flipped_bits_in_messages_is_found(carrier: str, count: int) -> None:
    # Short models, and more of them: messages are hit that come where a model begins or ends.
    found = flips.flip(count, Layout(4, MB // 2), SEED, carrier)
    assert flips.is_met(found, count)
    ours = found.table["all messages"]
    assert sum(ours.values()) == count
    assert found.repairs >= ours["repaired"] > 0
    assert found.table["other message"]["damaged"] > 0
    assert len(found.hits) > count


def test_a_bit_that_nobody_found_or_a_byte_that_got_through_fails_the_claim() -> None:
    good = flips.Found(
        tuple(hit(place, outcome) for place in IN_MESSAGES for outcome in FOUND), 1, 2, 0, 0
    )
    assert flips.is_met(good, 9)
    assert not flips.is_met(good, 10)
    assert not flips.is_met(replace(good, wrong_bytes=1), 9)
    assert not flips.is_met(replace(good, different_digests=1), 9)
    unnoticed = replace(good, hits=(*good.hits, hit("other message", "without effect")))
    assert not flips.is_met(unnoticed, 9)
    elsewhere = replace(good, hits=(*good.hits, hit("prefix", "without effect")))
    assert flips.is_met(elsewhere, 9)
    assert not flips.is_met(elsewhere, 10)
    assert elsewhere.table["prefix"]["without effect"] == 1
    assert elsewhere.as_json()["flips"] == 10
