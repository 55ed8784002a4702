"""``Visit``: a peer that was admitted to bring one model, or to fetch one, and its transfer."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from streamlink.errors import AbortCode, StreamAborted, to_raise
from streamlink.link.transfer import Transfer
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session

__all__ = ["Visit"]

T = TypeVar("T", bound=Transfer[Any])


class Visit(Generic[T]):
    """One peer that was admitted. ``transfer`` is set once it was offered a stream."""

    def __init__(self, session: Session, request: Request) -> None:
        self.session = session
        self.request = request
        self.transfer: T | None = None
        self._ended: StreamAborted | None = None

    @property
    def peer_name(self) -> str:
        """The peer's name."""
        return self.session.peer_name

    def end(self, code: AbortCode, reason: str) -> None:
        """End its transfer, whether or not that has begun."""
        # Set first: a transfer that is created just now is then refused by ``check``.
        self._ended = StreamAborted(code, reason, by_peer=False)
        if self.transfer is not None:
            self.transfer.abort(code, reason)

    def check(self) -> None:
        """Raise ``StreamAborted`` if it was ended."""
        if self._ended is not None:
            raise to_raise(self._ended)
