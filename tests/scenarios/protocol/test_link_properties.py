"""Both ends together, over a link that does whatever Hypothesis thinks of."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    AckTimeout,
    ChecksumError,
    CommunicationTimeout,
    OpenTimeout,
    ReadTimeout,
    StreamAborted,
    StreamlinkError,
)
from streamlink.extent import Extent
from streamlink.protocol.states import State
from tests.support.examples import examples
from tests.support.machines import KiB, small_config
from tests.support.strategies import Part, configs, parts, schedules, scripts, totals
from tests.support.virtual_line import Fault, Kind
from tests.support.virtual_link import Pause, Schedule, VirtualLink

IDLE = 115.0  # communication_timeout, and before it reconnect_timeout without a call and a call
# that brings no greeting (seconds)
LONGEST = 5_000.0  # no schedule here has a deadline that lies further away (seconds)


def content(nbytes: int) -> bytes:
    return random.Random(nbytes).randbytes(nbytes)


def assert_delivered(link: VirtualLink) -> None:
    assert (link.sender.error, link.receiver.error) == (None, None)
    assert (link.sender.state, link.receiver.state) == (State.DONE, State.DONE)
    assert bytes(link.got) == link.content[link.first : link.extent.stop]


@given(total=totals, config=configs(), schedule=schedules, has_pages=st.booleans())
@examples(300)
def test_whatever_happens_both_ends_finish_equal_or_with_a_documented_error(
    total: int, config: LinkConfig, schedule: Schedule, has_pages: bool
) -> None:
    pages = (b"one", b"two", b"three") if has_pages else ()
    link = VirtualLink(content(total), config, schedule, pages=pages)
    link.run()
    assert link.is_over
    assert link.now < LONGEST
    if link.sender.state is not State.DONE:
        assert {type(end.error) for end in (link.sender, link.receiver)} <= {
            ChecksumError,
            StreamAborted,
            AckTimeout,
            CommunicationTimeout,
            OpenTimeout,
            type(None),  # it had committed, and only its word did not arrive in time
        }
        assert link.sender.error is not None
    else:
        assert_delivered(link)


@given(part=parts(), config=configs(), schedule=schedules, has_pages=st.booleans())
@examples(300)
def test_whatever_happens_to_a_part_of_a_model_is_what_happens_to_a_whole_one(
    part: Part, config: LinkConfig, schedule: Schedule, has_pages: bool
) -> None:
    pages = (b"one", b"two", b"three") if has_pages else ()
    link = VirtualLink(
        content(part.total),
        config,
        schedule,
        pages=pages,
        extent=part.extent,
        resumed_at=part.resumed_at,
    )
    link.run()  # every byte is compared as it is delivered, every mark as it moves
    assert link.is_over
    assert link.now < LONGEST
    for end in (link.sender, link.receiver):
        assert part.extent.start <= end.received <= part.extent.stop or not end.received
        assert end.stats.moved_bytes <= part.extent.nbytes
    if link.sender.state is State.DONE:
        assert_delivered(link)
        assert link.sender.stats.extent == link.receiver.stats.extent
        assert link.sender.stats.extent == Extent(link.first, part.extent.stop)
    else:
        assert link.sender.error is not None


@given(part=parts(), latency=st.floats(0, 3), cuts=st.frozensets(st.integers(1, 60), max_size=6))
@examples(100)
def test_a_part_of_a_model_arrives_over_a_line_that_is_cut(
    part: Part, latency: float, cuts: frozenset[int]
) -> None:
    config = small_config()
    link = VirtualLink(
        content(part.total),
        config,
        Schedule(latency=latency, cuts=cuts),
        extent=part.extent,
        resumed_at=part.resumed_at,
    )
    link.run()
    assert_delivered(link)
    sent_again = link.sender.stats.resent_bytes
    assert sent_again <= link.cuts_made * config.stream.window_bytes


@given(total=totals, config=configs(), schedule=schedules)
@examples(150)
def test_without_damage_and_pauses_every_schedule_delivers(
    total: int, config: LinkConfig, schedule: Schedule
) -> None:
    calm = Schedule(
        latency=schedule.latency,
        cuts=schedule.cuts,
        away_seconds=schedule.away_seconds,
        is_noticed_late=schedule.is_noticed_late,
        read_seconds=schedule.read_seconds,
        write_seconds=schedule.write_seconds,
    )
    link = VirtualLink(content(total), config, calm)
    link.run()
    assert_delivered(link)
    sent_again = link.sender.stats.resent_bytes
    assert sent_again <= link.cuts_made * config.stream.window_bytes


@given(
    total=totals, latency=st.floats(0, 3), damaged=st.frozensets(st.integers(0, 30), max_size=12)
)
@examples(100)
def test_damage_that_repairs_can_mend_is_mended(
    total: int, latency: float, damaged: frozenset[int]
) -> None:
    config = small_config(max_repairs=100, communication_timeout=900.0, streaming_ack_wait=900.0)
    link = VirtualLink(content(total), config, Schedule(latency=latency, damaged=damaged))
    link.run()
    assert_delivered(link)
    assert link.sender.stats.repairs == link.receiver.stats.repairs <= len(damaged)


@pytest.mark.parametrize("window_bytes", [16 * KiB + 1, 30 * KiB, 33 * KiB - 5])
def test_a_slow_reader_is_sent_whole_chunks_whatever_is_left_of_the_window(
    window_bytes: int,
) -> None:
    config = small_config(min_chunk_bytes=4 * KiB, window_bytes=window_bytes)
    link = VirtualLink(content(400 * KiB), config, Schedule(latency=1e-4, read_seconds=1e-3))
    link.run()
    assert_delivered(link)
    assert link.sender.stats.chunks == 100


@pytest.mark.parametrize("frames", range(1, 60))
def test_a_cut_after_any_frame_costs_at_most_one_window(frames: int) -> None:
    config = small_config()
    link = VirtualLink(content(40 * KiB), config, Schedule(cuts=frozenset({frames})))
    link.run()
    assert_delivered(link)
    assert link.sender.stats.resent_bytes <= config.stream.window_bytes
    assert link.sender.resumes == link.cuts_made


@given(
    total=totals,
    config=configs(reconnect_timeout=30.0),
    schedule=scripts,
    has_pages=st.booleans(),
)
@examples(300)
def test_whatever_the_line_does_it_ends_in_time_and_both_ends_know_how(
    total: int, config: LinkConfig, schedule: Schedule, has_pages: bool
) -> None:
    pages = (b"one", b"two", b"three") if has_pages else ()
    link = VirtualLink(content(total), config, schedule, pages=pages)
    link.run()  # every byte is compared as it is delivered, every mark as it moves
    assert link.is_over
    assert link.longest_idle <= IDLE
    errors = [link.sender.error, link.receiver.error]
    if errors == [None, None]:
        assert_delivered(link)
    else:
        assert link.sender.error is not None  # else its word alone did not arrive in time
        assert all(isinstance(error, StreamlinkError | None) for error in errors)


@pytest.mark.parametrize("side", ["sender", "receiver", ""])
@pytest.mark.parametrize("kind", [Kind.STALL, Kind.HOLE, Kind.CUT])
def test_a_fault_that_is_short_is_outlived(kind: Kind, side: str) -> None:
    faults = (Fault(kind, at=2.0, seconds=9.0, side=side),)
    schedule = Schedule(faults=faults, up_rate=20_000.0)
    link = VirtualLink(content(100 * KiB), small_config(), schedule)
    link.run()
    assert_delivered(link)
    assert link.longest_idle >= (0.0 if kind is Kind.CUT else 8.0)


@pytest.mark.parametrize("side", ["sender", "receiver", ""])
@pytest.mark.parametrize("kind", [Kind.STALL, Kind.HOLE])
def test_a_line_that_stays_silent_ends_both_in_time(kind: Kind, side: str) -> None:
    faults = (Fault(kind, at=2.0, seconds=1e6, side=side),)
    schedule = Schedule(faults=faults, up_rate=20_000.0)
    link = VirtualLink(content(100 * KiB), small_config(), schedule)
    link.run(until=1e5)
    assert link.sender.error is not None
    assert link.receiver.error is not None
    assert link.longest_idle <= IDLE


def test_a_port_that_refuses_for_too_long_ends_both_after_the_reconnect_timeout() -> None:
    faults = (Fault(Kind.CUT, at=2.0), Fault(Kind.REFUSE, at=1.0, seconds=1e6))
    schedule = Schedule(faults=faults, up_rate=20_000.0)
    config = small_config(reconnect_timeout=30.0)
    link = VirtualLink(content(100 * KiB), config, schedule)
    link.run(until=1e5)
    for end in (link.sender, link.receiver):
        assert isinstance(end.error, StreamAborted)
        assert end.error.code is AbortCode.SESSION_LOST
    assert link.longest_idle <= 31.0


def test_a_narrow_and_uneven_line_delivers_without_a_repeat() -> None:
    schedule = Schedule(latency=0.2, jitter=(0.0, 0.9, 0.1), up_rate=500.0, down_rate=200.0)
    link = VirtualLink(content(48 * KiB), small_config(streaming_ack_wait=60.0), schedule)
    link.run()
    assert_delivered(link)
    assert link.sender.stats.resent_bytes == 0
    assert link.now >= 48 * KiB / 500


@pytest.mark.parametrize("number", range(12))
def test_a_damaged_frame_that_is_no_chunk_costs_a_call_and_nothing_else(number: int) -> None:
    schedule = Schedule(damaged_control=frozenset({number}))
    link = VirtualLink(content(24 * KiB), small_config(), schedule)
    link.run()
    assert_delivered(link)
    assert link.cuts_made == (1 if number < link._controls else 0)


def test_a_call_that_breaks_over_and_over_without_progress_ends_both_streams() -> None:
    schedule = Schedule(cuts=frozenset(range(1, 10_000)), away_seconds=3.0)
    link = VirtualLink(content(40 * KiB), small_config(reconnect_timeout=900.0), schedule)
    link.run()
    assert isinstance(link.sender.error, CommunicationTimeout)
    assert link.receiver.is_closed
    assert link.now <= 61 + 3


def test_a_slow_link_that_moves_outlives_any_multiple_of_the_timeouts() -> None:
    schedule = Schedule(latency=9.0)  # a chunk every 18 s, where 20 s of silence would fail
    config = small_config(window_bytes=8 * KiB, open_timeout=20.0)
    link = VirtualLink(content(800 * KiB), config, schedule)
    link.run()
    assert_delivered(link)
    assert link.now > 20 * config.timeouts.communication_timeout


def test_a_slow_reader_that_moves_is_left_alone_by_both_ends() -> None:
    config = small_config(window_bytes=256 * KiB)
    link = VirtualLink(content(400 * KiB), config, Schedule(read_seconds=39.0))
    link.run()
    assert_delivered(link)
    assert link.now > 60 * config.timeouts.communication_timeout


def test_a_slow_source_is_left_alone_while_the_reader_keeps_up() -> None:
    link = VirtualLink(content(80 * KiB), small_config(), Schedule(write_seconds=59.0))
    link.run()
    assert_delivered(link)
    assert link.now > 1000


def test_a_slow_commit_that_reports_progress_is_left_alone() -> None:
    link = VirtualLink(content(100), small_config(), Schedule(commit_seconds=59, commit_steps=50))
    link.run()
    assert_delivered(link)


@pytest.mark.parametrize("takes", [0, 1, 3])
def test_a_reader_that_stalls_is_named_at_both_ends_within_a_second(takes: int) -> None:
    config = small_config()
    link = VirtualLink(content(80 * KiB), config, Schedule(last_read=takes))
    link.run()
    assert isinstance(link.receiver.error, ReadTimeout)
    assert isinstance(link.sender.error, StreamAborted)
    assert "did not read" in link.sender.error.reason
    assert link.now <= config.timeouts.streaming_read_timeout + 1


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_a_process_that_stood_still_does_not_blame_its_peer(side: str) -> None:
    config = small_config(
        streaming_ack_wait=900.0, communication_timeout=900.0, reconnect_timeout=900.0
    )
    schedule = Schedule(pauses=(Pause(side, 0.05, 800.0),), write_seconds=0.01)
    link = VirtualLink(content(80 * KiB), config, schedule)
    link.run()
    assert_delivered(link)
    assert link.now > 800


def test_a_process_that_stands_still_for_too_long_is_noticed_by_the_other() -> None:
    schedule = Schedule(pauses=(Pause("receiver", 0.05, 800.0),), write_seconds=0.01)
    link = VirtualLink(content(80 * KiB), small_config(), schedule)
    link.run()
    assert isinstance(link.sender.error, AckTimeout)
    assert isinstance(link.receiver.error, StreamAborted)


def test_a_window_of_one_chunk_delivers() -> None:
    config = small_config(chunk_bytes=8 * KiB, min_chunk_bytes=8 * KiB, window_bytes=8 * KiB)
    link = VirtualLink(content(100 * KiB + 1), config)
    link.run()
    assert_delivered(link)


def test_a_model_without_a_byte_is_committed() -> None:
    link = VirtualLink(b"", small_config(), pages=(b"",))
    link.run()
    assert_delivered(link)


def test_a_commit_that_was_lost_with_its_call_is_said_again_on_the_next() -> None:
    link = VirtualLink(b"x" * KiB, small_config(), Schedule(latency=1.0))
    while not link.receiver.is_closed:
        link.run(until=link.now + 0.25)
    assert link.sender.state is State.FINISHING
    link.cut()
    link.run()
    assert_delivered(link)


def test_the_other_end_learns_of_a_failure_that_came_while_there_was_no_call() -> None:
    link = VirtualLink(content(80 * KiB), small_config(), Schedule(away_seconds=5.0))
    link.run(until=0.03)
    link.cut()
    link.give_up_receiving()
    link.run()
    assert isinstance(link.sender.error, StreamAborted)
    assert link.sender.error.by_peer
