"""Cuts, a slow line and flipped bits, in small and with fixed seeds: each claim holds."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

import streamlink
from benchmarks import cuts, flips, slow
from benchmarks.__main__ import PROGRAMS
from benchmarks.models import Layout
from benchmarks.passing import Left
from benchmarks.relay import Counts

KIB, MB = 1 << 10, 10**6
CUTS, FLIPS, SEED = 20, 100, 7
SMALL = streamlink.LinkConfig(
    stream=streamlink.StreamConfig(
        chunk_bytes=64 * KIB, window_bytes=512 * KIB, initial_window_bytes=256 * KIB
    )
)


def test_all_three_can_be_asked_for_by_name() -> None:
    assert {"cuts", "slow", "flips"} <= set(PROGRAMS)


def test_a_model_outlives_twenty_cuts_and_little_is_sent_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "streamlink")  # what it keeps of errors keeps their sockets
    layout = Layout(4, 4 * MB)
    at = cuts.places(layout.nbytes, CUTS, SEED)
    passed, left, is_equal = cuts.cut(layout, at, tmp_path, SMALL)
    assert passed.sent.stats.resumes >= CUTS // 2  # two may fall on one call
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


def test_a_hundred_flipped_bits_are_found_or_harmless() -> None:
    found = flips.flip(FLIPS, Layout(4, 4 * MB), SEED)
    assert flips.is_met(found, FLIPS)
    assert found.repaired > 0
    assert found.damaged > 0


def test_a_byte_that_got_through_fails_the_claim() -> None:
    good = flips.Found(10, 1, 4, 3, 2, 0, 0, 0)
    assert good.unnoticed == 1
    assert flips.is_met(good, 10)
    assert not flips.is_met(good, 11)
    assert not flips.is_met(replace(good, wrong_bytes=1), 10)
    assert not flips.is_met(replace(good, different_digests=1), 10)
    assert Counts(1, 2, 3, 4, 5, 6).flips == 0
