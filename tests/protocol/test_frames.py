"""Frames are plain values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from streamlink.protocol.frames import (
    Attach,
    Attempt,
    Chunk,
    Finish,
    Hello,
    Reply,
    Request,
    Welcome,
    split_payload,
)


def test_a_chunk_knows_its_size_and_its_end() -> None:
    chunk = Chunk(3, 100, (memoryview(b"abc"), memoryview(b"de")))
    assert (chunk.nbytes, chunk.end) == (5, 105)


def test_a_chunk_counts_bytes_and_not_elements() -> None:
    wide = memoryview(bytes(16)).cast("d")
    assert Chunk(0, 0, (wide,)).nbytes == 16  # type: ignore[arg-type]


def test_a_chunk_is_whole_unless_the_carrier_says_otherwise() -> None:
    assert Chunk(0, 0, ()).is_intact


def test_a_frame_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Finish(1, "digest").stop = 2  # type: ignore[misc]


def test_an_attempt_names_itself_for_an_error_message() -> None:
    assert str(Attempt("llm", 3, 1)) == "job 'llm' round 3 attempt 1"


def test_a_token_and_a_traceback_stay_out_of_logs() -> None:
    hello = Hello(1, 1, "site-1", "secret", 4096, 65536, 30.0, token="secret", resume="secret")
    for frame in (hello, Welcome(1, "secret", "e", 4096, 5.0), Attach("secret", 1)):
        assert "secret" not in repr(frame)
    assert "line 7" not in repr(Reply(1, "failed", "line 7"))


def test_frames_of_equal_values_are_equal() -> None:
    assert Request(1, "train") == Request(1, "train")
    assert Request(1, "train") != Request(2, "train")


@pytest.mark.parametrize("nbytes", range(8))
def test_a_payload_is_cut_in_two_wherever_its_views_end(nbytes: int) -> None:
    payload = (memoryview(b"abc"), memoryview(b"d"), memoryview(b"ef"))
    front, rest = split_payload(payload, nbytes)
    assert b"".join(front) == b"abcdef"[:nbytes]
    assert b"".join(rest) == b"abcdef"[nbytes:]
    assert all(view.nbytes for view in (*front, *rest))


def test_a_payload_is_cut_inside_or_between_its_views() -> None:
    first, second = memoryview(b"abc"), memoryview(b"de")
    assert split_payload((first, second), 3) == ((first,), (second,))
    assert split_payload((first, second), 4) == ((first, second[:1]), (second[1:],))
    assert split_payload((first, second), 0) == ((), (first, second))
    assert split_payload((first, second), 9) == ((first, second), ())
