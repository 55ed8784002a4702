"""Where a stream's time goes: seconds by what it waited for, added up at each change.

A stream is at every moment limited by one thing, its *cause*. The machines say which whenever they
have moved; only a change costs arithmetic. A cause that is known later than its stretch began, such
as the word that the peer is held by somebody else, takes the running stretch over (``blame``).

    network   bytes are on their way, or there is no call: the link, or a peer that says nothing
    credit    a sender's: the receiver has what was sent and does not take it, or not yet commits
    reader    our own upper layer: a sender's source gives no bytes, a receiver's sink takes none
    held      somebody else is waited for, by this end or, as it says itself, by the other
"""

from __future__ import annotations

NETWORK, CREDIT, READER, HELD = "network", "credit", "reader", "held"

CAUSES = (NETWORK, CREDIT, READER, HELD)

NOTHING = ""
"""The cause of a stream that has not begun, or is over."""


class Stalls:
    """Seconds by cause, and the stretch that runs."""

    __slots__ = ("_ended", "cause", "since")

    def __init__(self) -> None:
        self.cause = NOTHING
        self.since = 0.0
        """When the stretch that runs began (monotonic seconds)."""
        self._ended = dict.fromkeys(CAUSES, 0.0)

    def turn(self, cause: str, *, now: float) -> None:
        """Note that from ``now`` on it is ``cause`` that limits the stream."""
        if self.cause:
            self._ended[self.cause] += now - self.since
        self.cause, self.since = cause, now

    def blame(self, cause: str, *, instead_of: str) -> None:
        """Put the stretch that runs down to ``cause``, where it was ``instead_of``."""
        if self.cause == instead_of:
            self.cause = cause

    def ended(self) -> dict[str, float]:
        """Return the seconds of all stretches that are over, by cause."""
        return dict(self._ended)
