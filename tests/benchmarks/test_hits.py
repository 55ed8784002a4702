"""Each flip has its own outcome: what the line and the log say of it, and of nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks import hits
from benchmarks.hits import AIMS, GRPC, IN_MESSAGES, OneByOne, Outcome, Place
from benchmarks.http2 import PREFACE
from benchmarks.pipes import Direction

DATA, HEADERS, RST_STREAM, PING = 0, 1, 3, 6
END_STREAM = 1
CHUNK_START = b"\x0a\x80\x80\x80\x80\x01\x09"
LINE = "model to x with y: damaged on the way, 20 bytes whose check is wrong; 1 so far"


def frame(kind: int, stream: int, contents: bytes = b"", flags: int = 0) -> bytes:
    head = len(contents).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + contents


def message(stream: int, contents: bytes) -> bytes:
    return frame(DATA, stream, b"\x00" + len(contents).to_bytes(4, "big") + contents)


def chunk(stream: int, number: int) -> bytes:
    return message(stream, CHUNK_START + number.to_bytes(8, "little") + bytes(5000))


def repair(stream: int, number: int) -> bytes:
    start = b"\x3a\x09\x09" + number.to_bytes(8, "little") if number else b"\x3a\x00"
    return message(stream, start + b"\x79" + bytes(8))


class First(random.Random):
    """Hits the first byte that may be hit."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


class Line:
    """A line with one call, number 1, on connection 2, whose bits are flipped at one ``place``."""

    def __init__(self, direction: Direction, place: Place, most: int = 1) -> None:
        self.now = -1.0  # before zero nothing is flipped: the calls open undamaged
        self.log: list[str] = []
        aims = {(direction, place): 1.0}
        wire = replace(GRPC, aims=aims)
        self.tap = OneByOne(First(1), self.log, most, wire=wire, clock=lambda: self.now)
        self.flipped = 0
        self.up(PREFACE, connection=1)
        self.up(PREFACE)
        for connection in (1, 2):
            self.up(frame(HEADERS, 1) + message(1, b"hello"), connection)
        self.down(frame(HEADERS, 1))
        self.now = 0.0

    def up(self, piece: bytes, connection: int = 2) -> None:
        self.flipped += self.tap.passing(connection, "up", piece) != piece

    def down(self, piece: bytes, connection: int = 2) -> None:
        self.flipped += self.tap.passing(connection, "down", piece) != piece

    def after(self, seconds: float) -> list[Outcome | None]:
        """Return the outcomes that are known so many seconds later."""
        self.now += seconds
        self.down(frame(PING, 0, bytes(8)))
        return [hit.outcome for hit in self.tap.hits]


def test_a_chunk_is_repaired_when_its_own_number_is_asked_for_on_its_own_call() -> None:
    line = Line("up", "chunk payload")
    line.up(chunk(1, 7))
    assert line.flipped == 1
    for stream, number, connection in ((1, 6, 2), (3, 7, 2), (1, 7, 1)):
        line.down(repair(stream, number), connection)
        assert line.after(0.1) == []
    line.down(repair(1, 7))
    assert line.after(0.1) == ["repaired"]
    assert line.tap.is_done


def test_the_first_chunk_has_a_repair_of_its_own_form() -> None:
    line = Line("up", "chunk header")
    line.up(chunk(1, 0))
    line.down(repair(1, 0))
    assert line.after(0.1) == ["repaired"]


def test_a_message_is_damaged_when_the_log_says_so_and_its_call_ends() -> None:
    line = Line("down", "other message")
    line.down(message(1, b"an ack"))
    assert line.flipped == 1
    line.log.append(LINE)
    assert line.after(1.0) == []
    line.up(frame(RST_STREAM, 3, bytes(4)))
    assert line.after(1.0) == []
    line.up(frame(RST_STREAM, 1, bytes(4)))
    assert line.after(0.0) == ["damaged"]


@pytest.mark.parametrize("by", ["trailers", "connection"])
def test_a_message_whose_call_ends_without_a_word_was_not_delivered(by: str) -> None:
    line = Line("up", "other message")
    line.up(message(1, b"finish"))
    if by == "trailers":
        line.down(frame(HEADERS, 1, flags=END_STREAM))
    else:
        line.tap.over(2)
    assert line.after(hits.GRACE_SECONDS / 2) == []
    assert line.after(hits.GRACE_SECONDS) == ["not delivered"]


def test_a_message_behind_the_end_of_its_call_was_not_delivered() -> None:
    line = Line("up", "other message")
    line.down(frame(HEADERS, 1, flags=END_STREAM))
    line.up(message(1, b"a beat"))
    assert line.flipped == 1
    assert line.after(0.0) == []
    assert line.after(hits.GRACE_SECONDS + 0.1) == ["not delivered"]


def test_a_message_that_nobody_missed_is_called_so() -> None:
    line = Line("up", "chunk payload")
    line.up(chunk(1, 7))
    line.up(chunk(1, 8))
    line.down(message(1, b"an ack"))
    assert line.after(1.0) == []
    assert line.after(hits.UNDETECTED_SECONDS) == ["without effect"]


def test_no_bit_is_flipped_before_the_last_one_is_settled_and_its_call_is_back() -> None:
    line = Line("up", "chunk payload", most=2)
    line.up(chunk(1, 7) + chunk(1, 8))
    assert line.flipped == 1
    line.log.append(LINE)
    line.down(frame(HEADERS, 1, flags=END_STREAM))
    assert line.after(0.1) == ["damaged"]
    line.up(chunk(1, 9))
    assert line.flipped == 1
    line.up(frame(HEADERS, 3))
    line.up(chunk(3, 0))
    assert line.flipped == 2
    assert not line.tap.is_done


def test_a_flip_outside_messages_is_broken_when_a_call_is_made_anew() -> None:
    line = Line("up", "frame header")
    line.up(message(1, b"an ack"))
    line.down(frame(HEADERS, 1, flags=END_STREAM))
    assert line.after(1.0) == []
    line.up(frame(HEADERS, 3) + message(3, b"hello"))
    assert line.after(0.0) == ["broken"]
    assert line.tap.hits[0].label == "header of DATA"
    assert not line.tap.hits[0].is_in_message


def test_a_post_is_no_call_that_was_made_anew() -> None:
    line = Line("up", "frame header")
    line.up(message(1, b"an ack"))
    post = bytearray(message(3, b"a request"))
    post[4] |= END_STREAM
    line.up(frame(HEADERS, 3))
    assert line.after(0.0) == []
    line.up(bytes(post))
    assert line.after(0.0) == []
    line.up(frame(HEADERS, 5) + message(5, b"hello"))
    assert line.after(0.0) == ["broken"]


@pytest.mark.parametrize(
    ("words", "outcome"),
    [("nothing arrives on its call", "silent"), ("nothing was heard", "silent"), (LINE, "damaged")],
)
def test_a_flip_outside_messages_is_what_the_log_says(words: str, outcome: Outcome) -> None:
    line = Line("up", "prefix")
    line.up(message(1, b"an ack"))
    line.log.append(words)
    assert line.after(0.0) == [outcome]


@pytest.mark.parametrize(
    ("carries", "connection", "seconds"),
    [("chunks", 2, hits.MOVED_SECONDS), ("the session", 1, hits.SILENT_SECONDS)],
)
def test_a_flip_is_without_effect_when_all_goes_on_for_longer_than_a_silent_call_would(
    carries: str, connection: int, seconds: float
) -> None:
    line = Line("down", "frame")
    line.up(chunk(1, 7))
    line.down(frame(PING, 0, bytes(8)), connection)
    assert line.flipped == 1
    assert line.after(seconds + 0.1) == []  # nothing has moved
    for _ in range(hits.MOVED_MESSAGES):
        line.up(message(1, b"beat"), connection)
        line.down(message(1, b"beat"), connection)
    assert line.after(0.0) == ["without effect"]
    assert line.tap.hits[0].label == "PING"


def test_the_end_of_a_line_settles_what_is_left() -> None:
    line = Line("down", "frame")
    line.down(frame(PING, 0, bytes(8)))
    line.tap.end_line()
    line.tap.end_line()
    assert [hit.outcome for hit in line.tap.hits] == ["without effect"]


def test_four_of_five_flips_are_aimed_at_messages() -> None:
    ours = sum(weight for (_, place), weight in AIMS.items() if place in IN_MESSAGES)
    assert ours / sum(AIMS.values()) == 0.8
