"""The pages of a description: their order, and their bounds."""

from __future__ import annotations

import pytest

from streamlink.errors import FrameTooLarge, ProtocolError, RemoteProtocolError
from streamlink.protocol.frames import SpecPage
from streamlink.protocol.limits import MAX_PAGE_BYTES, PAGE_OVERHEAD_BYTES
from streamlink.protocol.pages import Pages
from tests.support.machines import KiB, an_open

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
