"""What every machine does alike: outbox, events, ends, pauses."""

from __future__ import annotations

import pytest

from streamlink.errors import AbortCode, LocalProtocolError, RemoteProtocolError, StreamAborted
from streamlink.protocol.events import Failed
from streamlink.protocol.frames import Abort, Accept, Held
from streamlink.protocol.stream import StreamMachine
from tests.support.machines import (
    KiB,
    a_chunk,
    a_receiver,
    a_sender,
    events,
    streaming_receiver,
    streaming_sender,
    the,
)

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
        lambda m: m._expire("open", 0.0),
        lambda m: m._attach(None, 0.0),
        lambda m: m._detach(None, 0.0),
        lambda m: m._peer_holds(0.0),
        lambda m: m._cause(),
    ],
)
def test_the_base_decides_nothing_itself(call: object) -> None:
    with pytest.raises(NotImplementedError):
        call(_bare())  # type: ignore[operator]


def _bare() -> StreamMachine:
    return StreamMachine(a_sender().config, stream_id=1, peer="site-1", name="")
