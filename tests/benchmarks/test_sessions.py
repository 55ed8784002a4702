"""Many sessions at one server: all are admitted, models come back, and the claim is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.sessions import Crowd, Held, Snapshot, is_met, measure, run

MIB = 1 << 20
THOUSAND = Crowd()
BASE = Snapshot(threads=2, rss_bytes=100 * MIB, descriptors=5)
IDLE = Snapshot(threads=20, rss_bytes=280 * MIB, descriptors=1020)
MOVING = Snapshot(threads=64, rss_bytes=700 * MIB, descriptors=1040)
HELD = Held(1000, 60.0, BASE, IDLE, MOVING, {}, 500 * MIB, {"idle": 0.1, "moving": 0.2}, 1.0)


@pytest.mark.processes
def test_twenty_sessions_are_held_and_a_quick_run_judges_nothing() -> None:
    found = run(quick=True)
    held = found.facts["held"]
    assert found.met is None
    assert held["admitted"] == 20
    assert held["base"]["threads"] < held["idle"]["threads"]
    # A connection each, and no more: nothing else has moved yet.
    assert held["base"]["descriptors"] + 20 <= held["idle"]["descriptors"]


@pytest.mark.processes
def test_clients_with_certificates_of_their_own_are_admitted_by_name() -> None:
    crowd = Crowd(1, 2, 1, MIB, 1, has_tls=True, idle_seconds=0.5)
    assert measure(crowd).admitted == 2


@pytest.mark.parametrize(
    "held",
    [
        replace(HELD, admitted=999),
        replace(HELD, moving=replace(MOVING, threads=65)),
        replace(HELD, idle=replace(IDLE, rss_bytes=300 * MIB)),
        replace(HELD, moving=replace(MOVING, rss_bytes=800 * MIB)),
    ],
    ids=["one is missing", "a thread too many", "too much when idle", "too much beside models"],
)
def test_the_claim_is_not_met_where_one_of_its_figures_is_not(held: Held) -> None:
    assert is_met(THOUSAND, HELD)
    assert not is_met(THOUSAND, held)
