"""The receiver with encodings and a base: what may be offered, and how it drops a base."""

from __future__ import annotations

import pytest

from streamlink.errors import AbortCode, LocalProtocolError
from streamlink.protocol.events import Delivered
from streamlink.protocol.frames import Accept, Chunk
from streamlink.protocol.limits import MAX_BASES, MAX_ENCODINGS
from streamlink.protocol.receiver import ReceiveStream
from tests.support.machines import SMALL, KiB, a_chunk, a_receiver, an_open, events, fed


def test_more_encodings_than_a_sender_may_offer_end_the_stream() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    offered = tuple(f"encoding {n}" for n in range(MAX_ENCODINGS + 1))
    receiver.receive(an_open(encodings=offered), now=0.0)
    assert "offers 9 encodings; the most are 8" in str(receiver.error)


def test_more_bases_than_a_sender_may_name_end_the_stream() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(bases=tuple(f"{n}" for n in range(MAX_BASES + 1))), now=0.0)
    assert "offers 9 bases; the most are 8" in str(receiver.error)


def test_a_base_is_accepted_on_every_channel_and_only_one_that_was_offered() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(bases=("a", "b")), now=0.0)
    with pytest.raises(LocalProtocolError, match="accept with the base 'c'"):
        receiver.accept(wants_spec=False, base="c", now=0.0)
    receiver.accept(wants_spec=False, base="b", now=0.0)
    receiver.attach(now=1.0, channel=1)
    receiver.receive(an_open(bases=("a", "b")), now=1.0, channel=1)
    for channel in (0, 1):
        (accept,) = receiver.frames_to_send(now=1.0, channel=channel)
        assert isinstance(accept, Accept)
        assert accept.base == "b"


def receiver_with_a_base(*channels: int) -> ReceiveStream:
    receiver = a_receiver()
    for channel in channels:
        receiver.attach(now=0.0, channel=channel)
        receiver.receive(an_open(bases=("a",), encodings=("delta",)), now=0.0, channel=channel)
    receiver.accept(wants_spec=False, base="a", now=0.0)
    events(receiver)
    for channel in channels:
        receiver.frames_to_send(now=0.0, channel=channel)
    return receiver


def test_without_its_base_everything_from_there_on_is_asked_for_again() -> None:
    receiver = receiver_with_a_base(0, 1)
    fed(receiver, *(a_chunk(number) for number in range(3)))
    receiver.next_event()
    receiver.release(4 * KiB, now=0.0)
    receiver.next_event()
    receiver.drop_base(4 * KiB, now=1.0)
    assert not receiver.is_attached, "what is on its way needs the base, too"
    assert receiver.next_event() is None
    assert (receiver.received, receiver.consumed) == (4 * KiB, 4 * KiB)
    receiver.attach(now=2.0, channel=2)
    receiver.receive(an_open(bases=("a",), is_resumed=True), now=2.0, channel=2)
    accept, *_ = receiver.frames_to_send(now=2.0, channel=2)
    assert isinstance(accept, Accept)
    assert (accept.received, accept.base, accept.ranges) == (4 * KiB, "", ())


def test_what_is_consumed_cannot_be_asked_for_again_and_a_base_is_dropped_once() -> None:
    receiver = receiver_with_a_base(0)
    fed(receiver, a_chunk(0), a_chunk(1))
    receiver.release(4 * KiB, now=0.0)
    for offset in (0, 8 * KiB + 1):
        with pytest.raises(LocalProtocolError, match="drop_base"):
            receiver.drop_base(offset, now=0.0)
    receiver.drop_base(4 * KiB, now=0.0)
    with pytest.raises(LocalProtocolError, match="drop_base"):
        receiver.drop_base(4 * KiB, now=0.0)
    receiver.abort(AbortCode.CANCELLED, "enough")
    receiver.drop_base(4 * KiB, now=0.0)


def test_an_encoding_may_say_all_without_a_payload() -> None:
    receiver = ReceiveStream(SMALL, stream_id=1, peer_name="site-1", encodings=("unchanged",))
    receiver.attach(now=0.0)
    receiver.receive(an_open(encodings=("unchanged",)), now=0.0)
    receiver.accept(wants_spec=False, now=0.0)
    events(receiver)
    receiver.receive(Chunk(0, 0, (), encoding=1, nbytes=4 * KiB), now=0.0)
    (delivered,) = events(receiver)
    assert isinstance(delivered, Delivered)
    assert receiver.received == 4 * KiB  # of the model; none of it was on the wire
    assert receiver.stats.saved_bytes == 4 * KiB
