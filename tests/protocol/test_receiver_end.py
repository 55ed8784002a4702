"""How the receiving half ends: the finish, the commit, and a commit whose call is lost."""

from __future__ import annotations

import pytest

from streamlink.errors import AbortCode, LocalProtocolError, StreamAborted
from streamlink.protocol.events import Delivered, Finished
from streamlink.protocol.frames import Abort, Accept, Commit, Committing, Finish
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.states import State
from tests.support.machines import (
    OPEN,
    KiB,
    a_chunk,
    an_open,
    damaged,
    events,
    fed,
    reattached,
    streaming_receiver,
    the,
)


def whole(total_bytes: int = 4 * KiB, *, now: float = 0.0) -> ReceiveStream:
    """Return a receiver whose owner has every byte and is committing."""
    receiver = streaming_receiver(total_bytes=total_bytes)
    for number in range(total_bytes // (4 * KiB)):
        fed(receiver, a_chunk(number), now=now)
    receiver.receive(Finish(total_bytes, "digest"), now=now)
    if total_bytes:
        receiver.release(total_bytes, now=now)
    receiver.frames_to_send(now=now)
    assert receiver.state is State.COMMITTING
    return receiver


def test_a_model_is_whole_when_every_byte_was_taken() -> None:
    receiver = fed(streaming_receiver(total_bytes=4 * KiB), a_chunk(0))
    receiver.receive(Finish(4 * KiB, "digest", {"loss": 0.5}), now=0.0)
    assert receiver.state is State.FINISHING
    receiver.release(4 * KiB, now=0.0)
    assert events(receiver)[-1] == Finished("digest", {"loss": 0.5})


def test_a_model_without_a_byte_is_whole_at_its_finish() -> None:
    receiver = whole(0)
    assert the(Finished, events(receiver)).digest == "digest"


def test_a_commit_ends_the_stream_in_success() -> None:
    receiver = whole()
    receiver.committing(now=0.0)
    was_committed = receiver.is_committed
    receiver.commit("digest")
    assert (was_committed, receiver.is_committed) == (False, True)
    assert receiver.frames_to_send(now=0.0) == [Committing(1), Commit("digest")]
    assert (receiver.state, receiver.error) == (State.DONE, None)
    assert receiver.next_deadline() is None


def test_committing_before_the_model_is_whole_or_twice_is_our_own_fault() -> None:
    with pytest.raises(LocalProtocolError, match="read the transfer until is_complete first"):
        streaming_receiver().commit("digest")
    receiver = whole()
    receiver.commit("digest")
    with pytest.raises(LocalProtocolError, match="commit"):
        receiver.commit("digest")
    with pytest.raises(LocalProtocolError, match="committing"):
        receiver.committing(now=0.0)


def test_a_finish_of_another_size_ends_the_stream() -> None:
    receiver = fed(streaming_receiver(total_bytes=8 * KiB), a_chunk(0))
    receiver.receive(Finish(4 * KiB, "digest"), now=0.0)
    assert "finished" in str(receiver.error)


def test_a_finish_may_overtake_chunks_that_travel_on_another_channel() -> None:
    receiver = fed(streaming_receiver(total_bytes=8 * KiB), a_chunk(0))
    receiver.receive(Finish(8 * KiB, "digest"), now=0.0)
    fed(receiver, a_chunk(1))
    receiver.release(8 * KiB, now=0.0)
    assert receiver.state is State.COMMITTING


def test_a_finish_while_a_chunk_is_under_repair_is_waited_with() -> None:
    receiver = fed(streaming_receiver(total_bytes=8 * KiB), damaged(), a_chunk(1))
    receiver.receive(Finish(8 * KiB, "digest"), now=0.0)
    assert not receiver.is_closed
    fed(receiver, a_chunk(2, offset=0))
    receiver.release(8 * KiB, now=0.0)
    assert receiver.state is State.COMMITTING


def test_another_finish_ends_the_stream_and_the_same_once_more_does_not() -> None:
    receiver = whole()
    receiver.receive(Finish(4 * KiB, "digest"), now=0.0)
    assert receiver.error is None
    receiver.receive(Finish(4 * KiB, "another"), now=0.0)
    assert "a second finish" in str(receiver.error)


def test_a_failed_receiver_lets_go_of_what_nobody_took() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0))
    receiver.receive(Abort(AbortCode.CANCELLED, "enough"), now=0.0)
    assert isinstance(receiver.error, StreamAborted)
    assert not [event for event in events(receiver) if isinstance(event, Delivered)]


def test_a_commit_goes_on_over_a_new_call() -> None:
    receiver = whole()
    events(receiver)
    receiver.detach(now=1.0)
    receiver.committing(now=1.0)
    assert reattached(receiver, now=2.0, total_bytes=4 * KiB) == [Accept(4096, 20 * KiB, 4 * KiB)]
    receiver.receive(Finish(4 * KiB, "digest"), now=2.0)
    assert events(receiver) == []
    receiver.commit("digest")
    assert receiver.frames_to_send(now=2.0) == [Commit("digest")]


def test_a_commit_while_the_sender_is_on_its_way_back_is_said_after_its_open() -> None:
    receiver = whole()
    receiver.detach(now=1.0)
    receiver.attach(now=2.0)
    receiver.commit("digest")
    assert not receiver.is_closed
    receiver.receive(an_open(4 * KiB, is_resumed=True), now=2.0)
    assert [type(frame) for frame in receiver.frames_to_send(now=2.0)] == [Accept, Commit]
    assert receiver.state is State.DONE


def test_a_commit_without_a_call_is_said_on_the_next() -> None:
    receiver = whole()
    receiver.detach(now=1.0)
    receiver.commit("digest")
    assert receiver.state is State.DONE
    frames = reattached(receiver, now=2.0, total_bytes=4 * KiB)
    assert [type(frame) for frame in frames] == [Accept, Commit]


@pytest.mark.parametrize("ending", ["timer", "open", "abort", "cut"])
def test_nothing_that_happens_to_a_later_call_undoes_a_commit(ending: str) -> None:
    receiver = whole()
    receiver.commit("digest")
    receiver.detach(now=1.0)
    receiver.attach(now=2.0)
    match ending:
        case "timer":
            receiver.handle_timer(now=2.0 + OPEN)
        case "open":
            receiver.receive(an_open(1), now=2.0)
        case "abort":
            receiver.abort(AbortCode.SESSION_LOST, "gone")
        case _:
            receiver.detach(now=3.0)
    assert (receiver.state, receiver.error) == (State.DONE, None)
    # Only whoever comes with another model has to be told something.
    told = [type(frame) for frame in receiver.frames_to_send(now=4.0)]
    assert told == ([Abort] if ending == "open" else [])


def test_a_commit_that_was_lost_with_its_channel_is_said_on_another() -> None:
    receiver = streaming_receiver(total_bytes=0)
    receiver.attach(now=0.0, channel=1)
    receiver.receive(an_open(0), now=0.0, channel=1)
    receiver.frames_to_send(now=0.0, channel=1)
    receiver.receive(Finish(0, "digest"), now=0.0)
    receiver.commit("digest")
    assert Commit("digest") in receiver.frames_to_send(now=0.0)
    assert not receiver.has_frames(1)
    receiver.detach(now=0.0)
    assert receiver.frames_to_send(now=0.0, channel=1) == [Commit("digest")]
    receiver.detach(now=0.0, channel=1)
    assert receiver.state is State.DONE


def test_a_commit_that_has_not_left_yet_moves_to_another_channel_once() -> None:
    receiver = streaming_receiver(total_bytes=0)
    receiver.attach(now=0.0, channel=1)
    receiver.receive(an_open(0), now=0.0, channel=1)
    receiver.frames_to_send(now=0.0, channel=1)
    receiver.receive(Finish(0, "digest"), now=0.0)
    receiver.commit("digest")
    receiver.detach(now=0.0)
    sent = receiver.frames_to_send(now=0.0, channel=1)
    assert [frame for frame in sent if isinstance(frame, Commit)] == [Commit("digest")]
