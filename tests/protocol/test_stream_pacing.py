"""Both ends of a stream under a bandwidth limit: it holds, nothing times out, all arrives."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlink.config import LinkConfig
from streamlink.extent import Extent
from streamlink.protocol.pacing import Pacer, Portion
from streamlink.protocol.states import State
from streamlink.protocol.stats import LIMIT
from tests.support.virtual_link import Schedule, VirtualLink

RATE = 100e3
STEP = 0.01
# Shorter than the transfer, and than a part would take that is not cut to the limit.
HASTY = LinkConfig.model_validate(
    {
        "stream": {"window_bytes": "4MiB"},
        "timeouts": {
            "streaming_read_timeout": 1.0,
            "streaming_ack_wait": 1.0,
            "communication_timeout": 1.0,
            "call_timeout": 1.0,
        },
    }
)

ends = st.sampled_from(("sender", "receiver"))
schedules = st.builds(
    Schedule,
    latency=st.sampled_from((0.0005, 0.02, 0.1)),
    away_seconds=st.just(0.2),  # of the outages' own deadline other tests know
    up_rate=st.sampled_from((0.0, 1e6)),
    cuts=st.frozensets(st.integers(5, 60), max_size=2),
    damaged=st.frozensets(st.integers(0, 20), max_size=2),
)


class PacedLink:
    """A virtual link, one or both of whose ends keep to a limit; time passes in small steps."""

    def __init__(
        self, link: VirtualLink, limited: tuple[str, ...] = ("receiver",), rate: float = RATE
    ) -> None:
        self.link = link
        self.machines = {name: getattr(link, name) for name in limited}
        self.pacers = {name: Pacer[str]() for name in limited}
        self.arrived: list[tuple[float, int]] = []
        """When, and how many bytes on the line."""
        for pacer in self.pacers.values():
            pacer.bound_debt(link.config.bwlimit_debt_seconds)
        self.limit(rate)

    def run(self, seconds: float = 1e3) -> None:
        until = self.link.now + seconds
        while not self.link.is_over and self.link.now < until:
            before = self._travelled
            self.link.run(until=self.link.now + STEP)
            self.arrived.append((self.link.now, self._travelled - before))
            for name, pacer in self.pacers.items():
                self._deal(name, pacer)

    @property
    def _travelled(self) -> int:
        return len(self.link.got) - self.link.receiver.stats.saved_bytes

    def lift(self) -> None:
        for name, machine in self.machines.items():
            machine.pace(0)
            self.pacers[name].limit(None, now=self.link.now)

    def limit(self, rate: float) -> None:
        for name, machine in self.machines.items():
            pacer = self.pacers[name]
            pacer.limit(rate, now=self.link.now)
            machine.pace(*pacer.portion(1))

    @property
    def is_held_up(self) -> bool:
        """Whether a debt holds up an end for half a second more at least."""
        waits = (each.wait(now=self.link.now) for each in self.pacers.values())
        return max(wait or 0.0 for wait in waits) > 0.5

    def _deal(self, name: str, pacer: Pacer[str]) -> None:
        machine = self.machines[name]
        if uncharged := machine.take_uncharged():
            pacer.charge(uncharged)
        pacer.ask(name, machine.wanted_bytes)
        while (part := pacer.next(now=self.link.now)) is not None:
            machine.allow(part[1])
            pacer.ask(name, machine.wanted_bytes)

    def most_in(self, span: float) -> float:
        """The most bytes that arrived within ``span`` seconds."""
        steps = round(span / STEP)
        sums = [0, *accumulate(size for _, size in self.arrived)]
        return max(b - a for a, b in zip(sums, sums[steps:] or sums[-1:], strict=False))


def content_of(nbytes: int) -> bytes:
    return bytes(each % 251 for each in range(nbytes))


@settings(max_examples=10)
@given(ends, schedules)
def test_a_limited_end_keeps_to_the_limit_and_nothing_times_out(
    end: str, schedule: Schedule
) -> None:
    content = content_of(100_000)
    paced = PacedLink(VirtualLink(content, HASTY, schedule), (end,))
    paced.run()
    assert paced.link.sender.state is State.DONE
    assert paced.link.receiver.state is State.DONE
    assert bytes(paced.link.got) == content
    # What waits behind a gap, or was on its way, arrives at once: half a second's at most.
    assert paced.most_in(1.0) <= 1.7 * RATE


@pytest.mark.parametrize("end", ["sender", "receiver"])
@pytest.mark.parametrize("latency", [0.0005, 0.025, 0.1])
def test_a_limited_end_uses_the_limit(end: str, latency: float) -> None:
    content = content_of(400_000)
    paced = PacedLink(VirtualLink(content, HASTY, Schedule(latency=latency)), (end,))
    paced.run()
    assert 0.9 * RATE <= len(content) / (paced.link.now - 4 * latency) <= RATE
    assert paced.most_in(1.0) <= 1.25 * RATE


def test_both_ends_may_be_limited() -> None:
    content = content_of(200_000)
    paced = PacedLink(VirtualLink(content, HASTY), ("sender", "receiver"))
    paced.run()
    assert bytes(paced.link.got) == content
    assert paced.link.now >= len(content) / RATE


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_a_limit_that_is_lifted_lets_the_rest_travel_at_once(end: str) -> None:
    content = content_of(1_000_000)
    paced = PacedLink(VirtualLink(content, HASTY), (end,))
    paced.run(2.0)
    assert len(paced.link.got) <= 2.2 * RATE
    paced.lift()
    paced.run()
    assert bytes(paced.link.got) == content
    assert paced.link.now < 4.0


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_a_limit_set_on_the_way_leaves_what_was_promised_and_then_holds(end: str) -> None:
    content = content_of(1_500_000)
    link = VirtualLink(content, HASTY, Schedule(up_rate=1e6))
    link.run(until=0.3)
    left = len(content) - link.sender.position  # the rest is on its way
    paced = PacedLink(link, (end,), rate=300e3)
    paced.run()
    assert bytes(link.got) == content
    if end == "sender":  # a receiver has promised its window, which is larger than the model
        assert left > 0
        assert link.now >= 0.3 + left / 300e3


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_the_time_that_the_limit_takes_is_called_so_and_counts_for_the_rate(end: str) -> None:
    paced = PacedLink(VirtualLink(content_of(300_000), HASTY), (end,))
    paced.run()
    stats = getattr(paced.link, end).stats
    stalls = stats.stalls(now=paced.link.now)
    assert stalls[LIMIT] == max(stalls.values())
    for each in (paced.link.sender, paced.link.receiver):
        assert 0.8 * RATE <= (each.stats.mean_rate or 0.0) <= 1.2 * RATE


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_a_sender_knows_whether_it_waited_for_a_limit(end: str) -> None:
    stream = HASTY.stream.model_copy(update={"chunk_bytes": 4096, "min_chunk_bytes": 1024})
    small = HASTY.model_copy(update={"stream": stream})
    found = {}
    for each, config, rate, seconds in (
        ("limit", HASTY, RATE, 0.0),
        ("source", small, 10 * RATE, 0.05),
    ):
        near = Schedule(latency=0.0005, write_seconds=seconds)
        link = VirtualLink(content_of(400_000), config, near)
        PacedLink(link, (end,), rate).run()
        found[each] = sum(link.limited) / len(link.limited)
    assert found["limit"] > 0.5
    assert found["source"] < 0.2


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_the_time_in_which_a_connection_was_away_is_no_wait_for_the_limit(end: str) -> None:
    schedule = Schedule(cuts=frozenset({40}), away_seconds=20.0)
    patient = LinkConfig.model_validate({"stream": {"window_bytes": "4MiB"}})
    paced = PacedLink(VirtualLink(content_of(300_000), patient, schedule), (end,))
    paced.run()
    assert paced.link.now > 20.0
    assert paced.link.sender.stats.moving_seconds < 5.0


def test_what_an_encoding_saves_is_not_counted() -> None:
    content = content_of(400_000)
    for end in ("sender", "receiver"):
        paced = PacedLink(VirtualLink(content, HASTY, shrinks=4), (end,))
        paced.run()
        assert bytes(paced.link.got) == content
        assert paced.link.now <= 0.5 * len(content) / RATE


@pytest.mark.parametrize("latency", [0.01, 0.1])
@pytest.mark.parametrize("shrinks", [2, 4, 8])
def test_a_limited_receiver_uses_the_limit_whatever_encodings_save(
    shrinks: int, latency: float
) -> None:
    content = content_of(400_000 * shrinks)
    config = LinkConfig()  # with shorter timeouts less may be expected of encodings
    paced = PacedLink(VirtualLink(content, config, Schedule(latency=latency), shrinks=shrinks))
    paced.run()
    assert bytes(paced.link.got) == content
    # The first round trips are those of a receiver that does not know yet what is saved.
    assert 0.85 * RATE <= 400_000 / (paced.link.now - 4 * latency) <= RATE


@pytest.mark.parametrize("shrinks", [4, 16])
def test_where_nothing_shrinks_any_more_the_limit_is_exceeded_by_a_fifth_at_most_and_made_up_for(
    shrinks: int,
) -> None:
    shrunk, plain = 1_000_000 * shrinks, 1_200_000
    link = VirtualLink(
        content_of(shrunk + plain),
        LinkConfig(),  # a debt may take longer than the timeouts of the other tests
        Schedule(latency=0.1),
        shrinks=shrinks,
        plain_from=shrunk,
    )
    paced = PacedLink(link)
    paced.run()
    assert bytes(link.got) == link.content
    assert paced.most_in(10.0) <= 1.2 * 10 * RATE
    assert paced.most_in(15.0) <= 15 * RATE


def test_what_shrinks_no_more_lets_no_timeout_of_a_second_expire() -> None:
    shrunk, plain = 8_000_000, 600_000
    link = VirtualLink(
        content_of(shrunk + plain), HASTY, Schedule(latency=0.1), shrinks=16, plain_from=shrunk
    )
    PacedLink(link).run()
    assert link.receiver.state is State.DONE
    assert bytes(link.got) == link.content


def test_a_limit_that_is_lowered_during_a_debt_lets_no_timeout_expire() -> None:
    shrunk, plain = 8_000_000, 4_000_000
    config = LinkConfig.model_validate({"timeouts": {"communication_timeout": 5.0}})
    link = VirtualLink(
        content_of(shrunk + plain), config, Schedule(latency=0.1), shrinks=8, plain_from=shrunk
    )
    paced = PacedLink(link, rate=1e6)
    while not paced.is_held_up:
        paced.run(STEP)
        assert not link.is_over
    paced.run(0.5)  # what is on its way arrives, and charges nothing later
    paced.limit(50e3)
    paced.run()
    assert link.receiver.state is State.DONE
    assert bytes(link.got) == link.content


@pytest.mark.parametrize("shrinks", [1.25, 1.5, 1.75, 2.25, 3.5, 4, 8])
@pytest.mark.parametrize("window", [8192, 16384, 65536, 1_000_000])
def test_in_a_small_window_encodings_cost_no_round_trip_for_a_few_bytes_that_do_not_fit(
    window: int, shrinks: float
) -> None:
    small = {"window_bytes": window, "chunk_bytes": window, "initial_window_bytes": 4096}
    config = LinkConfig.model_validate({"stream": {**small, "min_chunk_bytes": 1024}})

    def seconds(shrinks: float) -> float:
        content = content_of(320 * 1024)
        link = VirtualLink(content, config, Schedule(latency=0.02), shrinks=shrinks)
        PacedLink(link, rate=10 * RATE).run()
        assert bytes(link.got) == content
        return link.now

    assert seconds(shrinks) <= seconds(1)


def test_a_receiver_that_is_limited_on_the_way_pays_nothing_for_what_it_has_promised() -> None:
    config = LinkConfig.model_validate(
        {"stream": {"window_bytes": "64KiB", "chunk_bytes": "16KiB"}}
    )
    link = VirtualLink(content_of(400_000), config, Schedule(up_rate=50e3), shrinks=4)
    link.run(until=0.5)
    link.receiver.pace(*Portion(4096, 8192, 4.0))
    link.run(until=5.0)
    assert not link.is_over
    assert link.receiver.take_uncharged() == 0
    link.receiver.allow(4096)
    link.run(until=10.0)
    assert link.receiver.take_uncharged() == 1024 - 4096


def test_an_extent_and_a_receiver_that_has_some_bytes_already_are_limited_too() -> None:
    content = content_of(300_000)
    for end in ("sender", "receiver"):
        extent = Extent(50_000, 250_000)
        link = VirtualLink(content, HASTY, extent=extent, resumed_at=100_000)
        paced = PacedLink(link, (end,))
        paced.run()
        assert bytes(link.got) == content[100_000:250_000]
        assert 1.3 <= link.now <= 2.0


def test_a_receiver_with_a_window_smaller_than_two_parts_moves_all_the_same() -> None:
    small = {"window_bytes": 8192, "chunk_bytes": 4096, "initial_window_bytes": 4096}
    config = LinkConfig.model_validate({"stream": {**small, "min_chunk_bytes": 1024}})
    content = content_of(100_000)
    for end in ("sender", "receiver"):
        paced = PacedLink(VirtualLink(content, config), (end,), rate=10 * RATE)
        paced.run()
        assert bytes(paced.link.got) == content
