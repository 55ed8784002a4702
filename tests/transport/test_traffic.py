"""What an end has moved: sums that only grow, whoever comes and goes."""

from __future__ import annotations

import weakref

from streamlink.clock import running_time
from streamlink.errors import AbortCode
from streamlink.protocol.frames import Ack
from streamlink.protocol.stats import CAUSES, NETWORK, AckTimes
from streamlink.transport import traffic
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump
from streamlink.transport.traffic import OTHERS, Totals, TrafficCounter
from tests.support.machines import KiB, a_chunk, streaming_receiver, streaming_sender, write_all
from tests.support.virtual_clock import VirtualClock


def sending(nbytes: int = 4 * KiB) -> SendPump:
    """Return a stream of which ``nbytes`` have arrived, and 4 KiB more are on their way."""
    sender = streaming_sender()
    write_all(sender)
    sender.receive(Ack(nbytes, 0, 0, 16 * KiB), now=1.0)
    return SendPump(sender, clock=VirtualClock(5.0))


def at_five() -> TrafficCounter:
    return TrafficCounter(clock=VirtualClock(5.0))


def end(pump: SendPump | ReceivePump) -> None:
    pump.abort(AbortCode.CANCELLED, "over")
    pump.stream.detach(now=5.0)


def test_streams_that_run_are_added_up_by_peer_and_direction() -> None:
    count = at_five()
    count.begin("a", sending(4 * KiB))
    count.begin("a", sending(8 * KiB))
    receiver = streaming_receiver()
    receiver.receive(a_chunk(0), now=1.0)
    count.begin("b", ReceivePump(receiver, clock=running_time))
    totals = count.totals()
    assert totals["a", "sent"].bytes == 12 * KiB
    assert totals["a", "sent"].streams == 2
    assert totals["a", "sent"].in_flight_bytes == 20 * KiB
    assert totals["a", "sent"].stall_seconds[NETWORK] == 10.0
    assert totals["b", "received"].bytes == totals["b", "received"].in_flight_bytes == 4 * KiB


def test_a_stream_that_is_over_stays_in_the_sum_and_is_let_go_of() -> None:
    count, pump = at_five(), sending()
    count.begin("a", pump)
    before = count.totals()["a", "sent"]
    end(pump)
    after = count.totals()["a", "sent"]
    kept = weakref.ref(pump)
    del pump
    assert kept() is None
    assert (after.bytes, after.chunks, after.stall_seconds) == (
        before.bytes,
        before.chunks,
        before.stall_seconds,
    )
    assert (after.streams, after.in_flight_bytes, after.window_bytes) == (0, 0, 0)
    assert after.ack_times == before.ack_times != AckTimes()
    assert count.totals()["a", "sent"] == after


def test_streams_that_are_over_do_not_pile_up_where_nobody_asks() -> None:
    count = at_five()
    pumps = [sending() for _ in range(100)]
    kept = weakref.WeakSet(pumps)
    while pumps:
        pump = pumps.pop()
        count.begin("a", pump)
        end(pump)
        del pump
    assert len(kept) <= traffic.MOST_ENDED
    assert count.totals()["a", "sent"].bytes == 100 * 4 * KiB


def test_a_stream_that_is_offered_twice_is_counted_once() -> None:
    count, pump = at_five(), sending()
    count.begin("a", pump)
    count.begin("a", pump)
    assert count.totals()["a", "sent"].streams == 1


def test_strangers_share_a_name_once_there_are_too_many_and_nothing_is_lost() -> None:
    count = at_five()
    most = 2 * (1 + traffic.REMEMBERED)
    for number in range(most + 10):
        pump = sending()
        count.begin(f"stranger-{number}", pump)
        end(pump)
    totals = count.totals()
    assert len(totals) == most + 1
    assert totals[OTHERS, "sent"].bytes == 10 * 4 * KiB
    assert sum(each.bytes for each in totals.values()) == (most + 10) * 4 * KiB


def test_totals_add_up_field_by_field() -> None:
    one = Totals(bytes=1, chunks=2, stall_seconds=dict.fromkeys(CAUSES, 1.5))
    assert one + one == Totals(bytes=2, chunks=4, stall_seconds=dict.fromkeys(CAUSES, 3.0))
