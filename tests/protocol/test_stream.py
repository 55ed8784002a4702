"""Streams over several channels."""

from __future__ import annotations

from streamlink.errors import AbortCode
from streamlink.protocol.flow_control import NEW_LANE_CHUNKS
from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Chunk,
    Commit,
    Finish,
    Frame,
    Open,
    Repair,
)
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.sender_acks import LAG_SECONDS
from streamlink.protocol.states import State
from tests.support.machines import (
    SMALL,
    KiB,
    a_chunk,
    a_sender,
    acked,
    an_open,
    small_config,
    streaming_receiver,
    streaming_sender,
    the,
    write_all,
    zeros,
)


def written(sender: SendStream) -> None:
    """Write all that there is room for; nothing leaves."""
    while room := sender.writable_bytes:
        sender.write(zeros(room), now=0.0)


def two_lanes() -> SendStream:
    """Return a sender whose peer has accepted it on channels 0 and 1, with credit for 16 KiB."""
    sender = streaming_sender()
    sender.attach(now=0.0, channel=1)
    assert isinstance(sender.frames_to_send(now=0.0, channel=1)[0], Open)
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=0.0, channel=1)
    written(sender)
    return sender


def offsets(frames: list[Frame]) -> list[int]:
    return [frame.offset for frame in frames if isinstance(frame, Chunk)]


def proven(sender: SendStream, channel: int) -> None:
    """Have a new lane bring as many chunks as make it one of the others."""
    for _ in range(NEW_LANE_CHUNKS):
        written(sender)
        assert len(offsets(sender.frames_to_send(now=0.0, channel=channel))) == 1
        while sender.has_frames():
            sender.frames_to_send(now=0.0)
        sender.receive(Ack(sender.position, 0, 0, 1 << 20), now=0.0)


def test_each_channel_takes_the_next_chunk_when_it_has_room() -> None:
    sender = streaming_sender(total_bytes=1 << 20, limit=1 << 20)
    sender.attach(now=0.0, channel=1)
    sender.receive(Accept(0, 1 << 20, 4 * KiB), now=0.0, channel=1)
    proven(sender, 1)
    written(sender)
    at = sender.received
    taken = [offsets(sender.frames_to_send(now=0.0, channel=each)) for each in (1, 0, 1, 1)]
    assert taken == [[at + 4 * KiB * number] for number in range(4)]


def test_a_new_lane_takes_one_chunk_and_more_with_each_that_arrives() -> None:
    sender = two_lanes()
    taken = [offsets(sender.frames_to_send(now=0.0, channel=each)) for each in (1, 1, 0)]
    assert taken == [[0], [], [4 * KiB]]
    assert not sender.has_frames(1)
    sender.receive(Ack(4 * KiB, 0, 0, 32 * KiB), now=0.0, channel=0)
    written(sender)
    taken = [offsets(sender.frames_to_send(now=0.0, channel=1)) for _ in range(3)]
    assert taken == [[8 * KiB], [12 * KiB], []]


def test_new_lanes_that_are_left_alone_take_whatever_there_is() -> None:
    sender = two_lanes()
    sender.detach(now=0.0, channel=0)
    taken = [offsets(sender.frames_to_send(now=0.0, channel=1)) for _ in range(2)]
    assert taken == [[0, 4 * KiB, 8 * KiB, 12 * KiB], []]


def test_a_new_lane_takes_large_chunks_that_a_lost_one_carried() -> None:
    small_first = small_config(min_chunk_bytes=1 * KiB)
    sender = streaming_sender(small_first, total_bytes=1 << 20, limit=1 << 20)
    assert grown(sender) == 4 * KiB
    written(sender)
    sender.frames_to_send(now=0.0)
    for channel in (1, 2):
        sender.attach(now=0.0, channel=channel)
        sender.frames_to_send(now=0.0, channel=channel)
        sender.receive(Accept(sender.received, 1 << 20, 4 * KiB), now=0.0, channel=channel)
    assert not sender.has_frames(1), "nothing waits to leave"
    assert sender.chunk_bytes == 1 * KiB
    sender.detach(now=0.0, channel=0)
    assert sender.has_frames(1)
    sender.receive(Ack(sender.received, 0, 0, 1 << 20), now=0.0, channel=1)
    assert sender.chunk_bytes == 2 * KiB, "lanes that are all new take any chunk"


def grown(sender: SendStream) -> int:
    """Return the size of chunks after some acks that took no time."""
    for _ in range(8):
        write_all(sender)
        while sender.has_frames():  # one at a time, where there are several channels
            sender.frames_to_send(now=0.0)
        sender.receive(Ack(sender.position, 0, 0, 1 << 20), now=0.0)
    return sender.chunk_bytes


def test_chunks_are_smaller_while_several_channels_share_the_window() -> None:
    config = small_config(min_chunk_bytes=1 * KiB, initial_window_bytes=4 * KiB)
    sender = streaming_sender(config, total_bytes=1 << 20, limit=1 << 20)
    assert grown(sender) == 4 * KiB
    sender.attach(now=0.0, channel=1)
    sender.receive(Accept(sender.received, 1 << 20, 4 * KiB), now=0.0, channel=1)
    assert grown(sender) == 1 * KiB, "what a new lane takes"
    proven(sender, 1)
    assert grown(sender) == 2 * KiB
    sender.detach(now=0.0, channel=1)
    assert grown(sender) == 4 * KiB


def test_a_lost_channel_costs_its_own_chunks_and_no_resume() -> None:
    sender = two_lanes()
    for channel in (0, 1, 0):
        sender.frames_to_send(now=0.0, channel=channel)
    sender.detach(now=0.0, channel=0)
    assert (sender.state, sender.resumes) == (State.STREAMING, 0)
    again = sender.frames_to_send(now=0.0, channel=1)
    assert offsets(again) == [0, 8 * KiB, 12 * KiB]  # all that wait, to the only one that is left


def test_what_an_ack_lists_behind_a_gap_is_not_sent_again() -> None:
    sender = two_lanes()
    for channel in (0, 1, 0):
        sender.frames_to_send(now=0.0, channel=channel)
    sender.receive(Ack(0, 0, 0, 16 * KiB, ((8 * KiB, 12 * KiB),)), now=0.0)
    sender.detach(now=0.0, channel=0)
    assert offsets(sender.frames_to_send(now=0.0, channel=1)) == [0, 12 * KiB]


def test_an_accept_that_an_ack_has_overtaken_takes_nothing_back() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.attach(now=0.0, channel=1)
    sender.receive(Ack(8 * KiB, 4 * KiB, 0, 20 * KiB), now=0.0)
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=0.0, channel=1)
    assert (sender.received, sender.consumed, sender.limit) == (8 * KiB, 4 * KiB, 20 * KiB)
    assert sender.error is None


def test_ranges_out_of_order_or_never_sent_end_the_stream() -> None:
    for ranges in [((8, 4),), ((4, 8), (8, 12)), ((4 * KiB, 1 << 40),), ((0, 4 * KiB),)]:
        sender = streaming_sender()
        write_all(sender)
        sender.receive(Ack(0, 0, 0, 16 * KiB, ranges), now=0.0)
        assert "ranges behind byte 0" in str(sender.error)


def test_a_receiver_that_has_lost_the_base_is_sent_all_behind_it_again_over_one_channel() -> None:
    sender = SendStream(SMALL, stream_id=1, total_bytes=64 * KiB, bases=("a",))
    for channel in (0, 1):
        sender.attach(now=0.0, channel=channel)
        sender.receive(Accept(0, 16 * KiB, 4 * KiB, base="a"), now=0.0, channel=channel)
    assert sender.base == "a"
    write_all(sender)
    sender.frames_to_send(now=0.0, channel=1)
    acked(sender, 8 * KiB, consumed=4 * KiB, now=0.0)
    sender.detach(now=1.0)
    sender.attach(now=1.0, channel=2)
    # Its other end has closed channel 1, too, of which nobody has heard here.
    sender.receive(Accept(4 * KiB, 20 * KiB, 4 * KiB), now=1.0, channel=2)
    assert sender.error is None
    assert (sender.base, sender.position, sender.received) == ("", 4 * KiB, 4 * KiB)
    assert not sender.carries(1)
    sender.frames_to_send(now=1.0, channel=2)
    write_all(sender, now=1.0)
    assert sender.position == 20 * KiB
    acked(sender, 20 * KiB, now=1.0)  # on channel 0, which is closed
    assert sender.received == 4 * KiB


def test_the_receiver_accepts_one_channel_more_with_what_it_has() -> None:
    receiver = streaming_receiver()
    receiver.receive(a_chunk(0, offset=4 * KiB), now=0.0)
    receiver.attach(now=0.0, channel=1)
    receiver.receive(an_open(), now=0.0, channel=1)
    accept = the(Accept, receiver.frames_to_send(now=0.0, channel=1))
    assert (accept.received, accept.ranges) == (0, ((4 * KiB, 8 * KiB),))
    receiver.receive(a_chunk(0), now=0.0, channel=1)
    assert receiver.received == 8 * KiB


def receiver_with_two_lanes() -> ReceiveStream:
    """Return a receiver with channels 0 and 1, of which 1 has brought its first chunk."""
    receiver = streaming_receiver()
    receiver.attach(now=0.0, channel=1)
    receiver.receive(an_open(), now=0.0, channel=1)
    receiver.frames_to_send(now=0.0, channel=1)
    receiver.receive(a_chunk(0), now=0.0, channel=1)
    receiver.release(4 * KiB, now=0.0)
    return receiver


def bring_the_rest(receiver: ReceiveStream) -> None:
    """Let channel 1 bring all chunks but the first."""
    for number in range(1, 16):
        receiver.receive(a_chunk(number), now=0.0, channel=1)
        receiver.release(4 * KiB, now=0.0)
        receiver.frames_to_send(now=0.0, channel=1)


def test_acks_leave_over_the_channel_that_brings_something() -> None:
    receiver = receiver_with_two_lanes()
    assert not receiver.has_frames(0)  # it may be dead without either end knowing
    assert the(Ack, receiver.frames_to_send(now=0.0, channel=1)).received == 4 * KiB


def test_control_frames_move_to_another_channel_when_theirs_is_lost() -> None:
    receiver = receiver_with_two_lanes()
    receiver.detach(now=0.0, channel=1)
    assert the(Ack, receiver.frames_to_send(now=0.0, channel=0)).received == 4 * KiB


def test_acks_that_overtake_each_other_take_nothing_back() -> None:
    sender = two_lanes()
    for channel in (0, 1):
        sender.frames_to_send(now=0.0, channel=channel)
    sender.receive(Ack(8 * KiB, 8 * KiB, 0, 24 * KiB), now=0.0, channel=1)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.0, channel=0)
    assert (sender.received, sender.consumed, sender.limit) == (8 * KiB, 8 * KiB, 24 * KiB)
    assert sender.error is None


def test_what_a_channel_brings_after_the_sender_gave_it_up_changes_nothing() -> None:
    receiver = receiver_with_two_lanes()
    bring_the_rest(receiver)
    finish = Finish(64 * KiB, "digest")
    receiver.receive(a_chunk(0, sequence=0), now=0.0, channel=0)
    receiver.receive(finish, now=0.0, channel=1)
    receiver.receive(finish, now=0.0, channel=0)
    receiver.receive(a_chunk(1, sequence=1), now=0.0, channel=0)
    assert (receiver.state, receiver.error) == (State.COMMITTING, None)


def test_a_finish_that_comes_again_while_a_chunk_is_missing_changes_nothing() -> None:
    receiver = receiver_with_two_lanes()
    finish = Finish(64 * KiB, "digest")
    receiver.receive(finish, now=0.0, channel=1)
    receiver.receive(finish, now=0.0, channel=0)
    assert (receiver.state, receiver.error) == (State.FINISHING, None)


def test_a_description_comes_over_one_channel_and_the_others_join_after_it() -> None:
    receiver = streaming_receiver(spec_pages=1)
    receiver.attach(now=0.0, channel=1)
    receiver.receive(an_open(spec_pages=1), now=0.0, channel=1)
    assert not receiver.has_frames(1)
    receiver.detach(now=0.0, channel=0)  # before its page came
    assert the(Accept, receiver.frames_to_send(now=0.0, channel=1)).wants_spec


def test_a_finish_that_was_lost_with_its_channel_is_said_on_another() -> None:
    sender = streaming_sender(total_bytes=4 * KiB)
    sender.attach(now=0.0, channel=1)
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=0.0, channel=1)
    sender.write(zeros(4 * KiB), now=0.0)
    sender.finish("digest", now=0.0)
    sender.frames_to_send(now=0.0, channel=0)
    the(Finish, sender.frames_to_send(now=0.0, channel=1))
    assert not sender.has_frames(0)
    sender.detach(now=0.0, channel=1)
    assert the(Finish, sender.frames_to_send(now=0.0, channel=0)).digest == "digest"
    sender.receive(Commit("digest"), now=0.0, channel=0)
    assert sender.state is State.DONE


def test_a_failure_is_said_over_a_channel_that_is_left() -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    sender.attach(now=0.0, channel=1)
    sender.frames_to_send(now=0.0)
    sender.detach(now=0.0)
    sender.handle_timer(now=1e6)
    assert the(Abort, sender.frames_to_send(now=1e6, channel=1)).reason


def test_last_words_stay_with_their_channel_whatever_another_still_brings() -> None:
    receiver = receiver_with_two_lanes()
    receiver.attach(now=0.0, channel=2)  # its open is on its way until all is over
    bring_the_rest(receiver)
    receiver.receive(Finish(64 * KiB, "digest"), now=0.0, channel=1)
    receiver.commit("digest")
    # From here on the writers of the others leave: they have nothing to say, and the end is known.
    receiver.receive(an_open(), now=0.0, channel=2)
    assert not any(map(receiver.has_frames, (0, 2)))
    the(Commit, receiver.frames_to_send(now=0.0, channel=1))


def test_what_a_closed_channel_still_brings_is_ignored() -> None:
    sender = two_lanes()
    sender.frames_to_send(now=0.0)
    sender.detach(now=0.0)
    assert (sender.carries(0), sender.carries(1)) == (False, True)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.0)
    assert sender.received == 0


def test_a_stream_without_a_channel_waits_and_is_lost_in_the_end() -> None:
    sender = streaming_sender(small_config(reconnect_timeout=30.0))
    assert not sender.is_lost(now=1e9)
    sender.detach(now=0.0)
    assert (sender.is_waiting(now=0.5), sender.is_waiting(now=2.0)) == (False, True)
    assert (sender.is_lost(now=30.0), sender.is_lost(now=31.0)) == (False, True)
    sender.abort(AbortCode.CANCELLED, "enough")
    assert not sender.is_waiting(now=31.0)


def lagging() -> SendStream:
    """Return a sender of which channel 0 owes the oldest chunk since 0.1 s; 1 has nothing to do."""
    sender = two_lanes()
    sender.frames_to_send(now=0.0, channel=1)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.1, channel=1)
    sender.frames_to_send(now=0.1, channel=0)
    return sender


LATE = LAG_SECONDS + 0.1


def test_a_channel_that_owes_the_oldest_chunk_is_closed_and_the_others_carry_what_it_owes() -> None:
    sender = lagging()
    sender.frames_to_send(now=0.2, channel=1)
    sender.handle_timer(now=LATE - 0.01)
    assert sender.carries(0)
    sender.handle_timer(now=LATE)
    assert (sender.carries(0), sender.carries(1)) == (False, True)
    assert (sender.state, sender.resumes) == (State.STREAMING, 0)
    assert offsets(sender.frames_to_send(now=LATE, channel=1)) == [4 * KiB, 12 * KiB]


def test_a_channel_that_others_overtake_is_closed_though_they_move() -> None:
    sender = lagging()
    sender.frames_to_send(now=0.2, channel=1)
    behind = ((8 * KiB, 12 * KiB),)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB, behind), now=LATE - 0.01, channel=1)
    sender.handle_timer(now=LATE)
    assert not sender.carries(0)


def test_a_chunk_that_arrives_in_time_costs_nothing() -> None:
    sender = lagging()
    sender.receive(Ack(8 * KiB, 0, 0, 16 * KiB), now=LATE - 0.01, channel=0)
    sender.handle_timer(now=2 * LATE)
    assert (sender.carries(0), sender.carries(1)) == (True, True)


def test_the_time_of_the_next_oldest_begins_when_it_is_the_oldest() -> None:
    sender = lagging()
    sender.frames_to_send(now=0.1, channel=0)
    sender.receive(Ack(8 * KiB, 0, 0, 16 * KiB), now=LATE - 0.01, channel=0)
    sender.handle_timer(now=LATE + 1.0)
    assert sender.carries(0)
    sender.handle_timer(now=2 * LATE + 4.0)
    assert not sender.carries(0)


def test_on_a_link_whose_acks_take_long_a_chunk_may_take_longer() -> None:
    sender = two_lanes()
    sender.frames_to_send(now=0.0, channel=1)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=10.0, channel=1)
    sender.frames_to_send(now=10.0, channel=0)
    sender.handle_timer(now=10.0 + 2 * LATE)
    assert sender.carries(0)


def test_a_channel_that_comes_later_takes_over_what_another_owes() -> None:
    sender = streaming_sender()
    sender.write(zeros(4 * KiB), now=0.0)
    sender.frames_to_send(now=0.0)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.1)
    write_all(sender, now=0.1)  # all of it over channel 0
    sender.attach(now=0.2, channel=1)
    sender.receive(Accept(4 * KiB, 16 * KiB, 4 * KiB), now=0.2, channel=1)
    sender.handle_timer(now=LATE + 0.1)
    assert (sender.carries(0), sender.carries(1)) == (False, True)


def test_before_the_first_ack_no_channel_lags() -> None:
    sender = two_lanes()
    sender.frames_to_send(now=0.0, channel=0)
    sender.handle_timer(now=2 * LATE)
    assert sender.carries(0)


def test_the_last_channel_does_not_lag() -> None:
    sender = lagging()
    sender.detach(now=1.0, channel=1)
    sender.handle_timer(now=LATE)
    assert sender.carries(0)


def test_a_chunk_that_waits_to_leave_is_no_channels_fault() -> None:
    sender = lagging()
    sender.frames_to_send(now=0.2, channel=1)
    sender.attach(now=1.0, channel=2)
    sender.receive(Accept(0, 16 * KiB, 4 * KiB), now=1.0, channel=2)
    sender.detach(now=1.0, channel=0)  # nobody has taken what it carried
    sender.handle_timer(now=LATE)
    assert (sender.carries(1), sender.carries(2)) == (True, True)


def test_a_channel_does_not_lag_where_the_other_is_in_its_handshake() -> None:
    sender = lagging()
    sender.detach(now=0.2, channel=1)
    sender.attach(now=0.2, channel=2)
    sender.frames_to_send(now=0.2, channel=0)
    sender.handle_timer(now=LATE + 1.0)
    assert sender.carries(0)


def test_a_repair_of_what_arrived_over_a_channel_that_was_given_up_is_not_needed() -> None:
    sender = two_lanes()
    sender.frames_to_send(now=0.0, channel=0)
    sender.detach(now=0.0, channel=0)
    sender.frames_to_send(now=0.0, channel=1)  # all of it, the first chunk for the second time
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.0, channel=1)
    sender.receive(Repair(0), now=0.0, channel=1)
    assert sender.error is None
    assert not sender.has_frames(1)
    sender.receive(Repair(99), now=0.0, channel=1)
    assert "frame 99, which is not in flight" in str(sender.error)
