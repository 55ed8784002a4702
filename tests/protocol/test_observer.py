"""The hook on the machines: it hears a frame once the machine has moved, and before one leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamlink.protocol.events import Finished
from streamlink.protocol.frames import Accept, Chunk, Finish, Frame
from streamlink.protocol.machine import Machine
from streamlink.protocol.stream_state import State
from tests.support.machines import KiB, a_sender, streaming_receiver, streaming_sender, zeros


class Noted:
    """Notes where each machine stands when something is taken or sent."""

    def __init__(self) -> None:
        self.points: list[tuple[str, object, State]] = []

    def taken(self, machine: Any, frame: Frame) -> None:
        self.points.append(("taken", type(frame), machine.state))

    def sends(self, machine: Any) -> None:
        self.points.append(("sends", None, machine.state))

    def tells(self, machine: Any) -> None:
        self.points.append(("tells", None, machine.state))


@pytest.fixture
def noted() -> Iterator[Noted]:
    Machine.observer = observer = Noted()
    yield observer
    Machine.observer = None


def test_a_frame_is_heard_in_the_state_that_it_has_led_to(noted: Noted) -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    sender.frames_to_send(now=0.0)
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=0.0)
    assert noted.points == [("sends", None, State.OPENING), ("taken", Accept, State.STREAMING)]


def test_what_is_about_to_leave_is_heard_before_it_does(noted: Noted) -> None:
    sender = streaming_sender()
    noted.points.clear()
    sender.write(zeros(4 * KiB), now=0.0)
    assert noted.points == []
    assert [type(frame) for frame in sender.frames_to_send(now=0.0)] == [Chunk]
    assert noted.points == [("sends", None, State.STREAMING)]


def test_an_event_is_heard_of_before_its_owner_has_it(noted: Noted) -> None:
    receiver = streaming_receiver(total_bytes=0)
    noted.points.clear()
    receiver.receive(Finish(0, "digest"), now=0.0)
    assert noted.points == [("taken", Finish, State.COMMITTING)]
    assert isinstance(receiver.next_event(), Finished)
    assert noted.points[1:] == [("tells", None, State.COMMITTING)]
    assert receiver.next_event() is None
    assert len(noted.points) == 2


def test_a_frame_that_ends_its_machine_is_heard_in_the_end_state(noted: Noted) -> None:
    sender = streaming_sender()
    noted.points.clear()
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=0.0)
    assert noted.points == [("taken", Accept, State.ABORTED)]
