"""What a sender announces, and which answers it takes."""

from __future__ import annotations

from typing import Any

import pytest

from streamlink.errors import RemoteProtocolError
from streamlink.protocol.frames import Accept, Attempt, Open, SpecPage, Update
from streamlink.protocol.limits import SMALLEST_CHUNK_BYTES
from streamlink.protocol.offer import Offer
from tests.support.machines import KiB

SIZE = 64 * KiB


def an_offer(**changes: Any) -> Offer:
    facts: dict[str, Any] = {"stream_id": 1, "attempt": Attempt("job", 1, 1), "update": Update()}
    facts |= {"total_bytes": SIZE, "chunk_bytes": 8 * KiB, "spec_digest": b"spec"}
    facts |= {"spec_pages": (b"one", b"two"), "is_resumable": False}
    return Offer(**{**facts, **changes})


def an_answer(received: int = 0, *, limit: int = SIZE, chunk_bytes: int = 4 * KiB) -> Accept:
    return Accept(received, limit, chunk_bytes)


def take(offer: Offer, answer: Accept, position: int = 0) -> bool:
    return offer.take(answer, position, peer="site-1")


def test_each_call_announces_the_same_and_whether_it_is_the_first() -> None:
    offer = an_offer()
    assert offer.open(is_resumed=False) == Open(
        1, Attempt("job", 1, 1), SIZE, b"spec", 2, 8 * KiB, Update(), is_resumed=False
    )
    assert offer.open(is_resumed=True).is_resumed


def test_the_description_can_be_let_go_of() -> None:
    offer = an_offer()
    assert list(offer.pages()) == [SpecPage(0, b"one"), SpecPage(1, b"two")]
    offer.drop_pages()
    assert list(offer.pages()) == []


def test_the_first_answer_is_told_from_the_others() -> None:
    offer = an_offer()
    assert take(offer, an_answer())
    assert not take(offer, an_answer(4 * KiB), position=4 * KiB)


@pytest.mark.parametrize("answer", [an_answer(-1), an_answer(8 * KiB + 1), an_answer(8, limit=7)])
def test_an_answer_may_only_speak_of_what_was_written(answer: Accept) -> None:
    with pytest.raises(RemoteProtocolError, match=f"site-1 accepted at byte {answer.received} "):
        take(an_offer(), answer, position=8 * KiB)


def test_only_the_first_answer_to_what_is_resumable_may_be_ahead() -> None:
    offer = an_offer(is_resumable=True)
    take(offer, an_answer(SIZE))
    with pytest.raises(RemoteProtocolError, match="were sent up to 0"):
        take(offer, an_answer(SIZE))
    with pytest.raises(RemoteProtocolError):
        take(an_offer(is_resumable=True), an_answer(SIZE + 1, limit=2 * SIZE))


@pytest.mark.parametrize("chunk_bytes", [SMALLEST_CHUNK_BYTES - 1, 8 * KiB + 1])
def test_the_size_of_chunks_is_one_that_was_offered(chunk_bytes: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a chunk size of {chunk_bytes} bytes"):
        take(an_offer(), an_answer(chunk_bytes=chunk_bytes))


def test_the_size_of_chunks_does_not_shrink_on_a_later_call() -> None:
    offer = an_offer()
    take(offer, an_answer(chunk_bytes=4 * KiB))
    with pytest.raises(RemoteProtocolError, match="chunk size"):
        take(offer, an_answer(chunk_bytes=4 * KiB - 1))
    assert not take(offer, an_answer(chunk_bytes=8 * KiB))
