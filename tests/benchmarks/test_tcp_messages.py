"""What each byte of a data connection is, however it is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tcp_messages import Reader
from streamlink.transport.tcp.proof import ANSWER_BYTES, HEAD_BYTES, Opening

OPENING = Opening("a session", "an epoch", 3, 1).encode(bytes(32))


def message(nbytes: int) -> bytes:
    body = bytes(range(1, 200))[:nbytes].ljust(nbytes, b"x")
    return nbytes.to_bytes(4, "little") + b"ckck" + body.ljust(64, b"\0")


def kinds(raw: bytes, sizes: list[int], *, from_client: bool) -> list[tuple[str, int]]:
    """Return each kind that is read, and how many bytes of it stand together."""
    reader, found = Reader(from_client=from_client), list[tuple[str, int]]()
    for piece in cut(raw, sizes):
        for span in reader.feed(piece):
            count = span.stop - span.start
            if found and found[-1][0] == span.kind and span.at:
                found[-1] = span.kind, found[-1][1] + count
            else:
                found.append((span.kind, count))
    return found


def cut(raw: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(raw[:size])
        raw = raw[size:]
    return [piece for piece in (*pieces, raw) if piece]


@given(sizes=st.lists(st.integers(1, 60), max_size=12))
def test_a_client_sends_its_opening_and_then_messages(sizes: list[int]) -> None:
    raw = OPENING + message(5000) + message(10)
    assert kinds(raw, sizes, from_client=True)[0] == ("header", HEAD_BYTES)
    rest = [
        each for each in kinds(raw, sizes, from_client=True) if each[0] not in ("header", "other")
    ]
    assert rest == [("prefix", 8), ("message", 5000), ("prefix", 8), ("message", 64)]


def test_a_server_sends_its_answer_and_then_messages() -> None:
    raw = bytes(ANSWER_BYTES) + message(0) + message(100)
    assert kinds(raw, [], from_client=False) == [
        *(("other", ANSWER_BYTES), ("prefix", 8), ("message", 64), ("prefix", 8), ("message", 100))
    ]


@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
def test_the_head_and_length_of_a_message_are_known_when_it_has_passed(step: int) -> None:
    raw, reader, whole = OPENING + message(150), Reader(from_client=True), []
    for piece in cut(raw, [step] * (len(raw) // step)):
        whole += [each.message for each in reader.feed(piece) if each.kind == "message"]
    last = whole[-1]
    assert last is not None
    assert last.is_whole
    assert last.length == 150
    assert bytes(last.head) == bytes(range(1, 65))


def test_a_connection_begins_one_call() -> None:
    (head, *_) = Reader(from_client=True).feed(OPENING)
    assert head.kind == "header"
    assert head.frame.is_known
    assert head.frame.begins_call
    assert not any(each.frame.begins_call for each in Reader(from_client=False).feed(bytes(48)))
