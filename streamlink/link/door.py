"""Who may bring a model now: one sender at a time, and one that comes back takes its own place."""

from __future__ import annotations

from streamlink.clock import Clock, running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session

__all__ = ["Door", "Visit"]


class Visit:
    """A sender that was let in. ``incoming`` is its model, once it has been offered a stream."""

    def __init__(self, session: Session, request: Request) -> None:
        self.session = session
        self.request = request
        self.incoming: ReceiveTransfer | None = None
        self._unwanted: StreamAborted | None = None

    @property
    def peer(self) -> str:
        """The sender's name."""
        return self.session.peer

    def end(self, code: AbortCode, reason: str) -> None:
        """End its transfer, whether or not that has begun."""
        self._unwanted = StreamAborted(code, reason, by_peer=False)
        if self.incoming is not None:
            self.incoming.abort(code, reason)

    def check(self) -> None:
        """Raise ``StreamAborted`` where nobody wants its model any more."""
        if self._unwanted is not None:
            raise self._unwanted

    def makes_way_for(self, other: Visit) -> bool:
        """Tell whether ``other`` is this very sender, which lost its connection and is back."""
        if self.session.closed.is_set():
            return True  # whoever comes: this one is over and only not cleared away yet
        is_same = self.request.metadata == other.request.metadata
        incoming = self.incoming
        if incoming is None:
            return False
        return is_same and incoming.is_announced and not incoming.is_connected


class Door:
    """Lets senders in that ask for ``topic``; ``knock`` is called by the sessions' threads.

    One waits at most: who takes the place of a sender that nobody has looked at takes that, too.
    """

    def __init__(self, topic: str, *, clock: Clock = running_time) -> None:
        self._topic = topic
        self._changed = clock.condition()
        self._inside: Visit | None = None
        self._waiting: Visit | None = None
        self._closed: StreamAborted | None = None

    def knock(self, session: Session, request: Request) -> None:
        """Answer a request: let the sender in, or tell it why not."""
        if request.topic != self._topic:
            reason = f"this end takes one model; it knows no {request.topic!r}"
            session.reply(request, error=reason)
            return
        visit = Visit(session, request)
        with self._changed:
            before = self._inside
            is_free = before is None or before.makes_way_for(visit)
            if is_free:
                self._inside = self._waiting = visit
                self._changed.notify()
        if before is not None and not is_free:
            session.reply(request, error=f"it is busy with a model from {before.peer}")
        elif before is not None and before.incoming is not None:
            before.incoming.abort(AbortCode.STALE_ATTEMPT, f"{session.peer} took its place")

    def next(self, seconds: float | None = None) -> Visit | None:
        """Wait for the next sender; None: nobody came within ``seconds``.

        Raises:
            StreamAborted: the door was closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, seconds)
            self.check()
            visit, self._waiting = self._waiting, None
            return visit

    def check(self) -> None:
        """Raise ``StreamAborted`` where nobody is let in any more."""
        if self._closed is not None:
            raise self._closed

    def close(self, reason: str, code: AbortCode = AbortCode.BY_OPERATOR) -> None:
        """Let nobody in any more, and end the transfer of who is inside; any thread may."""
        with self._changed:
            self._closed = StreamAborted(code, reason, by_peer=False)
            inside = self._inside
            self._changed.notify_all()
        if inside is not None:
            inside.end(code, reason)

    def leave(self, visit: Visit) -> None:
        """Let the next sender in."""
        with self._changed:
            if self._inside is visit:
                self._inside = None
