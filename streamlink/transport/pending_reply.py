"""``PendingReply``: the answer to a request, as whoever asked waits for it."""

from __future__ import annotations

from concurrent.futures import Future

from streamlink.clock import Clock
from streamlink.protocol.frames import Reply

__all__ = ["PendingReply"]


class PendingReply(Future[Reply]):
    """The answer to one request, once it is there."""

    number = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        # The condition inside a ``Future`` is none of the clock's, so no virtual time moves it.
        self._is_done = clock.event()
        self.add_done_callback(lambda _: self._is_done.set())

    def result(self, timeout: float | None = None) -> Reply:
        """Return the reply, or raise why there will be none; ``TimeoutError`` after ``timeout``."""
        self._is_done.wait(timeout)
        return super().result(0)
