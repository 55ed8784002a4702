"""Both ends of a stream over lanes that come, go, retire and are given up, in any order."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from streamlink.protocol.events import Delivered, Finished, Opened
from streamlink.protocol.frames import (
    Chunk,
    Frame,
)
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.states import State
from tests.support.machines import (
    KiB,
    events,
    small_config,
)

CONFIG = small_config(reconnect_timeout=1e6, communication_timeout=1e6, call_timeout=1e6)


class Lanes:
    """A sender and a receiver, and any number of pipes between them; nothing moves by itself."""

    def __init__(self, content: bytes) -> None:
        self.content, self.got = content, bytearray()
        self.sender = SendStream(
            CONFIG, stream_id=7, total_bytes=len(content), peer_name="receiver"
        )
        self.receiver = ReceiveStream(CONFIG, stream_id=7, peer_name="sender")
        self.up: dict[int, deque[Frame]] = {}
        self.down: dict[int, deque[Frame]] = {}
        self.last = 0
        self._commits = False

    def add(self) -> None:
        self.last += 1
        self.up[self.last], self.down[self.last] = deque(), deque()
        for end in (self.sender, self.receiver):
            end.attach(now=0.0, channel=self.last)

    def lose(self, number: int) -> None:
        for end in (self.sender, self.receiver):
            end.detach(now=0.0, channel=number)
        del self.up[number], self.down[number]

    def give_up(self, number: int) -> None:
        """The sender closes a lane that lags; the receiver hears of it behind what still comes."""
        self.sender.detach(now=0.0, channel=number)

    def retire(self, number: int) -> None:
        """Both ends retire a lane, unless it is the only one."""
        if self.sender.retire(number):
            self.receiver.retire(number)

    def step(self, number: int) -> None:
        """Let one lane carry one frame each way, and both owners do what they can."""
        for pipe, end in ((self.up, self.receiver), (self.down, self.sender)):
            if pipe[number]:
                end.receive(pipe[number].popleft(), now=0.0, channel=number)
        self._own()
        self.up[number].extend(self.sender.frames_to_send(now=0.0, channel=number))
        self.down[number].extend(self.receiver.frames_to_send(now=0.0, channel=number))

    def _own(self) -> None:
        sender, receiver = self.sender, self.receiver
        if room := sender.writable_bytes:
            at = sender.position
            sender.write((memoryview(self.content)[at : at + room],), now=0.0)
        elif sender.state is State.STREAMING and sender.is_written:
            sender.finish("digest", now=0.0)
        events(sender)
        for event in events(receiver):
            if isinstance(event, Opened):
                receiver.accept(wants_spec=False, now=0.0)
            elif isinstance(event, Delivered):
                assert event.offset == len(self.got)
                self.got += b"".join(event.payload)
                receiver.release(event.nbytes, now=0.0)
            elif isinstance(event, Finished):
                self._commits = True
        if self._commits and not receiver.is_committed:
            receiver.commit("digest")

    def settle(self) -> None:
        """Carry all there is, over one lane more, until both ends are done."""
        self.add()
        for _ in range(2000):
            for number in list(self.up):
                self.step(number)
                is_through = self.sender.is_through(number)
                if not (self.sender.carries(number) or self.up[number]) or is_through:
                    self.lose(number)
            if self.sender.is_closed and self.receiver.is_closed:
                return


def two_ready() -> Lanes:
    """Return two lanes whose handshakes are complete, with chunks on their way over both."""
    lanes = Lanes(bytes(range(256)) * 256)
    for _ in range(2):
        lanes.add()
        for _ in range(3):
            lanes.step(lanes.last)
    return lanes


def test_an_accept_that_acks_on_a_lost_lane_have_overtaken_takes_nothing_back() -> None:
    lanes = Lanes(bytes(range(256)) * 256)
    lanes.add()
    for number in (1, 1, 1):
        lanes.step(number)
    lanes.add()
    for number in (2, 2, 1, 1, 1):  # the accept of lane 2 is on its way all the while
        lanes.step(number)
    lanes.lose(1)
    lanes.settle()
    assert (lanes.sender.error, lanes.receiver.error) == (None, None)
    assert lanes.got == lanes.content


def test_a_lane_that_retires_brings_what_it_carries_and_nothing_of_it_travels_again() -> None:
    lanes = two_ready()
    carried = len(lanes.up[2])
    assert any(isinstance(each, Chunk) for each in lanes.up[2])
    lanes.retire(2)
    for _ in range(8):
        lanes.step(1)
    assert not lanes.sender.is_through(2)
    for _ in range(carried):
        lanes.step(2)
        assert not lanes.down[2], "acks leave on the other lane"
    assert not lanes.up[2], "it is given no more chunks"
    while not lanes.sender.is_through(2):
        lanes.step(1)
    lanes.lose(2)
    lanes.settle()
    assert lanes.got == lanes.content
    assert lanes.sender.stats.resent_bytes == 0


def test_a_lane_whose_only_companion_is_lost_takes_chunks_again() -> None:
    lanes = two_ready()
    assert lanes.sender.retire(2)
    assert not lanes.sender.retire(1), "nothing else may carry what comes"
    lanes.lose(1)
    for _ in range(20):
        lanes.step(2)
    assert lanes.sender.received > 16 * KiB


def test_a_damaged_chunk_on_a_lane_that_retires_costs_the_lane_and_arrives_over_another() -> None:
    lanes = two_ready()
    lanes.retire(2)
    chunk = next(each for each in lanes.up[2] if isinstance(each, Chunk))
    damage = Chunk(chunk.sequence, chunk.offset, chunk.payload, is_intact=False)
    lanes.receiver.receive(damage, now=0.0, channel=2)
    assert not lanes.receiver.carries(2)
    lanes.lose(2)
    lanes.settle()
    assert lanes.got == lanes.content
    assert lanes.receiver.stats.repairs == 0


acts = ["step", "step", "add", "lose", "give up", "retire"]


@given(st.lists(st.tuples(st.sampled_from(acts), st.integers(0, 7)), max_size=80))
@settings(max_examples=200)
def test_whatever_lanes_come_and_go_every_byte_arrives_in_order(
    script: list[tuple[str, int]],
) -> None:
    lanes = Lanes(bytes(range(256)) * 256)
    for act, which in script:
        numbers = list(lanes.up)
        if act == "add" and len(numbers) < 4:
            lanes.add()
        elif numbers and act == "lose":
            lanes.lose(numbers[which % len(numbers)])
        elif numbers and act == "give up":
            lanes.give_up(numbers[which % len(numbers)])
        elif numbers and act == "retire":
            lanes.retire(numbers[which % len(numbers)])
        elif numbers:
            lanes.step(numbers[which % len(numbers)])
    lanes.settle()
    assert (lanes.sender.error, lanes.receiver.error) == (None, None)
    assert (lanes.sender.state, lanes.receiver.state) == (State.DONE, State.DONE)
    assert bytes(lanes.got) == lanes.content
