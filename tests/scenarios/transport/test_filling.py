"""A sink that waits for nobody is filled by the thread that reads the network."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, ModelError, StreamAborted
from streamlink.model.interfaces import is_prompt
from streamlink.protocol import frames as f
from streamlink.protocol.events import Event, Finished
from streamlink.protocol.receiver import ReceiveStream
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from streamlink.transport.receive_pump import ReceivePump, Take
from tests.support.machines import an_open
from tests.support.models import float_spec
from tests.support.peers import SMALL, WAIT
from tests.support.sleepers import Sleepers

DATA = bytes(range(256)) * 64
PIECE = 1024


def nothing() -> None:
    pass


class Interruptible(ReceiveStream):
    """A machine that raises what a Ctrl-C would, once, when it is asked for the next event."""

    is_interrupted = False

    def next_event(self) -> Event | None:
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt
        return super().next_event()


class Line:
    """A receiver whose sender is this test."""

    def __init__(self, sleepers: Sleepers) -> None:
        self.sleepers = sleepers
        self.machine = Interruptible(SMALL, stream_id=1, peer_name="there", name="in")
        self.pump = ReceivePump(self.machine, clock=running_time)
        self.call = self.pump.attach(nothing)
        self.hear(an_open(len(DATA)))
        self.pump.accept(wants_spec=False)
        self.pump.next(0.0)
        self.sent = 0

    def hear(self, *frames: f.Frame) -> None:
        self.pump.incoming(frames, self.call)

    def send(self, count: int = 1, *, call: int | None = None, first: int | None = None) -> None:
        """Let the next chunks arrive, numbered from ``first`` on."""
        for number in range(count):
            sequence = self.sent // PIECE if first is None else first + number
            payload = memoryview(DATA)[self.sent : self.sent + PIECE]
            chunk = f.Chunk(sequence, self.sent, (payload,))
            self.sent += PIECE
            self.pump.incoming([chunk], self.call if call is None else call)

    def finish(self) -> None:
        self.hear(f.Finish(len(DATA), "digest"))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    line = Line(Sleepers(monkeypatch))
    yield line
    line.pump.abort(AbortCode.CANCELLED, "the test is over")


class Owner:
    """A thread that fills a sink from a pump."""

    def __init__(self, pump: ReceivePump, take: Take) -> None:
        self.outcome: object = None
        self._thread = threading.Thread(
            target=self._fill, args=(pump, take), name="owner", daemon=True
        )
        self._thread.start()

    def _fill(self, pump: ReceivePump, take: Take) -> None:
        try:
            self.outcome = pump.fill(take)
        except BaseException as error:
            self.outcome = error

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> object:
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        return self.outcome


def filling(line: Line, take: Take) -> Owner:
    """Begin to fill; returns once the owner has taken what came before, one piece, and waits."""
    line.send()
    owner = Owner(line.pump, take)
    line.sleepers.wait("owner")
    return owner


def test_the_reader_takes_all_pieces_in_order_and_gives_their_credit_back(line: Line) -> None:
    taken, threads = bytearray(), set[int]()

    def take(chunk: f.Chunk) -> None:
        assert chunk.offset == len(taken)
        taken.extend(b"".join(chunk.payload))
        threads.add(threading.get_ident())

    owner = filling(line, take)
    threads.clear()
    line.send(len(DATA) // PIECE - 1)
    assert threads == {threading.get_ident()}
    assert line.pump.stream.consumed == len(DATA)
    line.finish()
    assert owner.wait() == Finished("digest", {})
    assert bytes(taken) == DATA


def test_the_owner_sleeps_until_there_is_news(line: Line) -> None:
    owner = filling(line, lambda chunk: None)
    line.send(len(DATA) // PIECE - 1)
    assert line.sleepers.woken.count("owner") == 0
    line.finish()
    owner.wait()
    assert line.sleepers.woken.count("owner") == 1


def test_what_the_sink_raises_is_the_owners_and_nothing_more_is_taken(line: Line) -> None:
    offsets: list[int] = []

    def take(chunk: f.Chunk) -> None:
        offsets.append(chunk.offset)
        if chunk.offset == 2 * PIECE:
            raise ModelError("read-only")

    owner = filling(line, take)
    line.send(4)
    assert isinstance(owner.wait(), ModelError)
    assert offsets == [0, PIECE, 2 * PIECE]
    assert line.pump.stream.consumed == 2 * PIECE


def test_a_stream_that_fails_lets_the_reader_end_first(line: Line) -> None:
    inside, goes_on = threading.Event(), threading.Event()

    def take(chunk: f.Chunk) -> None:
        if chunk.offset:
            inside.set()
            assert goes_on.wait(WAIT)

    owner = filling(line, take)
    reader = threading.Thread(target=line.send, daemon=True)
    reader.start()
    assert inside.wait(WAIT)
    line.pump.abort(AbortCode.BY_OPERATOR, "enough")
    assert line.pump.wait_closed(WAIT)
    assert owner.is_waiting  # its sink is in use
    goes_on.set()
    assert isinstance(owner.wait(), StreamAborted)
    reader.join(WAIT)


def test_the_reader_of_a_new_call_leaves_taking_to_the_old_one(line: Line) -> None:
    inside, goes_on = threading.Event(), threading.Event()
    taken: list[tuple[int, int]] = []

    def take(chunk: f.Chunk) -> None:
        if chunk.offset == PIECE:
            inside.set()
            assert goes_on.wait(WAIT)
        taken.append((chunk.offset, threading.get_ident()))

    owner = filling(line, take)
    old = threading.Thread(target=line.send, daemon=True)
    old.start()
    assert inside.wait(WAIT)
    line.call = line.pump.attach(nothing)
    line.hear(an_open(len(DATA), is_resumed=True))
    line.send(3, first=0)
    assert len(taken) == 1
    goes_on.set()
    old.join(WAIT)
    assert [offset for offset, _ in taken] == [number * PIECE for number in range(5)]
    assert threading.get_ident() not in {thread for _, thread in taken[1:]}
    line.send(len(DATA) // PIECE - 5, first=3)
    line.finish()
    assert isinstance(owner.wait(), Finished)
    assert len(taken) == len(DATA) // PIECE


def test_an_owner_that_is_interrupted_between_two_pieces_leaves_at_once(line: Line) -> None:
    taken: list[int] = []

    def take(chunk: f.Chunk) -> None:
        taken.append(chunk.offset)
        line.machine.is_interrupted = True

    line.send(3)
    assert isinstance(Owner(line.pump, take).wait(), KeyboardInterrupt)
    line.send()
    assert taken == [0]


@pytest.mark.parametrize("end", ["finished", "aborted"])
def test_an_end_before_the_filling_begins_is_heard(line: Line, end: str) -> None:
    taken: list[int] = []
    line.send(len(DATA) // PIECE)
    if end == "finished":
        line.finish()
    else:
        line.pump.abort(AbortCode.CANCELLED, "enough")

    def take(chunk: f.Chunk) -> None:
        taken.append(chunk.offset)

    outcome = Owner(line.pump, take).wait()
    assert isinstance(outcome, Finished if end == "finished" else StreamAborted)
    assert len(taken) == (len(DATA) // PIECE if end == "finished" else 0)


def test_arrays_and_the_store_in_memory_are_prompt_and_what_has_files_is_not(
    tmp_path: Path,
) -> None:
    mapped = np.memmap(tmp_path / "array", np.float32, "w+", shape=(4,))
    assert is_prompt(ArrayModel({"a": np.zeros(4, np.float32)}))
    assert is_prompt(MemoryStore().begin(float_spec(4)))
    assert not is_prompt(ArrayModel({"a": mapped}))
    assert not is_prompt(ArrayModel({"a": np.asarray(mapped)[1:]}))
    with (tmp_path / "array").open("r+b") as file, mmap.mmap(file.fileno(), 16) as place:
        assert not is_prompt(ArrayModel({"a": np.frombuffer(place, np.float32)}))
    assert not is_prompt(SafetensorsStore(tmp_path / "model").begin(float_spec(4)))


def test_a_sink_whose_writes_are_not_those_of_arrays_is_not_taken_for_prompt() -> None:
    class Slow(ArrayModel):
        def write(self, offset: int, payload: memoryview) -> None:
            raise AssertionError

    class Around:
        def __init__(self, below: ArrayModel) -> None:
            self._below = below

        def __getattr__(self, name: str) -> Any:
            return getattr(self._below, name)

    arrays = {"a": np.zeros(4, np.float32)}
    assert not is_prompt(Slow(arrays))
    assert not is_prompt(Around(ArrayModel(arrays)))
