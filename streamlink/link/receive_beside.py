"""``ReceiveBeside``: a receive beside a send, in a thread of its own only if it has to be.

A client may answer while it still receives, and its answer has to be read then. Mostly it answers
afterwards, so a thread for that would only wait while the model is sent, one for each client.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.transfer import Receipt

__all__ = ["ReceiveBeside"]

logger = logging.getLogger("streamlink.server")


class ReceiveBeside:
    """Begins ``receive`` as soon as something comes by ``incoming``, or with ``receipt``.

    Args:
        incoming: the stream of the answer; its end is something, too. None: there is no answer.
        receive: receives it. It is called once, or, after ``give_up``, perhaps never.
        name: of the thread.
        clock: what its end is awaited by.
    """

    def __init__(
        self,
        incoming: ReceiveTransfer | None,
        receive: Callable[[], Receipt | None],
        name: str,
        clock: Clock,
    ) -> None:
        self._incoming, self._receive, self._clock = incoming, receive, clock
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lock = threading.Lock()
        self._has_begun = False
        self._outcome: Receipt | BaseException | None = None
        if incoming is not None:
            incoming.on_news(self._begin)

    def receipt(self) -> Receipt | None:
        """Return what ``receive`` returns, or raise what it raises; waits for it."""
        if self._take():
            return self._receive()
        self._wait()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def give_up(self) -> None:
        """Have it not begun any more; where it has, wait for its end: its stream was ended."""
        if not self._take():
            self._wait()

    def _wait(self) -> None:
        if self._thread.ident is not None:  # else there was none: whoever asked has received it
            self._clock.join(self._thread)

    def _begin(self) -> None:
        # Called with a lock of the stream, which the new thread needs only once it has begun.
        with self._lock:
            if self._has_begun:
                return
            try:
                self._thread.start()
            except RuntimeError as error:  # the next news tries again
                logger.warning("%s has to wait: %s", self._thread.name, error)
                return
            self._note_begun()

    def _take(self) -> bool:
        """Return whether it has not begun; now it has, so nobody else will."""
        with self._lock:
            has_begun = self._has_begun
            self._note_begun()
            return not has_begun

    def _note_begun(self) -> None:
        self._has_begun = True
        if self._incoming is not None:
            self._incoming.on_news(None)  # else the two would keep each other

    def _run(self) -> None:
        try:
            self._outcome = self._receive()
        except BaseException as error:
            self._outcome = error
