"""``ReceiveSlot``: admits one sender at a time; one that reconnects replaces its earlier claim."""

from __future__ import annotations

from streamlink.clock import Clock, running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.visit import Visit
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session

__all__ = ["Claim", "ReceiveSlot"]


class Claim(Visit[ReceiveTransfer]):
    """One sender's claim on the slot."""

    def yields_to(self, other: Claim) -> bool:
        """Return whether ``other`` is the same sender, which lost its connection and is back."""
        if self.session.closed.is_set():
            return True  # its session has ended, and only ``release`` has not been called yet
        transfer = self.transfer
        # Compared by the model's identity, which is in there: a sender that was started again has
        # another name (it has the process id), and the same identity.
        if transfer is None or self.request.metadata != other.request.metadata:
            return False
        # One that has announced nothing was perhaps never connected: that is no sign of a loss.
        return transfer.is_announced and not transfer.is_connected


class ReceiveSlot:
    """Admits senders that ask for ``topic``; the sessions' threads call ``claim``.

    At most one sender waits to be served. A newer claim that replaces the holder also replaces the
    one that waits, so nothing piles up here.
    """

    def __init__(self, topic: str, *, clock: Clock = running_time) -> None:
        self._topic = topic
        self._changed = clock.condition()
        self._holder: Claim | None = None
        self._waiting: Claim | None = None
        self._closed: StreamAborted | None = None

    def claim(self, session: Session, request: Request) -> None:
        """Give the slot to a sender, or reply why it is refused."""
        if request.topic != self._topic:
            reason = f"this receiver takes one model and does not answer {request.topic!r}"
            session.reply(request, error=reason)
            return
        claim = Claim(session, request)
        with self._changed:
            before = self._holder
            is_free = before is None or before.yields_to(claim)
            if is_free:
                self._holder = self._waiting = claim
                # One thread serves the slot, so only one waits.
                self._changed.notify()
        # Without the lock: replies and aborts take those of sessions and pumps.
        if before is not None and not is_free:
            session.reply(request, error=f"it is busy with a model from {before.peer_name}")
        elif before is not None and before.transfer is not None:
            before.transfer.abort(AbortCode.STALE_ATTEMPT, f"{session.peer_name} took its place")

    def next(self, seconds: float | None = None) -> Claim | None:
        """Wait for the next sender; None: none came within ``seconds``.

        Raises:
            StreamAborted: the slot was closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, seconds)
            self.check()
            claim, self._waiting = self._waiting, None
            return claim

    def check(self) -> None:
        """Raise ``StreamAborted`` if the slot was closed."""
        if self._closed is not None:
            raise self._closed

    def close(self, reason: str, code: AbortCode = AbortCode.BY_OPERATOR) -> None:
        """Admit no more senders, and end the current transfer; any thread may call this."""
        with self._changed:
            self._closed = StreamAborted(code, reason, by_peer=False)
            holder = self._holder
            self._changed.notify_all()
        if holder is not None:
            holder.end(code, reason)

    def release(self, claim: Claim) -> None:
        """Let the next sender have the slot; harmless for a claim that was replaced."""
        with self._changed:
            if self._holder is claim:
                self._holder = None
