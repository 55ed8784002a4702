"""Who may bring a model: one at a time, and one that is back takes its own place."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.receive_slot import Claim, ReceiveSlot
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.protocol.frames import Attempt, Open, Request
from tests.support.peers import SMALL, WAIT
from tests.support.pumps import pump_of


class Caller:
    """A session that only notes what it is answered."""

    def __init__(self, peer: str = "me") -> None:
        self.peer_name, self.closed = peer, Event()
        self.errors: list[str] = []

    def reply(self, request: Request, *, error: str = "", **_: Any) -> None:
        self.errors.append(error)


def push(identity: str = "one", topic: str = "push") -> Request:
    metadata: Mapping[str, str] = {"identity": identity}
    return Request(1, topic, metadata=metadata)


@pytest.fixture
def slot() -> ReceiveSlot:
    return ReceiveSlot("push")


def claim(slot: ReceiveSlot, caller: Caller, request: Request) -> Claim | None:
    slot.claim(caller, request)  # type: ignore[arg-type]
    return slot.next(0)


def inside(slot: ReceiveSlot, caller: Caller, *, is_attached: bool) -> ReceiveTransfer:
    """Let ``caller`` in; its model has been announced, and its call may be lost since."""
    claimed = claim(slot, caller, push())
    assert claimed is not None
    return announced(claimed, is_attached=is_attached)


def announced(claimed: Claim, *, is_attached: bool) -> ReceiveTransfer:
    incoming = claimed.transfer = ReceiveTransfer(
        SMALL, stream_id=1, peer_name="me", name="m", clock=running_time
    )
    call = pump_of(incoming).attach(lambda: None)
    pump_of(incoming).incoming([Open(1, Attempt(), 9, b"", 0, 4096)], call)
    if not is_attached:
        pump_of(incoming).detach(call)
    return incoming


def test_the_first_sender_is_let_in_and_the_second_hears_of_it(slot: ReceiveSlot) -> None:
    second = Caller("second")
    assert claim(slot, Caller("first"), push()) is not None
    assert claim(slot, second, push("two")) is None
    assert second.errors == ["it is busy with a model from first"]


def test_the_next_one_is_let_in_when_the_first_has_left(slot: ReceiveSlot) -> None:
    first = claim(slot, Caller("first"), push())
    assert first is not None
    slot.release(first)
    assert claim(slot, Caller("second"), push()) is not None
    slot.release(first)  # of old: says nothing of the second
    assert claim(slot, Caller("third"), push()) is None


def test_another_topic_is_refused(slot: ReceiveSlot) -> None:
    caller = Caller()
    assert claim(slot, caller, push(topic="pull")) is None
    assert caller.errors == ["this receiver takes one model and does not answer 'pull'"]


def test_a_sender_that_lost_its_call_is_let_in_again(slot: ReceiveSlot) -> None:
    before = inside(slot, Caller(), is_attached=False)
    assert claim(slot, Caller("back"), push()) is not None
    assert isinstance(before.error, StreamAborted)
    assert before.error.reason == "back took its place"


@pytest.mark.parametrize(("is_attached", "identity"), [(True, "one"), (False, "two")])
def test_a_sender_that_may_live_is_not_pushed_aside(
    slot: ReceiveSlot, is_attached: bool, identity: str
) -> None:
    before = inside(slot, Caller(), is_attached=is_attached)
    assert claim(slot, Caller("other"), push(identity)) is None
    assert before.error is None


def test_a_sender_whose_session_is_over_makes_way_for_anyone(slot: ReceiveSlot) -> None:
    gone = Caller()
    assert claim(slot, gone, push()) is not None
    gone.closed.set()
    assert claim(slot, Caller("other"), push("two")) is not None


def test_of_those_that_come_and_go_before_anyone_looks_the_last_is_kept(slot: ReceiveSlot) -> None:
    callers = [Caller(f"caller-{number}") for number in range(100)]
    for caller in callers:
        slot.claim(caller, push())  # type: ignore[arg-type]
        caller.closed.set()
    claimed = slot.next(0)
    assert claimed is not None
    assert claimed.peer_name == "caller-99"
    assert slot.next(0) is None


def test_a_closed_slot_ends_the_wait_and_every_later_one() -> None:
    slot = ReceiveSlot("push")
    slot.close("no more")
    for _ in range(2):
        with pytest.raises(StreamAborted, match="no more"):
            slot.next(WAIT)


def test_a_sender_is_told_that_a_person_ended_it(slot: ReceiveSlot) -> None:
    claimed = claim(slot, Caller(), push())
    assert claimed is not None
    incoming = announced(claimed, is_attached=True)
    slot.close("no more")
    with pytest.raises(StreamAborted) as refused:
        claimed.check()
    for error in (incoming.error, refused.value):
        assert isinstance(error, StreamAborted)
        assert error.code is AbortCode.BY_OPERATOR
