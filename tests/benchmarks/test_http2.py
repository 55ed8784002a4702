"""The reader of HTTP/2 says of each byte of real gRPC traffic what it is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from benchmarks.http2 import PREFACE, Reader, Span
from benchmarks.pipes import Direction
from tests.support.relay import Relay

MESSAGES = [b"", b"a", b"\x00" * 5, bytes(range(256)), b"b" * 20_000, b"c" * 300_000]
WAIT = 20.0


class Recorder:
    """A tap that keeps what passes."""

    def __init__(self) -> None:
        self.pieces: dict[Direction, list[bytes]] = {"up": [], "down": []}
        self.ended: list[int] = []

    def passing(self, connection: int, direction: Direction, piece: bytes) -> bytes:
        self.pieces[direction].append(piece)
        return piece

    def over(self, connection: int) -> None:
        self.ended.append(connection)


@pytest.fixture(scope="module")
def recorded() -> Recorder:
    """What one connection carries of two calls at once, to and from a server that echoes."""
    echo = grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)
    handlers = [grpc.method_handlers_generic_handler("echo", {"Echo": echo})]
    server = grpc.server(ThreadPoolExecutor(4), handlers=handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    tap = Recorder()
    with Relay("127.0.0.1", port, tap=tap) as relay:
        with grpc.insecure_channel(f"127.0.0.1:{relay.port}") as channel:
            method = channel.stream_stream("/echo/Echo", None, None)
            calls = [method(iter(MESSAGES), timeout=WAIT) for _ in range(2)]
            assert [list(call) for call in calls] == [MESSAGES, MESSAGES]
        relay.wait_until(lambda counts: counts.open_connections == 0)
    server.stop(None).wait(WAIT)
    return tap


def spans_of(pieces: list[bytes], direction: Direction) -> Iterator[tuple[Span, bytes]]:
    reader = Reader(from_client=direction == "up")
    for piece in pieces:
        for span in reader.feed(piece):
            yield span, piece[span.start : span.stop]


def labels(pieces: list[bytes], direction: Direction) -> list[tuple[str, str, int]]:
    """Say of each byte its kind, its frame, and where in its part it is."""
    return [
        (span.kind, span.frame.name if span.kind in ("message", "other") else "", span.at + number)
        for span, taken in spans_of(pieces, direction)
        for number in range(len(taken))
    ]


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_messages_it_finds_are_those_that_were_sent(
    recorded: Recorder, direction: Direction
) -> None:
    found: dict[int, list[bytes]] = {}
    for span, taken in spans_of(recorded.pieces[direction], direction):
        if span.message is None:
            continue
        messages = found.setdefault(span.message.stream, [])
        if span.kind == "prefix" and span.at == 0:
            messages.append(b"")
        if span.kind == "message":
            assert span.at == len(messages[-1])
            messages[-1] += taken
            assert span.message.head == messages[-1][:64]
            assert span.message.is_whole == (len(messages[-1]) == span.message.length)
    assert list(found.values()) == [MESSAGES, MESSAGES]


@pytest.mark.parametrize("direction", ["up", "down"])
def test_every_byte_is_in_one_span(recorded: Recorder, direction: Direction) -> None:
    reader = Reader(from_client=direction == "up")
    for piece in recorded.pieces[direction]:
        ends = [0]
        for span in reader.feed(piece):
            assert span.start == ends[-1] < span.stop
            ends.append(span.stop)
        assert ends[-1] == len(piece)


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_how_the_bytes_are_cut_makes_no_difference(
    recorded: Recorder, direction: Direction, length: int
) -> None:
    raw = b"".join(recorded.pieces[direction])[:25_000]
    cut = [raw[at : at + length] for at in range(0, len(raw), length)]
    assert labels(cut, direction) == labels([raw], direction)


def test_what_opens_and_ends_calls_is_told(recorded: Recorder) -> None:
    up = list(spans_of(recorded.pieces["up"], "up"))
    down = list(spans_of(recorded.pieces["down"], "down"))
    assert b"".join(taken for span, taken in up if span.kind == "preface") == PREFACE
    opened = {span.frame.stream for span, _ in up if span.frame.name == "HEADERS"}
    assert opened == {1, 3}
    ended = {span.frame.stream for span, _ in down if span.frame.ends_stream}
    assert ended == opened
    names = {span.frame.name for span, _ in [*up, *down] if span.kind == "header"}
    assert {"DATA", "HEADERS", "SETTINGS", "WINDOW_UPDATE"} <= names


def test_the_tap_hears_of_the_end_of_a_connection(recorded: Recorder) -> None:
    assert recorded.ended == [1]


def test_a_frame_of_no_known_type_goes_by_its_number() -> None:
    spans = list(Reader(from_client=False).feed(b"\x00\x00\x02\x63\x00\x80\x00\x00\x05ab\x00"))
    assert [(span.kind, span.stop) for span in spans] == [
        ("header", 9),
        ("other", 11),
        ("header", 12),
    ]
    assert (spans[0].frame.name, spans[0].frame.stream) == ("type 99", 5)
    assert spans[2].frame.name == ""
