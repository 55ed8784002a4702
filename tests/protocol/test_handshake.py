"""What both ends agree on before the first chunk."""

from __future__ import annotations

from typing import Any

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import FrameTooLarge, ProtocolError, RemoteProtocolError
from streamlink.protocol.frames import Accept, Attempt, Open, SpecPage, Update, Welcome
from streamlink.protocol.handshake import SendHandshake, SpecPages, agreed, name_fault
from streamlink.protocol.limits import MAX_PAGE_BYTES, PAGE_OVERHEAD_BYTES, SMALLEST_CHUNK_BYTES
from tests.support.machines import KiB, an_open

SIZE = 64 * KiB


def a_handshake(**changes: Any) -> SendHandshake:
    facts: dict[str, Any] = {"stream_id": 1, "attempt": Attempt("job", 1, 1), "update": Update()}
    facts |= {"total_bytes": SIZE, "chunk_bytes": 8 * KiB, "spec_digest": b"spec"}
    facts |= {"spec_pages": (b"one", b"two"), "is_resumable": False}
    return SendHandshake(**{**facts, **changes})


def an_answer(received: int = 0, *, limit: int = SIZE, chunk_bytes: int = 4 * KiB) -> Accept:
    return Accept(received, limit, chunk_bytes)


def take(handshake: SendHandshake, answer: Accept, position: int = 0) -> bool:
    return handshake.check_accept(answer, position, peer_name="site-1")


def test_each_call_announces_the_same_and_whether_it_is_the_first() -> None:
    handshake = a_handshake()
    assert handshake.open(is_resumed=False) == Open(
        1, Attempt("job", 1, 1), SIZE, b"spec", 2, 8 * KiB, Update(), is_resumed=False
    )
    assert handshake.open(is_resumed=True).is_resumed


@pytest.mark.parametrize(("theirs", "most"), [(0, 64), (5, 5), (100, 64)])
def test_a_session_goes_by_the_chunks_of_the_welcome_and_the_fewer_requests(
    theirs: int, most: int
) -> None:
    welcome = Welcome(1, "id", "epoch", 4 * KiB, 30.0, max_open_requests=theirs)
    config = agreed(LinkConfig(), welcome)
    assert config.stream.chunk_bytes == 4 * KiB
    assert config.limits.max_open_requests == most


def test_the_description_can_be_let_go_of() -> None:
    handshake = a_handshake()
    assert list(handshake.pages()) == [SpecPage(0, b"one"), SpecPage(1, b"two")]
    handshake.drop_pages()
    assert list(handshake.pages()) == []


def test_the_first_answer_is_told_from_the_others() -> None:
    handshake = a_handshake()
    assert take(handshake, an_answer())
    assert not take(handshake, an_answer(4 * KiB), position=4 * KiB)


@pytest.mark.parametrize("answer", [an_answer(-1), an_answer(8 * KiB + 1), an_answer(8, limit=7)])
def test_an_answer_may_only_speak_of_what_was_written(answer: Accept) -> None:
    with pytest.raises(RemoteProtocolError, match=f"site-1 accepted at byte {answer.received} "):
        take(a_handshake(), answer, position=8 * KiB)


def test_only_the_first_answer_to_what_is_resumable_may_be_ahead() -> None:
    handshake = a_handshake(is_resumable=True)
    take(handshake, an_answer(SIZE))
    with pytest.raises(RemoteProtocolError, match="were sent up to 0"):
        take(handshake, an_answer(SIZE))
    with pytest.raises(RemoteProtocolError):
        take(a_handshake(is_resumable=True), an_answer(SIZE + 1, limit=2 * SIZE))


@pytest.mark.parametrize("chunk_bytes", [SMALLEST_CHUNK_BYTES - 1, 8 * KiB + 1])
def test_the_size_of_chunks_is_one_that_was_offered(chunk_bytes: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a chunk size of {chunk_bytes} bytes"):
        take(a_handshake(), an_answer(chunk_bytes=chunk_bytes))


def test_the_size_of_chunks_does_not_shrink_on_a_later_call() -> None:
    handshake = a_handshake()
    take(handshake, an_answer(chunk_bytes=4 * KiB))
    with pytest.raises(RemoteProtocolError, match="chunk size"):
        take(handshake, an_answer(chunk_bytes=4 * KiB - 1))
    assert not take(handshake, an_answer(chunk_bytes=8 * KiB))


# --- the pages of a description ----------------------------------------------------------

OPENED = an_open(spec_pages=2)


def wanted(max_bytes: int = 8 * KiB) -> SpecPages:
    pages = SpecPages(max_bytes)
    pages.is_wanted = True
    return pages


def take_page(pages: SpecPages, number: int, body: bytes = b"page") -> tuple[bytes, ...] | None:
    return pages.add(SpecPage(number, body), OPENED, peer_name="site-1")


def fault(pages: SpecPages, number: int, body: bytes = b"page") -> ProtocolError:
    with pytest.raises(ProtocolError, match="site-1") as failure:
        take_page(pages, number, body)
    assert failure.value.stream_id == OPENED.stream_id
    return failure.value


def test_the_last_page_brings_all_of_them() -> None:
    pages = wanted()
    assert take_page(pages, 0, b"one") is None
    assert take_page(pages, 1, b"two") == (b"one", b"two")
    assert (pages.is_wanted, pages.kept) == (False, [])


def test_pages_that_were_lost_with_their_call_come_again_from_the_first() -> None:
    body = bytes(100)
    pages = wanted(2 * (100 + PAGE_OVERHEAD_BYTES))
    take_page(pages, 0, body)
    pages.clear()
    assert isinstance(fault(pages, 1, body), RemoteProtocolError)
    take_page(pages, 0, body)
    assert take_page(pages, 1, body) == (body, body)


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_a_page_out_of_order_is_refused(number: int) -> None:
    pages = wanted()
    take_page(pages, 0)
    assert f"page {number} " in str(fault(pages, number))


def test_a_page_nobody_asked_for_is_refused() -> None:
    assert isinstance(fault(SpecPages(8 * KiB), 0), RemoteProtocolError)
    pages = wanted()
    take_page(pages, 0)
    take_page(pages, 1)
    assert isinstance(fault(pages, 0), RemoteProtocolError)


def test_pages_are_bounded_in_all_and_each() -> None:
    pages = wanted(2 * (100 + PAGE_OVERHEAD_BYTES) - 1)
    take_page(pages, 0, bytes(100))
    assert isinstance(fault(pages, 1, bytes(100)), FrameTooLarge)
    large = bytes(MAX_PAGE_BYTES + 1)
    assert isinstance(fault(wanted(2 * MAX_PAGE_BYTES), 0, large), FrameTooLarge)


def test_an_encoding_that_was_not_offered_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"not offered: .*'gzip'"):
        take(a_handshake(encodings=("zstd",)), Accept(0, SIZE, 4 * KiB, encodings=("gzip",)))


def test_a_base_that_was_not_offered_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"the base 'ef', which was not offered"):
        take(a_handshake(bases=("ab", "cd")), Accept(0, SIZE, 4 * KiB, base="ef"))
    with pytest.raises(RemoteProtocolError, match="which was not offered"):
        take(a_handshake(), Accept(0, SIZE, 4 * KiB, base="ab"))


@pytest.mark.parametrize("name", ["a", "site-1", "Zürich 2", "x" * 128])
def test_a_client_may_be_called_what_can_be_printed(name: str) -> None:
    assert not name_fault(name)


@pytest.mark.parametrize("name", ["", "a\nb", "bell\x07", "x" * 129])
def test_a_name_that_no_client_may_have_is_refused_in_words(name: str) -> None:
    assert name_fault(name) == (f"{name!r} is not a valid name: use 1 to 128 printable characters")


def test_a_refusal_does_not_repeat_all_of_a_long_name() -> None:
    assert len(name_fault("x" * 10_000)) < 200
