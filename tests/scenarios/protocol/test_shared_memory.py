"""Streams over lines of different length share one memory, in virtual time, without a pump."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.config import LinkConfig, StreamConfig
from streamlink.protocol.memory_budget import MemoryBudget
from tests.support.virtual_link import Schedule, VirtualLink

KiB, MiB = 1 << 10, 1 << 20
CONFIG = LinkConfig(
    stream=StreamConfig(
        chunk_bytes=64 * KiB,
        min_chunk_bytes=16 * KiB,
        initial_window_bytes=64 * KiB,
        window_bytes=4 * MiB,
    ),
)
CONTENT = bytes(range(256)) * (48 * KiB)  # 12 MiB
STEP = 0.01


class Sharing:
    """Some links whose receivers, or senders, share one memory."""

    def __init__(self, memory_bytes: int, *links: VirtualLink, side: str = "receiver") -> None:
        self.links = links
        self.machines = [getattr(link, side) for link in links]
        self.budget = MemoryBudget(memory_bytes)
        for number in range(len(links)):
            assert self.budget.claim(number, CONFIG.places)
            self.budget.join(number, number)
        self.now = 0.0
        self._settle()

    def steps(self, seconds: float) -> Iterator[list[int]]:
        """Let time pass; yields after each step what each stream has (bytes)."""
        while self.now < seconds and not all(link.is_over for link in self.links):
            self.now += STEP
            for link in self.links:
                if not link.is_over:
                    link.run(until=self.now)
            yield self._settle()

    def _settle(self) -> list[int]:
        for number, machine in enumerate(self.machines):
            if machine.is_closed:
                self.budget.leave(number)
                continue
            need = machine.memory_need(now=self.now)
            assert need.held <= self.budget.dealt(number), "more is in use than it has"
            machine.use_memory(self.budget.settle(number, need))
        assert self.budget.dealt_bytes <= self.budget.total_bytes
        return [
            0 if machine.is_closed else self.budget.dealt(number)
            for number, machine in enumerate(self.machines)
        ]


SIDES = pytest.mark.parametrize("side", ["sender", "receiver"])


def a_link(latency: float, rate: float = 4 * MiB, **schedule: float) -> VirtualLink:
    return VirtualLink(CONTENT, CONFIG, Schedule(latency=latency, up_rate=rate, **schedule))  # type: ignore[arg-type]


@SIDES
def test_the_longer_line_gets_more_while_both_are_as_fast(side: str) -> None:
    far, near = a_link(0.1), a_link(0.002)
    sharing = Sharing(16 * MiB, far, near, side=side)
    most = [0, 0]
    for has in sharing.steps(10.0):
        most = [max(pair) for pair in zip(most, has, strict=True)]
    assert bytes(far.got) == bytes(near.got) == CONTENT
    assert most[0] > 2 * most[1]
    # What it would have had with a window of its own, which is larger than it needs.
    assert far.now < 1.05 * alone(0.1) + 1.0


def alone(latency: float) -> float:
    """Return how long a stream takes that shares nothing."""
    link = a_link(latency)
    link.run()
    return link.now


@SIDES
def test_both_have_the_same_where_neither_can_have_what_it_needs(side: str) -> None:
    sharing = Sharing(2 * MiB, a_link(0.1), a_link(0.002), side=side)
    *_, last = sharing.steps(2.0)
    assert last[0] == last[1] > CONFIG.stream.least_stream_bytes


@SIDES
def test_streams_arrive_even_where_each_has_its_minimum_and_no_more(side: str) -> None:
    links = [a_link(0.01 * number, rate=0.0) for number in range(1, 4)]
    sharing = Sharing(4 * CONFIG.client_bytes, *links, side=side)
    for has in sharing.steps(60.0):
        assert set(has) <= {0, CONFIG.stream.least_stream_bytes}
    assert [bytes(link.got) == CONTENT for link in links] == [True] * 3


def test_a_sender_that_waits_returns_to_its_minimum_and_the_other_gets_the_rest() -> None:
    stopped = a_link(0.01, last_read=100)  # its reader takes no more, and gives no credit
    sharing = Sharing(2 * MiB, stopped, a_link(0.1), side="sender")
    *_, last = sharing.steps(4.0)
    assert last[0] == CONFIG.stream.least_stream_bytes
    assert last[1] > 4 * last[0]


def test_a_receiver_keeps_what_nobody_reads_and_the_other_goes_on() -> None:
    stopped = a_link(0.01, last_read=100)
    sharing = Sharing(2 * MiB, stopped, a_link(0.1), side="receiver")
    *_, last = sharing.steps(4.0)
    assert last[0] == last[1] > CONFIG.stream.least_stream_bytes
