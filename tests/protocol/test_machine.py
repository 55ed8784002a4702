"""What all machines share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamlink.errors import (
    AbortCode,
    Cancelled,
    LocalProtocolError,
    RemoteProtocolError,
    StreamAborted,
)
from streamlink.protocol.events import Failed, Finished
from streamlink.protocol.frames import Abort, Accept, Ack, Chunk, Commit, Finish, Frame, Held
from streamlink.protocol.machine import Machine
from streamlink.protocol.states import State
from streamlink.protocol.stream import StreamMachine
from tests.support.machines import (
    KiB,
    a_chunk,
    a_receiver,
    a_sender,
    events,
    finishing_sender,
    streaming_receiver,
    streaming_sender,
    the,
    write_all,
    zeros,
)
from tests.support.sessions import ready_server

both = pytest.mark.parametrize("machine_for", [streaming_sender, streaming_receiver])


@both
def test_an_abort_of_ours_tells_the_peer_and_our_owner(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.abort(AbortCode.CANCELLED, "nobody wants it")
    error = the(Failed, events(machine)).error
    assert isinstance(error, StreamAborted)
    assert not error.by_peer
    assert the(Abort, machine.frames_to_send(now=0.0)).code is AbortCode.CANCELLED
    assert (machine.is_closed, machine.next_deadline()) == (True, None)


@both
def test_an_abort_of_the_peers_is_not_answered(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.receive(Abort(AbortCode.STORE_FAILED, "disk full"), now=0.0)
    assert isinstance(machine.error, StreamAborted)
    assert (machine.error.by_peer, machine.error.who) == (True, "site-1")
    assert not machine.has_frames()


@both
def test_a_second_abort_changes_nothing(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.abort(AbortCode.CANCELLED, "first")
    machine.abort(AbortCode.REFUSED, "second")
    machine.hold("late", "nobody", now=0.0)
    assert [type(frame) for frame in machine.frames_to_send(now=0.0)] == [Abort]


@both
def test_an_abort_without_a_call_is_said_on_the_next(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.detach(now=1.0)
    machine.abort(AbortCode.CANCELLED, "nobody wants it")
    assert not machine.has_frames()
    machine.attach(now=2.0)
    assert "nobody wants it" in the(Abort, machine.frames_to_send(now=2.0)).reason


@both
def test_what_the_peer_ended_is_not_told_to_it_again(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.receive(Abort(AbortCode.CANCELLED, "enough"), now=0.0)
    machine.detach(now=1.0)
    machine.attach(now=2.0)
    assert not machine.has_frames()


@both
def test_a_hold_without_a_call_is_not_sent_later(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.detach(now=1.0)
    machine.hold("lockstep", "site-2", now=1.0)
    assert not machine.has_frames()


@both
def test_an_old_held_counter_is_no_news(machine_for: type[StreamMachine]) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.receive(Held(2, "lockstep", "site-2"), now=0.0)
    assert len(events(machine)) == 1
    machine.receive(Held(1, "lockstep", "site-2"), now=0.0)
    assert not machine.has_events


def test_a_call_that_was_given_up_leaves_nothing_in_the_outbox() -> None:
    sender = streaming_sender()
    sender.hold("source waits", "site-2", now=0.0)
    sender.detach(now=1.0)
    assert not sender.has_frames()


def test_only_the_first_of_two_expired_clocks_is_named() -> None:
    receiver = streaming_receiver()
    receiver.receive(a_chunk(0), now=0.0)
    receiver.handle_timer(now=1e6)
    assert len([event for event in events(receiver) if isinstance(event, Failed)]) == 1


def test_a_stream_is_named_by_its_number_unless_it_has_a_name() -> None:
    assert a_sender().name == "stream 1"


def test_the_two_sides_of_one_fault_have_two_errors() -> None:
    sender = a_sender()
    with pytest.raises(LocalProtocolError, match="stream 1"):
        sender.finish("digest", now=0.0)
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(Accept(0, 0, 4 * KiB), now=0.0)
    assert isinstance(receiver.error, RemoteProtocolError)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m._dispatch(Held(1, "", ""), 0.0),
        lambda m: m._timer_expired("open", 0.0),
        lambda m: m._attach(None, 0.0),
        lambda m: m._detach(None, 0.0),
        lambda m: m._on_peer_hold(0.0),
        lambda m: m._cause(),
    ],
)
def test_the_base_decides_nothing_itself(call: object) -> None:
    with pytest.raises(NotImplementedError):
        call(_bare())  # type: ignore[operator]


def _bare() -> StreamMachine:
    return StreamMachine(a_sender().config, stream_id=1, peer_name="site-1", name="")


class Noted:
    """Notes where each machine stands when something is taken or sent."""

    def __init__(self) -> None:
        self.points: list[tuple[str, object, object]] = []

    def frame_received(self, machine: Any, frame: Frame) -> None:
        self.points.append(("received", type(frame), machine.state))

    def before_send(self, machine: Any) -> None:
        self.points.append(("sends", None, machine.state))

    def before_event(self, machine: Any) -> None:
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
    assert noted.points == [("sends", None, State.OPENING), ("received", Accept, State.STREAMING)]


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
    assert noted.points == [("received", Finish, State.COMMITTING)]
    assert isinstance(receiver.next_event(), Finished)
    assert noted.points[1:] == [("tells", None, State.COMMITTING)]
    assert receiver.next_event() is None
    assert len(noted.points) == 2


def test_a_frame_that_ends_its_machine_is_heard_in_the_end_state(noted: Noted) -> None:
    sender = streaming_sender()
    noted.points.clear()
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=0.0)
    assert noted.points == [("received", Accept, State.ABORTED)]


def test_progress_forgives_calls_that_were_damaged() -> None:
    sender = streaming_sender()
    write_all(sender)
    most = sender.config.stream.max_repairs
    for _ in range(3):
        for _ in range(most):
            sender.report_damage(now=0.0)
            sender.attach(now=0.0)
            sender.receive(Accept(sender.received, 16 * KiB, 4 * KiB), now=0.0)
            sender.frames_to_send(now=0.0)
        sender.receive(Ack(sender.received, 0, 0, 16 * KiB), now=0.0)  # not from the handshake
    assert (sender.error, sender.damaged) == (None, 3 * most)


def test_a_session_has_one_call_and_a_timer_for_its_loss(noted: Noted) -> None:
    session = ready_server()
    assert session.carries(0)
    assert (session.is_lost(now=1e9), session.is_waiting(now=1e9)) == (False, False)
    assert ("sends", None, session.state) in noted.points
    session.detach(now=0.0)
    assert not session.carries(0)


@pytest.mark.parametrize(("is_success", "seconds"), [(True, 30.0), (False, 1.0)])
def test_the_last_frames_of_a_success_have_more_time_to_leave(
    is_success: bool, seconds: float
) -> None:
    sender = finishing_sender()
    assert not sender.is_overdue(now=0.0)
    if is_success:
        sender.receive(Commit("digest"), now=0.0)
    else:
        sender.abort(AbortCode.CANCELLED, "enough")
    assert not sender.is_overdue(now=5.0)  # from the first time that somebody asks
    assert not sender.is_overdue(now=5.0 + seconds)
    assert sender.is_overdue(now=5.5 + seconds)


@pytest.mark.parametrize("verb", ["attach", "detach"])
def test_a_machine_without_calls_of_its_own_leaves_them_to_its_kind(verb: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(Machine(a_sender().config, peer_name="site-1", name="bare"), verb)(now=0.0)


@both
def test_a_cancelled_token_ends_a_machine_once_and_the_peer_gets_the_reason(
    machine_for: type[StreamMachine],
) -> None:
    machine = machine_for()  # type: ignore[call-arg]
    machine.end_cancelled("the user has had enough")
    machine.end_cancelled("late")
    assert isinstance(machine.error, Cancelled)
    abort = the(Abort, machine.frames_to_send(now=0.0))
    assert (abort.code, "had enough" in abort.reason) == (AbortCode.CANCELLED, True)
