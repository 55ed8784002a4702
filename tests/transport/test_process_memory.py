"""The memory that the servers and clients of one process share."""

from __future__ import annotations

import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ConnectFailed, StreamAborted
from streamlink.link.client import ClientLink
from streamlink.link.server import Server
from streamlink.protocol.memory_budget import Need
from streamlink.testing import memory_address
from streamlink.timers import start_timer
from streamlink.transport.process_memory import Seat, Share, open_memory
from tests.support.peers import SMALL, STREAM, WAIT
from tests.support.virtual_clock import VirtualClock

KiB = 1 << 10


def settings(seats: int) -> LinkConfig:
    """Return settings whose memory has room for so many sessions, of 24 KiB each."""
    return LinkConfig(
        stream={**STREAM.model_dump(), "memory_bytes": seats * 24 * KiB},
        timeouts=SMALL.timeouts,
        limits={"max_streams": 4},
    )


class Stream:
    """Takes a share, and does nothing with it."""

    has: Share | None = None
    ended: tuple[AbortCode, str] | None = None

    def share(self, share: Share) -> None:
        self.has = share

    def abort(self, code: AbortCode, reason: str) -> None:
        self.ended = code, reason


def a_stream(seat: Seat) -> Share:
    seat.take(stream := Stream())
    assert stream.has is not None
    return stream.has


def test_a_process_without_the_setting_shares_nothing() -> None:
    assert open_memory(SMALL) is None


def test_all_that_is_open_shares_one_memory_and_the_last_to_close_drops_it() -> None:
    config = settings(3)
    first, second = open_memory(config), open_memory(config)
    assert first is not None
    assert first is second
    first.close()
    with pytest.raises(ValueError, match=r"is 98304, and 73728 at another .* the same"):
        open_memory(settings(4))
    first.close()
    other = open_memory(settings(4))
    assert other is not None
    assert other.total_bytes == 4 * 24 * KiB
    other.close()


def test_a_seat_that_waits_is_given_as_soon_as_there_is_room() -> None:
    clock = VirtualClock()
    memory = open_memory(settings(2))
    assert memory is not None
    with clock.running():
        first = memory.seat(settings(2), clock)
        assert first is not None
        assert memory.seat(settings(2), clock) is not None
        began = clock.now
        start_timer(clock, 2.0, first.vacate)
        assert memory.seat(settings(2), clock) is not None
        assert clock.now - began == pytest.approx(2.0)
    memory.close()


def test_a_seat_for_which_there_is_no_room_is_given_up_after_a_while() -> None:
    clock = VirtualClock()
    memory = open_memory(settings(2))
    assert memory is not None
    with clock.running():
        assert memory.seat(settings(2), clock) is not None
        last = memory.seat(settings(2), clock)
        assert last is not None
        assert memory.seat(settings(2), clock) is None
        assert clock.now > 0
        last.vacate()
        last.vacate()
        assert memory.seat(settings(2), clock) is not None, "nobody waits in front of it"
    memory.close()


def test_a_seat_whose_wait_is_interrupted_is_given_up() -> None:
    memory = open_memory(settings(2))
    assert memory is not None
    seats = [memory.seat(settings(2), running_time) for _ in range(2)]

    def interrupt(seconds: float) -> bool:
        raise KeyboardInterrupt

    clock = VirtualClock()
    event = clock.event()
    event.wait = interrupt  # type: ignore[assignment, method-assign]
    clock.event = lambda: event  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        memory.seat(settings(2), clock)
    for each in seats:
        assert each is not None
        each.vacate()
    assert memory.dealt_bytes == 0
    memory.close()


def test_streams_have_the_places_of_their_seat_and_return_what_they_had() -> None:
    config = settings(8)
    memory = open_memory(config)
    assert memory is not None
    seat = memory.seat(config, running_time)
    assert seat is not None
    shares = [a_stream(seat) for _ in range(6)]
    seat.take(late := Stream())
    assert late.ended is not None
    assert late.ended[0] is AbortCode.REFUSED
    assert late.ended[1].endswith("has memory reserved for: limits.max_streams and two")
    least = config.stream.least_stream_bytes
    assert shares[0].settle(Need(0, 0)) == least
    assert shares[0].settle(Need(10 * least, 0)) >= 10 * least
    assert memory.dealt_bytes > 24 * KiB
    for share in shares:
        share.leave()
    assert memory.dealt_bytes == 24 * KiB
    seat.vacate()
    assert memory.dealt_bytes == 0
    seat.take(late := Stream())  # its session, which has ended, ends it
    assert (late.has, late.ended) == (None, None)
    memory.close()


def test_room_for_the_clients_of_a_server_is_kept_but_never_more_than_half() -> None:
    config = settings(8)  # and so for 7 clients
    memory = open_memory(config)
    assert memory is not None
    memory.expect(config)
    seat = memory.seat(config, running_time)
    assert seat is not None
    share = a_stream(seat)
    least, half = config.stream.least_stream_bytes, 4 * 24 * KiB
    assert share.settle(Need(1 << 30, 0)) == least + half
    share.leave()
    seat.vacate()
    memory.close()


def test_a_server_says_to_a_client_that_other_ends_of_its_process_have_the_memory() -> None:
    config = settings(3)
    memory = open_memory(config)
    assert memory is not None
    clock = VirtualClock()
    with clock.running(), Server(memory_address(), config, clock=clock) as server:
        taken = [memory.seat(config, clock) for _ in range(3)]
        link = ClientLink(server.address, name="a", serve=lambda _: None, config=SMALL, clock=clock)
        with pytest.raises(StreamAborted, match=r"no memory for another client now: 73728 of"):
            link.start()
        link.close()
        link = ClientLink(
            server.address, name="a", serve=lambda _: None, config=config, clock=clock
        )
        with pytest.raises(ConnectFailed, match=r"no memory for another session: 73728 of"):
            link.start()
        link.close()
        for seat in taken:
            assert seat is not None
            seat.vacate()
        link = ClientLink(
            server.address, name="a", serve=lambda _: None, config=config, clock=clock
        )
        link.start()
        assert server.wait_for_peer("a", WAIT) is not None
        link.close()
        assert server.wait_until_left("a", WAIT)
    assert memory.dealt_bytes == 0
    memory.close()
