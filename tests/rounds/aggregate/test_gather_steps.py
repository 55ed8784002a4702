"""The steps of the gathering, what is told of them, and who reads the new model meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamlink.protocol import frames as f
from streamlink.rounds.aggregate.combiner import Step
from streamlink.rounds.aggregate.gather import TrainTimeout
from tests.support.gathering import Gathering, updates
from tests.support.joined_pumps import Watch
from tests.support.peers import ODD, WAIT, assert_same, initial, mean_of

# --- hooks ----------------------------------------------------------------------------------


def test_the_steps_are_told_in_order(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2)))
    told: list[tuple[Step, int, bool]] = []

    def note(step: Step) -> None:
        has_new = gathering.has_new_model
        told.append((step, gather.position, has_new))

    gathering.send(0)
    gathering.send(1)
    gather = gathering.gather(on_step=note)
    gather.run()
    assert told == [
        (Step.AGGREGATING, 0, False),
        (Step.AGGREGATED, ODD.nbytes, False),
        (Step.PERSISTED, ODD.nbytes, True),
    ]
    assert gathering.transfers[0].incoming.is_complete


def seen_in(frames: list[f.Frame]) -> Watch:
    def watch(frame: f.Frame) -> bool:
        frames.append(frame)
        return True

    return watch


# Once it is persisted the clients are told, whatever a hook thinks of it: their updates count.
@pytest.mark.parametrize("at", [Step.AGGREGATING, Step.AGGREGATED])
def test_what_a_hook_raises_fails_the_round_and_nobody_is_told(
    at: Step, opened: list[Gathering]
) -> None:
    opened.append(gathering := Gathering(updates(1)))
    frames: list[f.Frame] = []
    gathering.transfers[0].carrier.watch = seen_in(frames)

    def fail(step: Step) -> None:
        if step is at:
            raise OSError(f"at {step.value}")

    gathering.send(0)
    with pytest.raises(OSError, match=f"at {at.value}"):
        gathering.gather(on_step=fail).run()
    assert not [frame for frame in frames if isinstance(frame, f.Commit)]


# --- where the new model goes on to ---------------------------------------------------------


class Narrow:
    """An downstream that has no room until it is opened; then it has for all."""

    def __init__(self) -> None:
        self.asked, self.opens = list[int](), threading.Event()
        self.is_announced = False

    def announced(self) -> None:
        assert not self.asked
        self.is_announced = True

    def wait_room(self, nbytes: int, seconds: float) -> str:
        self.asked.append(nbytes)
        return "" if self.opens.wait(seconds) else "site-9"


def test_no_piece_is_computed_before_there_is_room_for_it(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2)))
    downstream, held, told = Narrow(), set[tuple[str, str]](), threading.Event()

    def watch(frame: f.Frame) -> bool:
        if isinstance(frame, f.Held):
            held.add((frame.reason, frame.waiting_for))
            if ("lockstep", "site-9") in held:
                told.set()
        return True

    gathering.transfers[1].carrier.watch = watch
    gathering.send(0)
    gathering.send(1)
    gather = gathering.gather(downstream=downstream)
    with ThreadPoolExecutor(1) as pool:
        gathered = pool.submit(gather.run)
        assert told.wait(WAIT)
        assert gather.position == 0
        downstream.opens.set()
        gathered.result(WAIT)
    assert_same(gathering.store.arrays, mean_of(initial(), dict.fromkeys(range(2), 1.0)))
    assert max(downstream.asked) <= ODD.nbytes


def test_an_downstream_hears_that_all_is_announced_before_it_is_asked_for_room(
    opened: list[Gathering],
) -> None:
    opened.append(gathering := Gathering(updates(2)))
    downstream = Narrow()
    downstream.opens.set()
    gathering.send(0)
    gathering.send(1)
    gathering.gather(downstream=downstream).run()
    assert downstream.is_announced
    assert downstream.asked


def test_the_deadline_counts_while_there_is_no_room(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1), deadline=0.3))
    gathering.send(0)
    with pytest.raises(TrainTimeout, match="while waiting for site-9") as late:
        gathering.gather(downstream=Narrow()).run()
    assert late.value.peer_name == "site-9"
