"""Who may bring a model: one at a time, and one that is back takes its own place."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.door import Door, Visit
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.protocol.frames import Attempt, Open, Request
from tests.support.peers import SMALL, WAIT
from tests.support.pumps import pump_of


class Caller:
    """A session that only notes what it is answered."""

    def __init__(self, peer: str = "me") -> None:
        self.peer, self.closed = peer, Event()
        self.errors: list[str] = []

    def reply(self, request: Request, *, error: str = "", **_: Any) -> None:
        self.errors.append(error)


def push(identity: str = "one", topic: str = "push") -> Request:
    metadata: Mapping[str, str] = {"identity": identity}
    return Request(1, topic, metadata=metadata)


@pytest.fixture
def door() -> Door:
    return Door("push")


def knock(door: Door, caller: Caller, request: Request) -> Visit | None:
    door.knock(caller, request)  # type: ignore[arg-type]
    return door.next(0)


def inside(door: Door, caller: Caller, *, is_attached: bool) -> ReceiveTransfer:
    """Let ``caller`` in; its model has been announced, and its call may be lost since."""
    visit = knock(door, caller, push())
    assert visit is not None
    incoming = visit.incoming = ReceiveTransfer(
        SMALL, stream_id=1, peer="me", name="m", clock=running_time
    )
    call = pump_of(incoming).attach(lambda: None)
    pump_of(incoming).incoming([Open(1, Attempt(), 9, b"", 0, 4096)], call)
    if not is_attached:
        pump_of(incoming).detach(call)
    return incoming


def test_the_first_sender_is_let_in_and_the_second_hears_of_it(door: Door) -> None:
    second = Caller("second")
    assert knock(door, Caller("first"), push()) is not None
    assert knock(door, second, push("two")) is None
    assert second.errors == ["it is busy with a model from first"]


def test_the_next_one_is_let_in_when_the_first_has_left(door: Door) -> None:
    first = knock(door, Caller("first"), push())
    assert first is not None
    door.leave(first)
    assert knock(door, Caller("second"), push()) is not None
    door.leave(first)  # of old: says nothing of the second
    assert knock(door, Caller("third"), push()) is None


def test_another_topic_is_refused(door: Door) -> None:
    caller = Caller()
    assert knock(door, caller, push(topic="pull")) is None
    assert caller.errors == ["this end takes one model; it knows no 'pull'"]


def test_a_sender_that_lost_its_call_is_let_in_again(door: Door) -> None:
    before = inside(door, Caller(), is_attached=False)
    assert knock(door, Caller("back"), push()) is not None
    assert isinstance(before.error, StreamAborted)
    assert before.error.reason == "back took its place"


@pytest.mark.parametrize(("is_attached", "identity"), [(True, "one"), (False, "two")])
def test_a_sender_that_may_live_is_not_pushed_aside(
    door: Door, is_attached: bool, identity: str
) -> None:
    before = inside(door, Caller(), is_attached=is_attached)
    assert knock(door, Caller("other"), push(identity)) is None
    assert before.error is None


def test_a_sender_whose_session_is_over_makes_way_for_anyone(door: Door) -> None:
    gone = Caller()
    assert knock(door, gone, push()) is not None
    gone.closed.set()
    assert knock(door, Caller("other"), push("two")) is not None


def test_of_those_that_come_and_go_before_anyone_looks_the_last_is_kept(door: Door) -> None:
    callers = [Caller(f"caller-{number}") for number in range(100)]
    for caller in callers:
        door.knock(caller, push())  # type: ignore[arg-type]
        caller.closed.set()
    visit = door.next(0)
    assert visit is not None
    assert visit.peer == "caller-99"
    assert door.next(0) is None


def test_a_closed_door_ends_the_wait_and_every_later_one() -> None:
    door = Door("push")
    door.close("no more")
    for _ in range(2):
        with pytest.raises(StreamAborted, match="no more"):
            door.next(WAIT)


def test_a_sender_is_told_that_a_person_ended_it(door: Door) -> None:
    inside(door, Caller(), is_attached=True)
    visit = door._inside
    assert visit is not None
    door.close("no more")
    with pytest.raises(StreamAborted) as refused:
        visit.check()
    for error in (visit.incoming and visit.incoming.error, refused.value):
        assert isinstance(error, StreamAborted)
        assert error.code is AbortCode.BY_OPERATOR
