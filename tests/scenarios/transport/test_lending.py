"""Models that are read from the line straight into the arrays they belong in."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from streamlink.model.digest import digest_of
from streamlink.model.interfaces import lends
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.stores.memory import ArrayModel, MemoryStore, empty_arrays
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, until
from tests.support.pipes import Lane, PipedTransfer

ONE = float_spec(50_000)
SEVERAL = float_spec(9_000, 0, 7, 21_000, 3, 3, 12_345)


class Counting(ArrayModel):
    """Arrays that count how they are filled."""

    def __init__(self, spec: ModelSpec, *, is_prompt: bool = True) -> None:
        super().__init__(empty_arrays(spec))
        self._says_prompt = is_prompt
        self.writes = 0
        self.lent: dict[int, set[int]] = {}
        """By offset: the addresses that were lent for it."""
        self.fills: list[int] = []

    @property
    def is_prompt(self) -> bool:
        return self._says_prompt

    def write(self, offset: int, payload: memoryview) -> None:
        self.writes += 1
        super().write(offset, payload)

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        view = super().lend(offset, nbytes)
        if view is not None:
            address = np.frombuffer(view, np.uint8).ctypes.data
            self.lent.setdefault(offset, set()).add(address)
        return view

    def filled(self, offset: int, nbytes: int) -> None:
        self.fills.append(offset)
        super().filled(offset, nbytes)


class Damaging:
    """Flips a byte of some chunks' payloads, the first time they travel."""

    def __init__(self, *numbers: int) -> None:
        self._left = set(numbers)
        self._lock = threading.Lock()
        self._count = -1

    def __call__(self, chunk: f.Chunk, lane: Lane) -> bytes:
        payload = bytearray(b"".join(chunk.payload))
        with self._lock:
            self._count += 1
            if self._count in self._left:
                payload[len(payload) // 2] ^= 0x10
        return bytes(payload)


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("is_prompt", [True, False])
def test_arrays_reach_arrays_without_a_write(lanes: int, is_prompt: bool) -> None:
    source, sink = pattern_model(ONE), Counting(ONE, is_prompt=is_prompt)
    with PipedTransfer(ONE, lanes=lanes) as transfer:
        sent, received = transfer.run(source, sink)
    assert sent.digest == received.digest == digest_of(source)
    assert content(sink) == content(source)
    assert sink.writes == 0
    assert sink.fills == sorted(sink.lent)
    assert len(sink.fills) == received.stats.chunks


@pytest.mark.parametrize("lanes", [1, 3])
def test_only_what_lies_across_tensors_is_written(lanes: int) -> None:
    source, sink = pattern_model(SEVERAL), Counting(SEVERAL)
    with PipedTransfer(SEVERAL, lanes=lanes) as transfer:
        _, received = transfer.run(source, sink)
    assert content(sink) == content(source)
    assert len(sink.fills) < received.stats.chunks
    # a chunk lies across tensors at five places at most, and is then one view to write
    assert 0 < sink.writes == received.stats.chunks - len(sink.fills) <= 5


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("is_prompt", [True, False])
def test_what_was_damaged_is_read_again_into_the_same_place(lanes: int, is_prompt: bool) -> None:
    source, sink = pattern_model(ONE), Counting(ONE, is_prompt=is_prompt)
    with PipedTransfer(ONE, lanes=lanes) as transfer:
        transfer.pipes.on_chunk = Damaging(0, 3, 4, 11, 30)
        sent, received = transfer.run(source, sink)
    assert received.stats.repairs == sent.stats.repairs == 5
    assert content(sink) == content(source)
    assert sink.writes == 0
    assert all(len(addresses) == 1 for addresses in sink.lent.values())


def test_a_store_in_memory_is_filled_in_place() -> None:
    source, store = pattern_model(ONE), MemoryStore()
    with PipedTransfer(ONE, lanes=2) as transfer:
        transfer.run(source, store.begin(ONE))
    assert content(store.open()) == content(source)


def test_a_reader_that_was_left_in_the_middle_lets_go_before_its_place_is_written() -> None:
    """The sender loses a lane that the receiver takes for alive, half a payload in its memory."""
    source, sink = pattern_model(ONE), Counting(ONE)
    is_lost = threading.Event()

    def lose_one(chunk: f.Chunk, lane: Lane) -> bytes | None:
        if chunk.offset == 0 and not is_lost.is_set():
            is_lost.set()
            lane.before_loss = lambda: until(lambda: 0 in sink.lent)
            return None
        return b"".join(chunk.payload)

    with PipedTransfer(ONE, lanes=2) as transfer:
        transfer.pipes.on_chunk = lose_one
        sent, received = transfer.start(source, sink)
        assert sent.result(WAIT).digest == received.result(WAIT).digest
    assert content(sink) == content(source)
    assert sink.writes == 1  # the chunk that another lane brought, while its place was in use
    assert 0 in sink.lent


def test_a_sink_whose_write_does_more_is_not_filled_in_place() -> None:
    class Logging(ArrayModel):
        def write(self, offset: int, payload: memoryview) -> None:
            super().write(offset, payload)

    class Around:
        def __init__(self, below: ArrayModel) -> None:
            self._below = below

        def __getattr__(self, name: str) -> object:
            return getattr(self._below, name)

    arrays = empty_arrays(ONE)
    assert lends(ArrayModel(arrays)) is not None
    assert lends(Logging(arrays)) is None
    assert lends(Around(ArrayModel(arrays))) is None  # type: ignore[arg-type]
