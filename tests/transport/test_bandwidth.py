"""The limit of a process: its thread, its time of day, its streams, and who may set it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime

import pytest

from streamlink.config import LinkConfig
from streamlink.config.bandwidth import NO_LIMIT, BandwidthLimit
from streamlink.protocol.pacing import Portion
from streamlink.transport.bandwidth import BandwidthFacts, OneBandwidth
from streamlink.transport.transfer_pump import PacedDirection
from tests.support.virtual_clock import VirtualClock

TEN_MBIT = 1.25e6


def limited(bwlimit: str) -> LinkConfig:
    return LinkConfig.model_validate({"stream": {"bwlimit": bwlimit}})


class Hungry:
    """A stream that always wants more, for as long as it is told."""

    def __init__(self, clock: VirtualClock, wants: int, *, is_sending: bool = True) -> None:
        self.is_sending = is_sending
        self.moved = 0
        self.direction: PacedDirection | None = None
        self.done = clock.event()
        self._wants = wants

    def is_paced(self) -> bool:
        return self.direction is not None

    def pace(self, direction: PacedDirection | None, portion: Portion) -> None:
        self.direction = direction
        if direction is not None:
            direction.ask(self, portion.part_bytes, 0)

    def allow(self, nbytes: int, portion: Portion) -> None:
        self.moved += nbytes
        if self.moved >= self._wants:
            self.done.set()
        elif self.direction is not None:
            self.direction.ask(self, portion.part_bytes, 0)


class Faulty(Hungry):
    """Cannot take what it is given."""

    def allow(self, nbytes: int, portion: Portion) -> None:
        raise RuntimeError("a fault of this stream's own")


class Indebted(Hungry):
    """Has moved much more than it was permitted."""

    def pace(self, direction: PacedDirection | None, portion: Portion) -> None:
        if direction is not None:
            direction.ask(self, portion.part_bytes, 10**9)


class Rigid(Hungry):
    """Cannot keep to a limit."""

    def pace(self, direction: PacedDirection | None, portion: Portion) -> None:
        raise RuntimeError("a fault of this stream's own")


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock = VirtualClock()
    with clock.running():
        yield clock


@pytest.fixture
def one() -> OneBandwidth:
    # Not that of this process: other tests may have left a server that is still closing.
    return OneBandwidth()


@pytest.fixture
def bandwidth(one: OneBandwidth, clock: VirtualClock) -> Iterator[OneBandwidth]:
    """The limit of a process with one user, which asks for none."""
    with closing(one.open(LinkConfig(), clock)):
        yield one


def test_streams_of_a_direction_share_the_limit_and_the_other_direction_has_its_own(
    clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    bandwidth.change("10Mbit:5Mbit")
    began = clock()
    sent = [Hungry(clock, 1_000_000), Hungry(clock, 1_000_000)]
    received = Hungry(clock, 1_000_000, is_sending=False)
    for each in (*sent, received):
        bandwidth.join(each)
    for each in sent:
        assert each.done.wait(60)
    assert 2e6 / TEN_MBIT <= clock() - began <= 1.1 * 2e6 / TEN_MBIT
    assert abs(sent[0].moved - sent[1].moved) <= 1 << 16
    assert received.done.wait(60)
    assert 1e6 / (TEN_MBIT / 2) <= clock() - began <= 1.1 * 1e6 / (TEN_MBIT / 2)


def test_a_limit_is_changed_and_lifted_while_streams_move(
    clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    stream = Hungry(clock, 1 << 60)
    bandwidth.join(stream)
    assert not stream.is_paced()
    bandwidth.change("10Mbit")
    assert stream.is_paced()
    assert bandwidth.facts == BandwidthFacts("10Mbit", BandwidthLimit(TEN_MBIT, TEN_MBIT))
    bandwidth.change("off")
    assert not stream.is_paced()
    assert bandwidth.facts == BandwidthFacts("off", NO_LIMIT)


def test_the_time_of_day_changes_the_limit_within_a_second(
    clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    now = datetime.fromtimestamp(clock.wall())
    following = datetime.fromtimestamp(clock.wall() + 120)
    stream = Hungry(clock, 1 << 60)
    bandwidth.join(stream)
    bandwidth.change(f"{now:%H:%M},off {following:%H:%M},10Mbit")
    assert bandwidth.facts.limit == NO_LIMIT
    clock.event().wait(122)
    assert bandwidth.facts.limit == BandwidthLimit(TEN_MBIT, TEN_MBIT)
    assert stream.direction is not None


def test_a_debt_outlasts_no_timeout_of_those_that_are_open(
    clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    def seconds() -> float:
        stream = Indebted(clock, 1)
        began = clock()
        bandwidth.join(stream)
        assert stream.done.wait(60)
        return clock() - began

    bandwidth.change("10Mbit")
    assert seconds() > 1.9
    hasty = LinkConfig.model_validate({"timeouts": {"call_timeout": 1.0}})
    with closing(bandwidth.open(hasty, clock)):
        assert seconds() < 0.5
    assert seconds() > 1.9


def test_a_stream_that_fails_holds_up_no_other(
    clock: VirtualClock, bandwidth: OneBandwidth, caplog: pytest.LogCaptureFixture
) -> None:
    bandwidth.change("10Mbit")
    faulty, sound = Faulty(clock, 1), Hungry(clock, 500_000)
    bandwidth.join(faulty)
    bandwidth.join(sound)
    with caplog.at_level(logging.ERROR):
        assert sound.done.wait(60)
    assert "could not be given its part" in caplog.text


def test_a_stream_that_has_left_is_given_nothing(
    clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    bandwidth.change("10Mbit")
    stream = Hungry(clock, 1 << 60)
    bandwidth.join(stream)
    assert stream.direction is not None
    direction, stream.direction = stream.direction, None
    direction.leave(stream)
    clock.event().wait(1)
    moved = stream.moved
    clock.event().wait(5)
    assert stream.moved == moved


def test_a_new_limit_that_a_stream_cannot_take_reaches_all_others(
    clock: VirtualClock, bandwidth: OneBandwidth, caplog: pytest.LogCaptureFixture
) -> None:
    """The one that the time of day brings, too: it is given by the thread itself."""
    now = datetime.fromtimestamp(clock.wall())
    following = datetime.fromtimestamp(clock.wall() + 120)
    bandwidth.change(f"{now:%H:%M},off {following:%H:%M},10Mbit")
    streams = [Rigid(clock, 1), Hungry(clock, 500_000), Rigid(clock, 1)]
    for each in streams:
        bandwidth.join(each)
    with caplog.at_level(logging.ERROR):
        assert streams[1].done.wait(300)
    assert caplog.text.count("could not be given the new bandwidth limit") == 2


def test_a_fault_of_the_limit_itself_is_logged_and_passes(
    clock: VirtualClock, bandwidth: OneBandwidth, caplog: pytest.LogCaptureFixture
) -> None:
    bandwidth.change("10Mbit")
    stream = Hungry(clock, 500_000)
    bandwidth.join(stream)
    wall, clock.wall = clock.wall, failing_once(clock.wall)  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        assert stream.done.wait(60)
        clock.event().wait(5)
    clock.wall = wall  # type: ignore[method-assign]
    assert "the bandwidth limit of this process failed for a moment" in caplog.text
    later = Hungry(clock, 500_000)
    bandwidth.join(later)
    assert later.done.wait(60)


def failing_once(act: Callable[[], float]) -> Callable[[], float]:
    left = [OSError("no time zone")]

    def failing() -> float:
        if left:
            raise left.pop()
        return act()

    return failing


def test_all_servers_and_clients_of_a_process_share_one_limit(
    one: OneBandwidth, clock: VirtualClock
) -> None:
    with closing(one.open(limited("10M"), clock)), closing(one.open(LinkConfig(), clock)):
        assert one.facts.bwlimit == "10M"
        with pytest.raises(ValueError, match="'5M', and '10M' at another server or client"):
            one.open(limited("5M"), clock)
        one.open(limited("10M"), clock).close()
        assert one.facts.bwlimit == "10M"
    with closing(one.open(limited("5M"), clock)):
        assert one.facts.bwlimit == "5M"


def test_a_limit_ends_with_the_last_that_asked_for_it(
    one: OneBandwidth, clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    first, second = one.open(limited("10M"), clock), one.open(limited("10M"), clock)
    first.close()
    assert one.facts.bwlimit == "10M"
    second.close()
    assert one.facts.bwlimit == ""
    with closing(one.open(limited("5M"), clock)):
        assert one.facts.bwlimit == "5M"


def test_what_the_operator_has_set_stays_whoever_closes_or_comes_back(
    one: OneBandwidth, clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    limited_one = one.open(limited("10M"), clock)
    one.change("2M")
    limited_one.close()
    assert one.facts.bwlimit == "2M"
    with closing(one.open(limited("10M"), clock)):
        assert one.facts.bwlimit == "2M"


HASTY = LinkConfig.model_validate({"timeouts": {"streaming_ack_wait": 0.5}})
TOO_LOW = r"'10K' is too low.*streaming_ack_wait \(0.5 s\)"


def test_a_limit_too_low_for_any_of_them_is_refused_and_the_old_one_stays(
    one: OneBandwidth, clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    one.change("1M")
    with closing(one.open(HASTY, clock)):
        with pytest.raises(ValueError, match=TOO_LOW):
            one.change("10K")
        with pytest.raises(ValueError, match="'nonsense' is no bandwidth limit"):
            one.change("nonsense")
        assert one.facts.bwlimit == "1M"


def test_one_for_whose_timeouts_the_limit_is_too_low_is_refused_also_later(
    one: OneBandwidth, clock: VirtualClock
) -> None:
    with closing(one.open(limited("10K"), clock)):
        with pytest.raises(ValueError, match=TOO_LOW):
            one.open(HASTY, clock)
        one.change("1M")
        one.open(HASTY, clock).close()


def test_one_that_was_refused_or_has_closed_does_not_count(
    one: OneBandwidth, clock: VirtualClock, bandwidth: OneBandwidth
) -> None:
    hasty = one.open(HASTY, clock)
    hasty.close()
    hasty.close()
    one.change("10K")
    with pytest.raises(ValueError, match=TOO_LOW):
        one.open(HASTY, clock)
    one.change("9K")
    assert one.facts.bwlimit == "9K"


def test_where_nothing_is_open_there_is_nothing_to_limit(
    one: OneBandwidth, clock: VirtualClock
) -> None:
    assert one.facts == BandwidthFacts()
    one.join(Hungry(clock, 1))
    with pytest.raises(ValueError, match="no server or client"):
        one.change("1M")


def test_its_thread_runs_only_where_there_is_a_limit(
    one: OneBandwidth, clock: VirtualClock
) -> None:
    def count() -> int:
        return sum(each.name == "streamlink-bandwidth" for each in threading.enumerate())

    before = count()

    with closing(one.open(LinkConfig(), clock)):
        assert count() == before
        one.change("1M")
        assert count() == before + 1
    assert count() == before


def test_where_its_thread_cannot_start_the_limit_is_refused_and_nothing_changes(
    one: OneBandwidth, clock: VirtualClock, bandwidth: OneBandwidth, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", failing)
        with pytest.raises(RuntimeError, match="can't start"):
            one.change("10Mbit")
    assert one.facts == BandwidthFacts()
    one.change("10Mbit")
    stream = Hungry(clock, 500_000)
    one.join(stream)
    assert stream.done.wait(60)
