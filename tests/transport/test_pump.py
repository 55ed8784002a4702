"""One machine, its lock, and the call of the moment; and the ticker many pumps share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, OpenTimeout, StreamAborted, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol.events import Committed, Opened
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump
from streamlink.transport.ticker import Ticker
from tests.support.joined_pumps import JoinedPumps
from tests.support.peers import SMALL, WAIT, config
from tests.support.virtual_clock import VirtualClock

DATA = bytes(range(256)) * 40


@pytest.fixture
def time() -> VirtualClock:
    return VirtualClock(100.0)


def sender(time: VirtualClock | None = None, total: int = len(DATA)) -> SendPump:
    machine = SendStream(SMALL, stream_id=7, total_bytes=total, peer_name="there", name="out")
    return SendPump(machine, clock=time or running_time)


def receiver(time: VirtualClock | None = None) -> ReceivePump:
    machine = ReceiveStream(SMALL, stream_id=7, peer_name="here", name="in")
    return ReceivePump(machine, clock=time or running_time)


@pytest.fixture
def joined() -> Iterator[tuple[SendPump, ReceivePump]]:
    carrier = JoinedPumps(sender(), receiver())
    carrier.join()
    yield carrier.left, carrier.right  # type: ignore[misc]
    for pump in (carrier.left, carrier.right):
        pump.abort(AbortCode.CANCELLED, "the test is over")
    carrier.close()


def take(pump: ReceivePump) -> bytes:
    """Receive a whole model on this thread and commit it."""
    taken = b""
    event = pump.next(WAIT)
    assert isinstance(event, Opened)
    pump.accept(wants_spec=False)
    while len(taken) < event.open.total_bytes:
        piece = pump.next(WAIT)
        taken += b"".join(piece.payload)  # type: ignore[union-attr]
        pump.release(len(taken) - pump.stream.consumed)
    pump.next(WAIT)
    pump.commit("digest")
    return taken


def test_bytes_written_at_one_end_are_read_at_the_other(
    joined: tuple[SendPump, ReceivePump],
) -> None:
    outgoing, incoming = joined
    taken: list[bytes] = []
    reader = threading.Thread(target=lambda: taken.append(take(incoming)))
    reader.start()
    while (room := outgoing.wait_room()) is not None:
        offset, nbytes = room
        outgoing.write(offset, (memoryview(DATA)[offset : offset + nbytes],))
    outgoing.finish("digest")
    assert outgoing.wait_committed()
    reader.join(WAIT)
    assert taken == [DATA]
    assert outgoing.poll(0) is None


def test_what_no_longer_fits_is_dropped(joined: tuple[SendPump, ReceivePump]) -> None:
    outgoing, incoming = joined
    threading.Thread(target=_accept, args=(incoming,)).start()
    assert outgoing.wait_room() is not None
    outgoing.write(500, (memoryview(b"from elsewhere"),))
    assert outgoing.stream.position == 0


def _accept(pump: ReceivePump) -> None:
    pump.next(WAIT)
    pump.accept(wants_spec=False)


def test_an_abort_reaches_the_other_end_with_its_reason(
    joined: tuple[SendPump, ReceivePump],
) -> None:
    outgoing, incoming = joined
    incoming.abort(AbortCode.REFUSED, "not this one")
    with pytest.raises(StreamAborted) as told:
        outgoing.wait_room()
    assert (told.value.code, told.value.reason) == (AbortCode.REFUSED, "not this one")
    assert told.value.by_peer


def test_acting_on_a_stream_that_failed_raises_why_it_did() -> None:
    pump = receiver()
    pump.abort(AbortCode.CANCELLED, "not wanted")
    with pytest.raises(StreamAborted, match="not wanted"):
        pump.release(0)


def test_a_new_call_takes_over_and_the_old_ones_writer_ends(time: VirtualClock) -> None:
    pump = sender(time)
    first = pump.attach(lambda: None)
    frames = pump.outgoing(first)
    assert isinstance(next(frames), f.Open)
    second = pump.attach(lambda: None)
    assert list(frames) == []
    again = next(pump.outgoing(second))
    assert isinstance(again, f.Open)
    assert again.is_resumed


def test_frames_of_an_old_call_are_ignored(time: VirtualClock) -> None:
    pump = sender(time)
    first = pump.attach(lambda: None)
    pump.attach(lambda: None)
    pump.incoming([f.Abort(AbortCode.CANCELLED, "of the old call")], first)
    assert pump.stream.error is None


def test_the_end_of_an_old_call_does_not_end_the_new_one(time: VirtualClock) -> None:
    pump = sender(time)
    first = pump.attach(lambda: None)
    second = pump.attach(lambda: None)
    pump.detach(first)
    assert isinstance(next(pump.outgoing(second)), f.Open)


def test_a_call_that_cannot_say_the_last_words_is_cut(time: VirtualClock) -> None:
    cut = threading.Event()
    pump = sender(time)
    pump.attach(cut.set)
    pump.abort(AbortCode.CANCELLED, "enough")
    pump.tick()
    assert not cut.is_set()
    time.now += 1.1
    pump.tick()
    assert cut.is_set()
    assert pump.is_over


def test_cutting_ends_the_call_at_once(time: VirtualClock) -> None:
    cut = threading.Event()
    pump = sender(time)
    pump.attach(cut.set)
    pump.cut()
    pump.cut()
    assert cut.is_set()


def test_a_tick_wakes_nobody_while_no_clock_has_run_out(time: VirtualClock) -> None:
    woken = 0

    def wake() -> None:
        nonlocal woken
        woken += 1

    pump = sender(time)
    call = pump.attach(lambda: None)
    pump.wake_writer(call, wake)
    before = woken
    for _ in range(5):
        time.now += 0.2
        pump.tick()
    assert woken == before
    assert pump.stream.error is None


def test_an_owner_that_has_not_taken_its_event_is_told_again_at_each_tick(
    time: VirtualClock,
) -> None:
    told: list[float] = []
    pump = receiver(time)
    pump.on_event = lambda: told.append(time.now)
    call = pump.attach(lambda: None)
    pump.incoming([f.Open(7, f.Attempt(), len(DATA), b"d" * 16, 1, 4096)], call)
    del told[:]
    for _ in range(2):
        time.now += 0.2
        pump.tick()
    assert len(told) == 2
    assert isinstance(pump.poll(0), Opened)
    pump.tick()
    assert len(told) == 2


def test_a_tick_expires_the_machines_clocks(time: VirtualClock) -> None:
    pump = sender(time)
    pump.attach(lambda: None)
    time.now += SMALL.timeouts.open_timeout
    pump.tick()
    assert isinstance(pump.stream.error, OpenTimeout)


def test_an_offered_stream_nobody_opens_expires(time: VirtualClock) -> None:
    pump = sender(time)
    with pump.locked() as (machine, now):
        machine.offer(now=now)
    time.now += SMALL.timeouts.open_timeout
    pump.tick()
    assert isinstance(pump.stream.error, OpenTimeout)


def test_an_offer_after_the_opening_changes_nothing(time: VirtualClock) -> None:
    pump = sender(time)
    pump.attach(lambda: None)
    time.now += 20.0
    with pump.locked() as (machine, now):
        machine.offer(now=now)
    time.now += SMALL.timeouts.open_timeout - 20.0
    pump.tick()
    assert isinstance(pump.stream.error, OpenTimeout)


def test_the_ticker_wakes_who_waits_for_an_expired_stream() -> None:
    machine = SendStream(config(open_timeout=0.3), stream_id=7, total_bytes=1, peer_name="there")
    pump = SendPump(machine, clock=running_time)
    ticker = Ticker(clock=running_time)
    ticker.add(pump)
    with pump.locked() as (_, now):
        machine.offer(now=now)
    with pytest.raises(OpenTimeout):
        pump.wait_room()
    ticker.close()


def test_closing_the_receiver_after_its_commit_is_no_error(
    joined: tuple[SendPump, ReceivePump],
) -> None:
    outgoing, incoming = joined
    threading.Thread(target=take, args=(incoming,)).start()
    while (room := outgoing.wait_room()) is not None:
        outgoing.write(room[0], (memoryview(DATA)[room[0] : sum(room)],))
    outgoing.finish("digest")
    assert outgoing.wait_committed()
    outgoing.abort(AbortCode.CANCELLED, "too late to matter")
    assert outgoing.stream.error is None
    assert not isinstance(outgoing.poll(0), Committed)
    with pytest.raises(StreamlinkError):
        incoming.release(1)
