"""The sending half: what it sends, when it waits, how it ends."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    OpenTimeout,
)
from streamlink.protocol.events import Accepted, Failed
from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Chunk,
    Commit,
    Finish,
    Frame,
    Held,
    Open,
    Repair,
    SpecPage,
)
from streamlink.protocol.sender import SendStream
from streamlink.protocol.states import State
from tests.support.machines import (
    OPEN,
    KiB,
    a_sender,
    acked,
    events,
    finishing_sender,
    small_config,
    streaming_sender,
    the,
    write_all,
    zeros,
)

# --- opening ----------------------------------------------------------------------------


def test_a_sender_announces_its_model_first() -> None:
    sender = a_sender(pages=(b"one", b"two"))
    sender.attach(now=0.0)
    opened = the(Open, sender.frames_to_send(now=0.0))
    assert (opened.total_bytes, opened.spec_pages, opened.is_resumed) == (64 * KiB, 2, False)


def test_nothing_is_writable_before_the_peer_accepts() -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    assert sender.writable_bytes == 0
    with pytest.raises(LocalProtocolError, match="write of 1 bytes"):
        sender.write(zeros(1), now=0.0)


def test_the_description_travels_only_when_it_is_asked_for() -> None:
    sender = a_sender(pages=(b"one", b"two"))
    sender.attach(now=0.0)
    sender.frames_to_send(now=0.0)
    sender.receive(Accept(0, 16 * KiB, 4 * KiB, wants_spec=True), now=0.0)
    assert sender.frames_to_send(now=0.0) == [SpecPage(0, b"one"), SpecPage(1, b"two")]
    assert events(sender) == [Accepted(0)]


def test_a_peer_that_never_accepts_is_named_after_the_open_timeout() -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    sender.handle_timer(now=OPEN - 0.01)
    assert not sender.is_closed
    sender.attach(now=OPEN)  # the first call was given up for another try
    sender.handle_timer(now=2 * OPEN - 0.01)
    assert not sender.is_closed
    sender.handle_timer(now=2 * OPEN)
    assert isinstance(sender.error, OpenTimeout)
    assert sender.error.setting == "open_timeout"


def test_a_peer_that_never_opens_what_it_was_offered_is_named() -> None:
    sender = a_sender()
    sender.offer(now=0.0)
    sender.handle_timer(now=OPEN)
    assert isinstance(sender.error, OpenTimeout)


def test_a_peer_that_cannot_open_what_it_was_offered_has_its_time_once_it_can() -> None:
    sender = a_sender()
    sender.offer(now=0.0)
    sender.retract_offer()
    assert sender.next_deadline() is None
    sender.offer(now=OPEN)
    assert sender.next_deadline() == 2 * OPEN
    sender.attach(now=OPEN)
    deadline = sender.next_deadline()
    sender.retract_offer()  # it has opened it: too late
    assert sender.next_deadline() == deadline is not None


def test_an_offer_of_a_stream_that_is_already_open_starts_no_clock() -> None:
    sender = streaming_sender()
    sender.offer(now=0.0)
    assert sender.next_deadline() is None


def test_a_peer_that_is_held_before_it_accepts_is_waited_for() -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    sender.receive(Held(1, "round not begun", "site-2"), now=9.0)
    sender.handle_timer(now=9.0 + OPEN - 0.01)
    assert sender.error is None


# --- writing ----------------------------------------------------------------------------


def test_writing_stops_at_the_credit() -> None:
    sender = streaming_sender(limit=6 * KiB)
    chunks = write_all(sender)
    assert [chunk.nbytes for chunk in chunks if isinstance(chunk, Chunk)] == [4 * KiB]
    assert sender.writable_bytes == 0
    sender.receive(Ack(4 * KiB, 0, 0, 6 * KiB), now=0.1)
    assert sender.writable_bytes == 2 * KiB


def test_a_sliver_of_credit_is_used_when_nothing_else_is_on_its_way() -> None:
    sender = streaming_sender(limit=100)
    assert sender.writable_bytes == 100


def test_writing_stops_at_the_window_though_there_is_credit() -> None:
    sender = streaming_sender(small_config(initial_window_bytes=8 * KiB), limit=1 << 30)
    write_all(sender)
    assert sender.position == 8 * KiB
    assert sender.writable_bytes == 0


@pytest.mark.parametrize(
    ("asked_at", "held", "nbytes"),
    [(5.0, False, 5 << 19), (0.0, False, 4 << 20), (5.0, True, 1 << 20)],
)
def test_a_stream_begins_with_more_where_the_answer_took_long(
    asked_at: float, held: bool, nbytes: int
) -> None:
    config = LinkConfig()
    sender = a_sender(config, total_bytes=16 << 20)
    sender.attach(now=0.0)
    if asked_at:  # once more, over another channel
        sender.detach(now=1.0)
        sender.attach(now=asked_at)
    sender.frames_to_send(now=asked_at)
    if held:
        sender.receive(Held(1, "its disk", ""), now=5.05)
    sender.receive(Accept(0, 1 << 30, config.stream.chunk_bytes), now=5.125)
    write_all(sender, now=5.125)
    assert sender.position == nbytes


def test_the_last_chunk_is_as_long_as_the_model() -> None:
    sender = streaming_sender(total_bytes=4 * KiB + 1)
    write_all(sender)
    assert sender.position == 4 * KiB + 1


@pytest.mark.parametrize("nbytes", [0, 4 * KiB + 1])
def test_a_write_beyond_the_room_is_our_own_fault(nbytes: int) -> None:
    with pytest.raises(LocalProtocolError, match="write"):
        streaming_sender().write(zeros(nbytes), now=0.0)


def test_a_payload_of_several_views_is_one_chunk() -> None:
    sender = streaming_sender()
    sender.write((memoryview(b"abc"), memoryview(b"de")), now=0.0)
    assert the(Chunk, sender.frames_to_send(now=0.0)).nbytes == 5


def test_a_finish_before_the_last_byte_is_our_own_fault() -> None:
    with pytest.raises(LocalProtocolError, match=r"finish at byte 0 of \[0, 65536\)"):
        streaming_sender().finish("digest", now=0.0)


def test_the_finish_leaves_behind_the_last_chunk_and_once() -> None:
    sender = streaming_sender(total_bytes=4 * KiB)
    sender.write(zeros(4 * KiB), now=0.0)
    sender.finish("digest", {"loss": 0.5}, now=0.0)
    frames = sender.frames_to_send(now=0.0)
    assert [type(frame) for frame in frames] == [Chunk, Finish]
    assert not sender.has_frames()
    assert sender.frames_to_send(now=0.0) == []


def test_a_model_without_a_byte_finishes_at_once() -> None:
    sender = streaming_sender(total_bytes=0)
    assert sender.writable_bytes == 0
    sender.finish("digest", now=0.0)
    assert sender.frames_to_send(now=0.0) == [Finish(0, "digest")]


# --- calls come and go --------------------------------------------------------------------


def test_a_new_call_goes_on_at_the_receivers_mark() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.detach(now=1.0)
    assert sender.writable_bytes == 0
    sender.attach(now=2.0)
    assert the(Open, sender.frames_to_send(now=2.0)).is_resumed
    sender.receive(Accept(8 * KiB, 24 * KiB, 4 * KiB), now=2.0)
    chunks = [frame for frame in sender.frames_to_send(now=2.0) if isinstance(frame, Chunk)]
    assert [(chunk.sequence, chunk.offset) for chunk in chunks] == [(0, 8 * KiB), (1, 12 * KiB)]
    assert sender.stats.resumes == 1


def test_the_finish_is_said_again_on_a_new_call() -> None:
    sender = finishing_sender()
    sender.detach(now=1.0)
    sender.attach(now=2.0)
    sender.frames_to_send(now=2.0)
    sender.receive(Accept(8 * KiB, 24 * KiB, 4 * KiB), now=2.0)
    assert sender.state is State.FINISHING
    assert sender.frames_to_send(now=2.0) == [Finish(8 * KiB, "digest")]


def test_what_is_finished_while_the_call_is_lost_is_said_on_the_next() -> None:
    sender = streaming_sender(total_bytes=8 * KiB)
    write_all(sender)
    sender.detach(now=1.0)
    sender.finish("digest", now=1.0)
    assert sender.state is State.OPENING
    sender.attach(now=2.0)
    sender.frames_to_send(now=2.0)
    sender.receive(Accept(4 * KiB, 20 * KiB, 4 * KiB), now=2.0)
    chunk, finish = sender.frames_to_send(now=2.0)
    assert isinstance(chunk, Chunk)
    assert finish == Finish(8 * KiB, "digest")


def test_a_sender_that_is_done_lets_go_of_its_description() -> None:
    sender = a_sender(pages=(b"one", b"two"))
    sender.abort(AbortCode.CANCELLED, "not wanted")
    assert list(sender._handshake.pages()) == []


def test_a_receiver_that_lost_what_it_had_is_sent_it_again_from_the_source() -> None:
    sender = finishing_sender()
    acked(sender, 8 * KiB, now=0.5)
    sender.detach(now=1.0)
    sender.attach(now=2.0)
    sender.frames_to_send(now=2.0)
    sender.receive(Accept(2 * KiB, 18 * KiB, 4 * KiB), now=2.0)
    assert events(sender)[-1] == Accepted(2 * KiB)
    assert (sender.state, sender.position) == (State.STREAMING, 2 * KiB)
    assert sender.consumed == 2 * KiB


def test_a_sender_that_is_done_says_nothing_on_a_new_call() -> None:
    sender = finishing_sender()
    sender.receive(Commit("digest"), now=1.0)
    sender.detach(now=1.0)
    sender.attach(now=2.0)
    assert not sender.has_frames()
    assert sender.state is State.DONE


# --- the rest ---------------------------------------------------------------------------------


def test_a_snapshot_tells_where_the_stream_stands() -> None:
    sender = streaming_sender()
    write_all(sender)
    acked(sender, 4 * KiB, now=0.1)
    stats = sender.stats
    assert (stats.total_bytes, stats.sent_bytes, stats.received_bytes) == (64 * KiB, 16 * KiB, 4096)
    assert (stats.chunks, stats.chunk_bytes, sender.chunk_bytes) == (4, 4 * KiB, 4 * KiB)
    assert stats.rate > 0


def test_a_failed_sender_lets_go_of_the_model() -> None:
    payload = bytearray(4 * KiB)
    sender = streaming_sender()
    sender.write((memoryview(payload),), now=0.0)
    sender.frames_to_send(now=0.0)
    sender.receive(Abort(AbortCode.STORE_FAILED, "disk full"), now=0.0)
    assert the(Failed, events(sender)).error is sender.error
    payload.append(0)  # raises BufferError while a view is held


def test_frames_after_the_end_are_ignored() -> None:
    sender = streaming_sender()
    sender.abort(AbortCode.CANCELLED, "enough")
    error = sender.error
    late: list[Frame] = [Ack(1 << 40, 0, 0, 0), Abort(AbortCode.CANCELLED, "late"), Repair(5)]
    for frame in late:
        sender.receive(frame, now=1.0)
    assert sender.error is error


# --- the pace may change its mind -----------------------------------------------------------


def test_a_piece_that_was_asked_for_is_taken_though_the_pace_has_shrunk() -> None:
    config = small_config(
        chunk_bytes=64 * KiB, window_bytes=1024 * KiB, initial_window_bytes=1024 * KiB
    )
    sender = streaming_sender(config, total_bytes=1 << 30, limit=1 << 30)
    grown = grow(sender, seconds=1e-4, now=0.0)
    assert grown == sender.writable_bytes == 64 * KiB
    grow(sender, seconds=1.0, now=10.0)
    assert sender.writable_bytes < grown
    before = sender.position
    sender.write(zeros(grown), now=40.0)
    assert sender.position == before + grown


def test_a_chunk_that_grew_ends_at_a_multiple_of_its_size() -> None:
    config = small_config(
        chunk_bytes=64 * KiB, window_bytes=1024 * KiB, initial_window_bytes=1024 * KiB
    )
    sender = streaming_sender(config, total_bytes=1 << 30, limit=1 << 30)
    grow(sender, seconds=1e-4, now=0.0)
    assert sender.position % (64 * KiB) == 0
    sender.write(zeros(5000), now=1.0)
    assert sender.writable_bytes == 64 * KiB - 5000


def test_no_crumb_is_cut_to_reach_a_multiple() -> None:
    sender = streaming_sender()
    sender.write(zeros(4 * KiB - 10), now=0.0)
    assert sender.writable_bytes == 4 * KiB


def grow(sender: SendStream, *, seconds: float, now: float) -> int:
    """Let two pieces at a time arrive after ``seconds``, twenty times; returns the chunk size."""
    for number in range(20):
        at = now + number * seconds
        for _ in range(2):
            sender.write(zeros(sender.writable_bytes), now=at)
            sender.frames_to_send(now=at)
        done = sender.position
        sender.receive(Ack(done, done, 0, 1 << 30), now=at + seconds)
    return sender.chunk_bytes
