"""The receiving half: what it accepts, what it grants, how it ends."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    FrameTooLarge,
    LocalProtocolError,
    OpenTimeout,
    ReadTimeout,
    RemoteProtocolError,
)
from streamlink.protocol.events import Opened, PeerHeld, SpecReceived
from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Attempt,
    Chunk,
    Finish,
    Held,
    SpecPage,
    Update,
)
from streamlink.protocol.states import State
from tests.support.machines import (
    OPEN,
    READ,
    SMALL,
    KiB,
    a_chunk,
    a_receiver,
    an_open,
    damaged,
    events,
    fed,
    reattached,
    small_config,
    streaming_receiver,
    the,
)

# --- opening ----------------------------------------------------------------------------


def test_the_owner_decides_about_a_model_that_is_announced() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    assert events(receiver) == [Opened(an_open())]
    assert not receiver.has_frames()
    receiver.accept(wants_spec=False, now=0.0)
    assert receiver.frames_to_send(now=0.0) == [Accept(0, 16 * KiB, 4 * KiB)]


def test_the_smaller_chunk_size_of_both_sides_is_used() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(chunk_bytes=2000), now=0.0)
    receiver.accept(wants_spec=False, now=0.0)
    assert the(Accept, receiver.frames_to_send(now=0.0)).chunk_bytes == 2000


@pytest.mark.parametrize(
    "changes", [{"stream_id": 2}, {"total_bytes": -1}, {"spec_pages": -1}, {"chunk_bytes": 0}]
)
def test_an_open_that_cannot_be_ends_the_stream(changes: dict[str, int]) -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(**changes), now=0.0)
    assert isinstance(receiver.error, RemoteProtocolError)


def test_accepting_before_or_twice_is_our_own_fault() -> None:
    receiver = a_receiver()
    with pytest.raises(LocalProtocolError, match="accept"):
        receiver.accept(wants_spec=False, now=0.0)
    with pytest.raises(LocalProtocolError, match="accept"):
        streaming_receiver().accept(wants_spec=False, now=0.0)


def test_a_sender_that_never_opens_is_named_after_the_open_timeout() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.handle_timer(now=OPEN)
    assert isinstance(receiver.error, OpenTimeout)


def test_a_sender_that_has_replied_has_the_open_timeout_for_its_stream() -> None:
    receiver = a_receiver()
    assert receiver.next_deadline() is None
    receiver.expect(now=1.0)
    receiver.handle_timer(now=1.0 + OPEN)
    assert isinstance(receiver.error, OpenTimeout)


def test_the_time_to_open_does_not_run_while_the_sender_cannot() -> None:
    receiver = a_receiver()
    receiver.retract_offer()
    receiver.expect(now=0.0)
    assert receiver.next_deadline() is None
    receiver.offer(now=5.0)
    assert receiver.next_deadline() == 5.0 + OPEN
    receiver.retract_offer()
    assert receiver.next_deadline() is None


def test_a_channel_that_is_lost_before_the_open_leaves_the_time_for_another() -> None:
    receiver = a_receiver()
    receiver.expect(now=0.0)
    receiver.attach(now=1.0)
    receiver.detach(now=2.0)
    receiver.handle_timer(now=2.0 + OPEN)
    assert isinstance(receiver.error, OpenTimeout)


def test_a_stream_that_was_opened_is_not_expected_any_more() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    receiver.expect(now=0.0)
    receiver.offer(now=0.0)
    receiver.handle_timer(now=OPEN)
    assert receiver.error is None


def test_while_our_owner_decides_nobody_is_blamed() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    assert receiver.next_deadline() is None


# --- the description ----------------------------------------------------------------------


def test_pages_are_delivered_together_when_the_last_has_come() -> None:
    receiver = streaming_receiver(spec_pages=2)
    receiver.receive(SpecPage(0, b"one"), now=0.0)
    assert not receiver.has_events
    receiver.receive(SpecPage(1, b"two"), now=0.0)
    assert events(receiver) == [SpecReceived((b"one", b"two"))]


def test_a_description_without_pages_is_there_at_once() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    receiver.accept(wants_spec=True, now=0.0)
    assert events(receiver)[-1] == SpecReceived(())
    assert not the(Accept, receiver.frames_to_send(now=0.0)).wants_spec


def test_a_page_out_of_order_ends_the_stream() -> None:
    receiver = streaming_receiver(spec_pages=2)
    receiver.receive(SpecPage(1, b"two"), now=0.0)
    assert isinstance(receiver.error, RemoteProtocolError)


def test_a_page_nobody_asked_for_ends_the_stream() -> None:
    receiver = streaming_receiver()
    receiver.receive(SpecPage(0, b"one"), now=0.0)
    assert isinstance(receiver.error, RemoteProtocolError)


@pytest.mark.parametrize("body", [b"", bytes(1000)])
def test_pages_beyond_the_allowed_size_end_the_stream_empty_or_not(body: bytes) -> None:
    receiver = streaming_receiver(small_config(max_spec_bytes=4 * KiB), spec_pages=1 << 31)
    for number in range(70):
        receiver.receive(SpecPage(number, body), now=0.0)
    assert isinstance(receiver.error, FrameTooLarge)


@pytest.mark.parametrize("frame", [a_chunk(0), Finish(64 * KiB, "digest")])
def test_bytes_before_the_description_end_the_stream(frame: Chunk | Finish) -> None:
    receiver = streaming_receiver(spec_pages=1)
    receiver.receive(frame, now=0.0)
    assert isinstance(receiver.error, RemoteProtocolError)


def test_a_finish_of_nothing_before_the_description_ends_the_stream() -> None:
    receiver = streaming_receiver(total_bytes=0, spec_pages=1)
    receiver.receive(Finish(0, "digest"), now=0.0)
    assert isinstance(receiver.error, RemoteProtocolError)


def test_a_description_cut_off_is_asked_for_again() -> None:
    receiver = streaming_receiver(spec_pages=2)
    receiver.receive(SpecPage(0, b"one"), now=0.0)
    receiver.detach(now=1.0)
    receiver.attach(now=1.0)
    receiver.receive(an_open(spec_pages=2, is_resumed=True), now=1.0)
    assert the(Accept, receiver.frames_to_send(now=1.0)).wants_spec
    receiver.receive(SpecPage(0, b"one"), now=1.0)
    receiver.receive(SpecPage(1, b"two"), now=1.0)
    assert events(receiver) == [SpecReceived((b"one", b"two"))]


def test_a_description_of_which_nothing_came_is_asked_for_again() -> None:
    receiver = streaming_receiver(spec_pages=1)
    receiver.detach(now=1.0)
    receiver.attach(now=1.0)
    receiver.receive(an_open(spec_pages=1, is_resumed=True), now=1.0)
    assert the(Accept, receiver.frames_to_send(now=1.0)).wants_spec


def test_credit_comes_back_when_the_sink_has_the_bytes() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0))
    receiver.release(4 * KiB, now=0.0)
    assert receiver.frames_to_send(now=0.0) == [Ack(4 * KiB, 4 * KiB, 0, 20 * KiB)]


def test_one_ack_speaks_for_two_full_chunks_or_for_one_after_a_moment() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), now=5.0)
    assert not receiver.has_frames()
    fed(receiver, a_chunk(1), now=5.0)
    assert the(Ack, receiver.frames_to_send(now=5.0)).received == 8 * KiB
    fed(receiver, a_chunk(2), now=6.0)
    receiver.handle_timer(now=6.1)
    assert the(Ack, receiver.frames_to_send(now=6.1)).received == 12 * KiB


def test_in_a_wide_window_the_ack_for_two_chunks_waits_until_they_are_taken() -> None:
    receiver = fed(streaming_receiver(small_config(window_bytes=32 * KiB)), a_chunk(0), a_chunk(1))
    assert not receiver.has_frames()
    receiver.release(8 * KiB, now=0.0)
    assert receiver.frames_to_send(now=0.0) == [Ack(8 * KiB, 8 * KiB, 0, 40 * KiB)]


def test_two_chunks_that_are_taken_are_acknowledged_before_their_credit_is_due() -> None:
    receiver = streaming_receiver(small_config(window_bytes=128 * KiB))
    fed(receiver, a_chunk(0), a_chunk(1), a_chunk(2)).frames_to_send(now=0.0)
    fed(receiver, a_chunk(3), a_chunk(4)).release(16 * KiB, now=0.0)
    assert not receiver.has_frames()
    receiver.release(4 * KiB, now=0.0)
    assert receiver.frames_to_send(now=0.0) == [Ack(20 * KiB, 20 * KiB, 0, 148 * KiB)]


def test_in_a_wide_window_three_chunks_are_acknowledged_though_none_is_taken() -> None:
    config = small_config(window_bytes=32 * KiB)
    receiver = fed(streaming_receiver(config), a_chunk(0), a_chunk(1), a_chunk(2))
    assert receiver.frames_to_send(now=0.0) == [Ack(12 * KiB, 0, 0, 32 * KiB)]


@pytest.mark.parametrize("config", [SMALL, small_config(window_bytes=12 * KiB)])
def test_a_short_chunk_or_a_narrow_window_is_acknowledged_at_once(config: LinkConfig) -> None:
    nbytes = 100 if config is SMALL else 4 * KiB
    receiver = fed(streaming_receiver(config), a_chunk(0, nbytes=nbytes))
    assert the(Ack, receiver.frames_to_send(now=0.0)).received == nbytes


def test_what_was_taken_is_told_within_a_second_however_little() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1), now=10.0)
    receiver.frames_to_send(now=10.0)
    receiver.release(1, now=10.1)
    receiver.release(1, now=10.2)
    assert not receiver.has_frames()
    assert receiver.next_deadline() == 11.0
    receiver.handle_timer(now=11.0)
    assert receiver.frames_to_send(now=11.0) == [Ack(8 * KiB, 2, 0, 16 * KiB)]
    receiver.release(1, now=13.0)
    assert the(Ack, receiver.frames_to_send(now=13.0)).consumed == 3


@pytest.mark.parametrize("nbytes", [-1, 4 * KiB + 1])
def test_releasing_what_was_not_delivered_is_our_own_fault(nbytes: int) -> None:
    receiver = fed(streaming_receiver(), a_chunk(0))
    with pytest.raises(LocalProtocolError, match="release"):
        receiver.release(nbytes, now=0.0)


def test_bytes_are_durable_only_once_they_are_taken_and_stay_so() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0))
    receiver.release(2 * KiB, now=0.0)
    receiver.mark_durable(4 * KiB)
    receiver.mark_durable(1)
    assert the(Ack, receiver.frames_to_send(now=0.0)).durable == 2 * KiB


def test_a_receiver_that_has_a_part_already_begins_behind_it() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    receiver.accept(wants_spec=False, start=40 * KiB, now=0.0)
    accept = the(Accept, receiver.frames_to_send(now=0.0))
    assert (accept.received, accept.limit) == (40 * KiB, 56 * KiB)
    fed(receiver, a_chunk(0, offset=40 * KiB))
    receiver.release(4 * KiB, now=0.0)
    receiver.mark_durable(0)
    ack = the(Ack, receiver.frames_to_send(now=0.0))
    assert (ack.received, ack.consumed, ack.durable) == (44 * KiB, 44 * KiB, 40 * KiB)


def test_a_receiver_that_has_everything_only_waits_for_the_finish() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    receiver.accept(wants_spec=False, start=64 * KiB, now=0.0)
    receiver.receive(Finish(64 * KiB, "digest"), now=0.0)
    assert receiver.state is State.COMMITTING


@pytest.mark.parametrize("start", [-1, 64 * KiB + 1])
def test_a_receiver_cannot_have_more_than_there_is(start: int) -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    with pytest.raises(LocalProtocolError, match="accept at byte"):
        receiver.accept(wants_spec=False, start=start, now=0.0)


# --- calls come and go ----------------------------------------------------------------------


def test_a_new_call_goes_on_at_what_was_received() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), damaged(), a_chunk(2))
    behind = ((8 * KiB, 12 * KiB),)
    assert reattached(receiver, now=1.0) == [
        Accept(4 * KiB, 16 * KiB, 4 * KiB, ranges=behind),
        Ack(4 * KiB, 0, 0, 16 * KiB, behind),
    ]
    fed(receiver, a_chunk(0, offset=4 * KiB))
    assert (receiver.received, receiver.stats.resumes) == (12 * KiB, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"total_bytes": 1},
        {"spec_digest": b"x"},
        {"update": Update(2.0)},
        {"attempt": Attempt("job", 1, 2)},
    ],
)
def test_a_sender_that_comes_back_with_something_else_ends_the_stream(
    changes: dict[str, object],
) -> None:
    receiver = streaming_receiver()
    receiver.detach(now=1.0)
    receiver.attach(now=1.0)
    receiver.receive(an_open(**{"total_bytes": 64 * KiB, **changes}), now=1.0)  # type: ignore[arg-type]
    assert "resumed with" in str(receiver.error)


def test_a_decision_made_while_there_was_no_call_is_told_on_the_next() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    receiver.detach(now=1.0)
    receiver.accept(wants_spec=False, now=1.0)
    assert reattached(receiver, now=2.0) == [Accept(0, 16 * KiB, 4 * KiB)]


def test_an_owner_that_is_still_deciding_is_not_asked_twice() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    assert reattached(receiver, now=1.0) == []
    assert len(events(receiver)) == 1
    receiver.accept(wants_spec=False, now=2.0)
    assert receiver.frames_to_send(now=2.0) == [Accept(0, 16 * KiB, 4 * KiB)]


# --- clocks -----------------------------------------------------------------------------------


def test_a_reader_that_takes_nothing_is_named_after_the_read_timeout() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), now=5.0)
    receiver.handle_timer(now=5.0 + READ - 0.01)
    assert not receiver.is_closed
    receiver.handle_timer(now=5.0 + READ)
    assert isinstance(receiver.error, ReadTimeout)
    assert receiver.error.setting == "streaming_read_timeout"
    receiver.attach(now=45.0)  # the call that was there has been silent for too long
    assert the(Abort, receiver.frames_to_send(now=45.0)).code is AbortCode.READ_TIMEOUT


def test_more_arriving_does_not_excuse_the_reader() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), now=0.0)
    fed(receiver, a_chunk(1), now=30.0)
    receiver.handle_timer(now=READ)
    assert isinstance(receiver.error, ReadTimeout)


def test_a_slow_reader_that_moves_is_left_alone() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1), a_chunk(2), a_chunk(3))
    receiver.frames_to_send(now=0.0)
    for step in range(1, 300):
        receiver.release(1, now=step * 39.0)
        receiver.frames_to_send(now=step * 39.0)
        receiver.receive(Held(step, "nothing new", "me"), now=step * 39.0)
        receiver.handle_timer(now=step * 39.0)
    assert receiver.error is None


def test_no_read_clock_runs_when_everything_is_taken() -> None:
    receiver = fed(streaming_receiver(total_bytes=4 * KiB), a_chunk(0))
    receiver.receive(Finish(4 * KiB, "digest"), now=0.0)
    receiver.frames_to_send(now=0.0)
    receiver.release(4 * KiB, now=0.0)
    receiver.frames_to_send(now=0.0)
    assert receiver.next_deadline() is None


# --- held -----------------------------------------------------------------------------------


def test_a_sender_that_is_held_is_waited_for_and_the_owner_hears_of_it_once() -> None:
    receiver = streaming_receiver()
    for pulse in range(1, 20):
        receiver.receive(Held(pulse, "source waits", "site-2"), now=pulse * 50.0)
        receiver.handle_timer(now=pulse * 50.0)
    assert not receiver.is_closed
    assert events(receiver) == [PeerHeld("source waits", "site-2")]


def test_a_sender_that_is_held_does_not_excuse_our_reader() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0))
    receiver.receive(Held(1, "source waits", "site-2"), now=30.0)
    receiver.handle_timer(now=READ)
    assert isinstance(receiver.error, ReadTimeout)


def test_our_own_hold_excuses_our_reader_and_tells_the_sender() -> None:
    receiver = fed(streaming_receiver(), *(a_chunk(number) for number in range(4)))
    receiver.frames_to_send(now=0.0)
    for pulse in range(1, 20):
        receiver.hold("lockstep", "site-2", now=pulse * 39.0)
        assert receiver.frames_to_send(now=0.0) == [Held(pulse, "lockstep", "site-2")]
        receiver.handle_timer(now=pulse * 39.0)
    assert receiver.error is None


def test_a_snapshot_tells_where_the_stream_stands() -> None:
    assert a_receiver().stats.total_bytes == 0
    receiver = fed(streaming_receiver(), a_chunk(0))
    receiver.release(1, now=0.0)
    stats = receiver.stats
    assert (stats.received_bytes, stats.consumed_bytes, stats.total_bytes) == (4096, 1, 64 * KiB)


def test_an_owner_can_see_that_bytes_come_next() -> None:
    receiver = streaming_receiver()
    assert not receiver.has_chunk
    fed(receiver, a_chunk(0))
    assert receiver.has_chunk
