"""A long line for real: namespaces, packets, a tiny transfer, and nothing that stays behind."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from benchmarks.longline import capacity, model, raw
from benchmarks.longline.bottleneck import Line
from benchmarks.longline.meter import Span
from benchmarks.longline.namespace import why_not
from benchmarks.longline.rates import rates_by_second, steady_rate
from benchmarks.longline.roads import EmulatedRoad, RelayedRoad, Road, congestion_controls

pytestmark = pytest.mark.processes

LINE = Line(rate=20e6, round_trip=0.02)
SPAN = Span(0.1, 0.3)
HANG_SECONDS = 60

STARTER = """
import time
from benchmarks.longline.bottleneck import Line
from benchmarks.longline.roads import EmulatedRoad
from benchmarks.processes import Worker
with EmulatedRoad(Line(rate=1e6, round_trip=0.01)) as road:
    with road.far():
        far = Worker("benchmarks.longline.echo:answer", {"host": road.host}, name="far")
    with far:
        far.expect("listening")
        print("standing", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def can_emulate() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.mark.usefixtures("can_emulate")
def test_all_that_raw_sockets_receive_was_carried_in_packets_of_the_line() -> None:
    uses = [raw.Raw(1), *(raw.Raw(2, name) for name in congestion_controls()[:1])]
    for use in uses:
        seen = raw.measure(use, EmulatedRoad(LINE), SPAN)
        assert steady_rate(seen.marks, SPAN) > 0
        assert rates_by_second(seen.marks, SPAN).count == 10
        assert seen.road["up"]["packets"] > seen.road["down"]["packets"] > 0
        assert seen.road["up"]["nbytes"] > seen.marks[-1][1]
        assert seen.road["up"]["most_queued_bytes"] <= LINE.queue_bytes


@pytest.mark.usefixtures("can_emulate")
def test_a_message_takes_at_least_the_round_trip() -> None:
    assert min(capacity.round_trips(LINE)) >= LINE.round_trip


@pytest.mark.parametrize("kind", [EmulatedRoad, RelayedRoad])
def test_streamlink_carries_a_model_over_either_road(kind: type[Road]) -> None:
    if kind is EmulatedRoad and (reason := why_not()):
        pytest.skip(reason)
    road = EmulatedRoad(LINE) if kind is EmulatedRoad else RelayedRoad(LINE)
    seen = model.measure(LINE, road, SPAN)
    assert steady_rate(seen.marks, SPAN) > 0


def test_a_relay_is_a_line_for_raw_sockets_too() -> None:
    seen = raw.measure(raw.Raw(1), RelayedRoad(LINE), SPAN)
    assert steady_rate(seen.marks, SPAN) > 0


@pytest.mark.usefixtures("can_emulate")
def test_a_line_whose_starter_is_killed_leaves_no_process_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "standing\n"
        workers = psutil.Process(starter.pid).children()
        assert len(workers) == 2
        starter.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(workers, timeout=HANG_SECONDS)
    assert not alive
