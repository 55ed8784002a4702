"""``Reports``: what the answering end of a request sends while it works on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamlink.link.throttle import Throttle
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session

__all__ = ["Reports"]


class Reports:
    """Progress reports on one request; each restarts the asking end's *processing* deadline."""

    def __init__(self, session: Session, request: Request) -> None:
        self._session, self._request = session, request
        self._throttle = Throttle(session.clock)
        self._progress = 0

    def send(self) -> None:
        """Report that the work has moved; more often than every 20 ms has no effect."""
        if self._throttle.is_due():
            # A growing counter: after a break the latest one is repeated, and an equal one is no
            # news.
            self._progress += 1
            self._session.report_progress(self._request, self._progress)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Report every few seconds, for work that cannot: only that this process lives."""
        clock = self._session.clock
        is_over = clock.event()

        def pulse() -> None:
            while not is_over.wait(self._session.config.timeouts.held_interval):
                self.send()

        # A thread of its own: the one that works calls nothing of ours meanwhile.
        thread = threading.Thread(target=pulse, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            clock.join(thread)
