"""Both halves of a stream within a share of a memory: what they need, and what they keep to."""

from __future__ import annotations

import pytest

from streamlink.protocol.frames import Accept, Ack
from streamlink.protocol.memory_budget import Need
from streamlink.protocol.window_need import IDLE_SECONDS
from tests.support.machines import (
    KiB,
    a_chunk,
    a_receiver,
    a_sender,
    acked,
    an_open,
    events,
    fed,
    small_config,
    streaming_receiver,
    streaming_sender,
    the,
    write_all,
    zeros,
)

CONFIG = small_config(min_chunk_bytes=1 * KiB, initial_window_bytes=8 * KiB)
"""Chunks of 1 to 4 KiB; windows of 8 to 16 KiB, of which each costs twice its bytes."""


def price_of(kib: float) -> int:
    return CONFIG.stream.price_of(int(kib * KiB))


# --- receiving ----------------------------------------------------------------------------


def test_a_receiver_needs_nothing_until_it_has_accepted() -> None:
    receiver = a_receiver(CONFIG)
    assert receiver.memory_need(now=0.0) == Need(0, 0)
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    assert receiver.memory_need(now=0.0) == Need(0, 0)
    receiver.accept(wants_spec=False, now=0.0)
    assert receiver.memory_need(now=0.0) == Need(price_of(8), price_of(16))


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_share_that_a_receiver_has_before_it_accepts_is_all_that_it_promises(
    is_opened: bool,
) -> None:
    receiver = a_receiver(CONFIG)
    receiver.attach(now=0.0)
    if is_opened:
        receiver.receive(an_open(), now=0.0)
    receiver.use_memory(price_of(2))
    if not is_opened:
        receiver.receive(an_open(), now=0.0)
    receiver.accept(wants_spec=False, now=0.0)
    assert the(Accept, receiver.frames_to_send(now=0.0)).limit == 2 * KiB
    assert receiver.stats.window_bytes == 2 * KiB


def test_a_larger_share_is_promised_at_once() -> None:
    receiver = streaming_receiver(CONFIG)
    receiver.use_memory(price_of(2))
    assert not receiver.has_frames(), "what is promised stays promised"
    fed(receiver, *[a_chunk(number) for number in range(4)])
    receiver.frames_to_send(now=0.0)
    receiver.release(16 * KiB, now=0.0)
    assert the(Ack, receiver.frames_to_send(now=0.0)).limit == 18 * KiB
    receiver.use_memory(price_of(12))
    assert the(Ack, receiver.frames_to_send(now=0.0)).limit == 28 * KiB


def test_a_smaller_share_is_kept_to_as_soon_as_what_was_promised_is_used_up() -> None:
    receiver = streaming_receiver(CONFIG)
    receiver.memory_need(now=0.0)
    receiver.use_memory(price_of(4))
    for number, held in ((0, 12), (1, 8), (2, 4), (3, 4)):
        fed(receiver, a_chunk(number))
        receiver.release(4 * KiB, now=0.0)
        receiver.frames_to_send(now=0.0)
        assert receiver.memory_need(now=0.0).held == price_of(held)


def test_a_share_below_the_smallest_chunk_is_promised_again_and_again() -> None:
    receiver = a_receiver(small_config())
    receiver.use_memory(8 * KiB)  # a window of 4 KiB, as large as the smallest chunk
    receiver.use_memory(2 * KiB)
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=0.0)
    receiver.accept(wants_spec=False, now=0.0)
    assert the(Accept, receiver.frames_to_send(now=0.0)).limit == 1 * KiB
    for number in range(4):
        fed(receiver, a_chunk(number, offset=number * KiB, nbytes=1 * KiB))
        receiver.release(1 * KiB, now=0.0)
        assert the(Ack, receiver.frames_to_send(now=0.0)).limit == (number + 2) * KiB


def test_a_receiver_needs_and_holds_no_more_than_what_is_still_to_come() -> None:
    receiver = streaming_receiver(CONFIG, total_bytes=5 * KiB)
    assert receiver.memory_need(now=0.0) == Need(price_of(5), price_of(5))
    fed(receiver, a_chunk(0), a_chunk(1, nbytes=1 * KiB))
    receiver.release(5 * KiB, now=0.0)
    assert receiver.memory_need(now=0.0) == Need(0, 0)


def test_a_receiver_on_which_nothing_arrives_needs_nothing_more() -> None:
    receiver = streaming_receiver(CONFIG)
    receiver.memory_need(now=0.0)
    later = IDLE_SECONDS + 0.1
    assert receiver.memory_need(now=later) == Need(0, price_of(16))
    fed(receiver, a_chunk(0), now=later)
    assert receiver.memory_need(now=later).wanted == price_of(8)


def test_a_receiver_that_delivers_fast_over_a_long_line_needs_the_whole_window() -> None:
    receiver = streaming_receiver(CONFIG, total_bytes=640 * KiB)
    receiver.memory_need(now=0.0)
    for number in range(20):
        fed(receiver, a_chunk(number), now=number * 0.2)
        events(receiver)
        receiver.release(4 * KiB, now=number * 0.2)
        receiver.frames_to_send(now=number * 0.2)
        need = receiver.memory_need(now=number * 0.2)
    # 20 KiB a second, and 0.8 s until credit comes back as bytes.
    assert need.wanted == price_of(16)


# --- sending --------------------------------------------------------------------------------


def test_a_sender_keeps_within_its_share_and_holds_what_is_not_acknowledged() -> None:
    sender = streaming_sender(CONFIG, limit=64 * KiB)
    sender.use_memory(price_of(2))
    write_all(sender)
    assert sender.position == 2 * KiB
    assert sender.memory_need(now=0.0) == Need(price_of(8), price_of(2))
    acked(sender, 2 * KiB, now=0.0)
    sender.use_memory(price_of(4))
    write_all(sender)
    assert sender.position == 6 * KiB


def test_a_share_holds_over_a_new_call() -> None:
    sender = a_sender(CONFIG)
    sender.use_memory(price_of(2))
    sender.attach(now=0.0)
    sender.frames_to_send(now=0.0)
    sender.receive(Accept(0, 64 * KiB, 4 * KiB), now=0.0)
    write_all(sender)
    assert sender.position == 2 * KiB


def test_what_a_sender_was_given_room_for_counts_before_it_is_written() -> None:
    sender = streaming_sender(CONFIG)
    assert sender.memory_need(now=0.0).held == 0
    assert sender.ask() == (0, 1 * KiB)
    assert sender.memory_need(now=0.0).held == price_of(1)
    sender.write(zeros(1 * KiB), now=0.0)
    assert sender.memory_need(now=0.0).held == price_of(1)


def test_a_sender_needs_nothing_before_it_may_send_after_its_last_byte_or_while_idle() -> None:
    sender = a_sender(CONFIG, total_bytes=1 * KiB)
    assert sender.memory_need(now=0.0) == Need(0, 0)
    sender = streaming_sender(CONFIG, total_bytes=1 * KiB)
    assert sender.memory_need(now=0.0) == Need(0, 0)
    write_all(sender)
    assert sender.memory_need(now=0.0) == Need(price_of(1), price_of(1))
    acked(sender, 1 * KiB, now=0.0)
    assert sender.memory_need(now=0.0) == Need(0, 0)
    assert sender.memory_need(now=IDLE_SECONDS + 0.1) == Need(0, 0)
    sender.finish("digest", now=0.0)
    assert sender.memory_need(now=0.0) == Need(0, 0)
