"""What a peer may announce and send: the table of its faults."""

from __future__ import annotations

import pytest

from streamlink.errors import FlowControlError, FrameTooLarge, ProtocolError, RemoteProtocolError
from streamlink.protocol.frames import ChunkHeader, SpecPage
from streamlink.protocol.limits import MAX_PAGE_BYTES, PAGE_OVERHEAD_BYTES
from streamlink.protocol.validate import Pages, check_chunk
from tests.support.machines import KiB, an_open

# --- chunks --------------------------------------------------------------------------


def check(
    nbytes: int, *, at: int = 0, wire: int = -1, encoding: int = 0, limit: int = 90, due: int = 0
) -> None:
    """Check the first chunk of a model of 100 bytes; one encoding is agreed."""
    header = ChunkHeader(0, at, nbytes, nbytes if wire < 0 else wire, encoding)
    check_chunk(header, an_open(100), due=due, most=40, limit=limit, encodings=1, peer="site-1")


@pytest.mark.parametrize(
    ("nbytes", "changes"),
    [
        (40, {}),
        (1, {}),
        (40, {"at": 50}),
        (40, {"at": 60, "limit": 200}),
        (40, {"encoding": 1, "wire": 0}),
        (40, {"encoding": 1, "wire": 39}),
    ],
)
def test_a_chunk_may_come_up_to_every_bound(nbytes: int, changes: dict[str, int]) -> None:
    check(nbytes, **changes)


@pytest.mark.parametrize(
    ("nbytes", "changes", "kind", "words"),
    [
        (41, {}, FrameTooLarge, "41 bytes; agreed were at most 40"),
        (40, {"at": 51}, FlowControlError, "up to byte 91 with credit to 90"),
        (40, {"at": 61, "limit": 200}, RemoteProtocolError, "sent bytes 61 to 101, outside of"),
        (10, {"due": 1}, RemoteProtocolError, "sent chunk frame 0 where 1 was due"),
        (10, {"wire": 9}, RemoteProtocolError, "9 plain bytes that it counts as 10"),
        (10, {"encoding": 2, "wire": 5}, RemoteProtocolError, "encoding 2, which was not agreed"),
        (10, {"encoding": 1, "wire": 10}, RemoteProtocolError, "those travel plain"),
    ],
)
def test_a_chunk_beyond_a_bound_is_refused_by_name(
    nbytes: int, changes: dict[str, int], kind: type[ProtocolError], words: str
) -> None:
    with pytest.raises(kind, match=f"site-1 .*{words}") as failure:
        check(nbytes, **changes)
    assert failure.value.stream_id == 1


# --- the pages of a description ----------------------------------------------------------

OPENED = an_open(spec_pages=2)


def wanted(max_bytes: int = 8 * KiB) -> Pages:
    pages = Pages(max_bytes)
    pages.is_wanted = True
    return pages


def take(pages: Pages, number: int, body: bytes = b"page") -> tuple[bytes, ...] | None:
    return pages.take(SpecPage(number, body), OPENED, peer="site-1")


def fault(pages: Pages, number: int, body: bytes = b"page") -> ProtocolError:
    with pytest.raises(ProtocolError, match="site-1") as failure:
        take(pages, number, body)
    assert failure.value.stream_id == OPENED.stream_id
    return failure.value


def test_the_last_page_brings_all_of_them() -> None:
    pages = wanted()
    assert take(pages, 0, b"one") is None
    assert take(pages, 1, b"two") == (b"one", b"two")
    assert (pages.is_wanted, pages.kept) == (False, [])


def test_pages_that_were_lost_with_their_call_come_again_from_the_first() -> None:
    body = bytes(100)
    pages = wanted(2 * (100 + PAGE_OVERHEAD_BYTES))
    take(pages, 0, body)
    pages.clear()
    assert isinstance(fault(pages, 1, body), RemoteProtocolError)
    take(pages, 0, body)
    assert take(pages, 1, body) == (body, body)


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_a_page_out_of_order_is_refused(number: int) -> None:
    pages = wanted()
    take(pages, 0)
    assert f"page {number} " in str(fault(pages, number))


def test_a_page_nobody_asked_for_is_refused() -> None:
    assert isinstance(fault(Pages(8 * KiB), 0), RemoteProtocolError)
    pages = wanted()
    take(pages, 0)
    take(pages, 1)
    assert isinstance(fault(pages, 0), RemoteProtocolError)


def test_pages_are_bounded_in_all_and_each() -> None:
    pages = wanted(2 * (100 + PAGE_OVERHEAD_BYTES) - 1)
    take(pages, 0, bytes(100))
    assert isinstance(fault(pages, 1, bytes(100)), FrameTooLarge)
    large = bytes(MAX_PAGE_BYTES + 1)
    assert isinstance(fault(wanted(2 * MAX_PAGE_BYTES), 0, large), FrameTooLarge)
