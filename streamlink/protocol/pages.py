"""The pages of a description as they come on one call: in order, and within their bounds."""

from __future__ import annotations

from streamlink.errors import FrameTooLarge, RemoteProtocolError
from streamlink.protocol.frames import Open, SpecPage
from streamlink.protocol.limits import MAX_PAGE_BYTES, PAGE_OVERHEAD_BYTES


class Pages:
    """The description of one stream's model, until it is whole.

    Args:
        max_bytes: what all of its pages may take (``max_spec_bytes``).
    """

    def __init__(self, max_bytes: int) -> None:
        self.is_wanted = False
        """Whether the sender owes pages still, before any chunk."""
        self.kept: list[bytes] = []
        self._max_bytes = max_bytes
        self._nbytes = 0

    def take(self, page: SpecPage, opened: Open, *, peer: str) -> tuple[bytes, ...] | None:
        """Take the next page of what was ``opened``; returns all of them with the last.

        Raises:
            RemoteProtocolError: it is not the next, or nobody asked.
            FrameTooLarge: it, or all of them, are beyond the bounds.
        """
        if not self.is_wanted or page.number != len(self.kept):
            raise RemoteProtocolError(
                f"{peer} sent page {page.number} of the description out of order",
                stream_id=opened.stream_id,
            )
        self._nbytes += len(page.body) + PAGE_OVERHEAD_BYTES
        if self._nbytes > self._max_bytes or len(page.body) > MAX_PAGE_BYTES:
            raise FrameTooLarge(
                f"{peer} describes its model in more than {self._max_bytes} bytes "
                f"(max_spec_bytes), or more than {MAX_PAGE_BYTES} on one page",
                stream_id=opened.stream_id,
            )
        self.kept.append(page.body)
        if len(self.kept) < opened.spec_pages:
            return None
        pages = tuple(self.kept)
        self.is_wanted = False
        self.clear()
        return pages

    def clear(self) -> None:
        """Let go of those that came; on another call they come again."""
        self.kept.clear()
        self._nbytes = 0
