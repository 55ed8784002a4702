from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, ModelError
from streamlink.protocol import frames as f
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.receive_pump import ReceivePump
from tests.support.machines import an_open
from tests.support.peers import SMALL, WAIT, until

PIECE = 1024
MEMORY = bytes(range(256)) * 64


class Line:
    """A receiver with memory to lend, and two calls."""

    def __init__(self) -> None:
        self.memory = bytearray(len(MEMORY))
        self.pump = ReceivePump(
            ReceiveStream(SMALL, stream_id=1, peer_name="there", name="in"), clock=running_time
        )
        self.cuts: list[int] = []
        self.first = self.pump.attach(lambda: self.cuts.append(1))
        self.pump.incoming([an_open(len(MEMORY))], self.first)
        self.pump.accept(wants_spec=False)
        self.second = self.pump.attach(lambda: self.cuts.append(2), is_lane=True)
        self.pump.incoming([an_open(len(MEMORY), is_resumed=True)], self.second)
        self.pump.next(0.0)

    def lend(self, offset: int, nbytes: int) -> memoryview:
        return memoryview(self.memory)[offset : offset + nbytes]


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.pump.abort(AbortCode.CANCELLED, "the test is over")


def header(piece: int, *, sequence: int = 0, encoding: int = f.PLAIN) -> f.ChunkHeader:
    return f.ChunkHeader(sequence, piece * PIECE, PIECE, PIECE, encoding)


def chunk(piece: int, *, sequence: int = 0, is_in_place: bool = False) -> f.Chunk:
    view = memoryview(MEMORY)[piece * PIECE : (piece + 1) * PIECE]
    return f.Chunk(sequence, piece * PIECE, (view,), is_in_place=is_in_place)


def test_a_place_is_just_the_chunks_range_and_its_calls_alone(line: Line) -> None:
    with line.pump.lending(line.lend):
        place = line.pump.place(header(3), line.first)
        assert place is not None
        place[:] = b"x" * PIECE
        assert line.memory[3 * PIECE : 4 * PIECE] == b"x" * PIECE
        assert line.pump.place(header(3), line.second) is None
        assert line.pump.place(header(4), line.second) is not None
        line.pump.detach(line.first)
        line.pump.detach(line.second)
    assert line.cuts == []


def test_without_a_sink_that_lends_there_is_no_place(line: Line) -> None:
    assert line.pump.place(header(0), line.first) is None
    with line.pump.lending(lambda offset, nbytes: None):
        assert line.pump.place(header(0), line.first) is None
    assert not line.pump.is_lending
    line.pump.incoming([chunk(0)], line.first)
    assert line.pump.stream.received == PIECE


def test_a_call_that_is_over_gets_no_place(line: Line) -> None:
    with line.pump.lending(line.lend):
        line.pump.detach(line.first)
        assert line.pump.place(header(0), line.first) is None


def test_a_header_that_breaks_the_rules_ends_the_stream_before_its_payload_is_read(
    line: Line,
) -> None:
    told = threading.Event()
    line.pump.on_event = told.set
    with line.pump.lending(line.lend):
        assert line.pump.place(f.ChunkHeader(0, 1 << 40, PIECE, PIECE), line.first) is None
    assert line.pump.is_closed
    assert told.is_set()


def test_a_sink_that_cannot_lend_is_written_to_and_says_why_there(line: Line) -> None:
    def refuse(offset: int, nbytes: int) -> memoryview:
        raise ModelError("read-only")

    with line.pump.lending(refuse):
        assert line.pump.place(header(0), line.first) is None
        line.pump.incoming([chunk(0)], line.first)
    assert not line.pump.is_closed
    assert line.pump.stream.received == PIECE


def test_a_place_is_free_again_after_a_wrong_hash(line: Line) -> None:
    with line.pump.lending(line.lend):
        assert line.pump.place(header(0), line.first) is not None
        damaged = f.Chunk(0, 0, chunk(0).payload, is_intact=False, is_in_place=True)
        line.pump.incoming([damaged], line.first)
        assert line.pump.place(header(0, sequence=1), line.first) is not None
        line.pump.incoming([chunk(0, sequence=1, is_in_place=True)], line.first)
    assert line.cuts == []


def test_lending_ends_when_no_reader_is_left_in_the_memory(line: Line) -> None:
    ended = threading.Event()

    def own() -> None:
        with line.pump.lending(line.lend):
            assert line.pump.place(header(0), line.first) is not None
        ended.set()

    owner = threading.Thread(target=own, daemon=True)
    owner.start()
    until(lambda: line.cuts == [1])  # its reader is told to leave, and has not yet
    assert not ended.is_set()
    assert line.pump.place(header(1), line.second) is None
    line.pump.detach(line.first)
    assert ended.wait(WAIT)
    owner.join(WAIT)


def test_a_piece_from_another_call_waits_until_its_place_has_no_reader(line: Line) -> None:
    got: list[object] = []
    with line.pump.lending(line.lend):
        assert line.pump.place(header(0), line.first) is not None
        line.pump.incoming([chunk(0)], line.second)
        owner = threading.Thread(target=lambda: got.append(line.pump.next(WAIT)), daemon=True)
        owner.start()
        until(lambda: line.cuts == [1])
        assert got == []
        line.pump.detach(line.first)
        owner.join(WAIT)
    assert len(got) == 1
