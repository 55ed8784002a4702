"""``Attempts``: one call's tries, its deadline and its tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TypeVar

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import CommunicationTimeout, StreamlinkError
from streamlink.link.passing import is_passing
from streamlink.timers import start_timer

__all__ = ["Attempts"]

logger = logging.getLogger("streamlink.objects")

R = TypeVar("R")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


class Attempts:
    """The tries of one call: how long they may go on, and what ends them.

    Only more bytes than the best try had are progress: tries that all break at the same byte come
    to an end after ``rejoin_timeout``.

    Args:
        config: settings of this end.
        clock: of the deadlines.
        tokens: end the call.
        timeout: the most that it may take from now on (seconds); None: while it makes progress.
        what: is moved, for errors and logs.
        is_over: whether the client was closed, or the server has ended its session for good.
    """

    def __init__(
        self,
        config: LinkConfig,
        clock: Clock,
        tokens: Iterable[CancelToken | None],
        timeout: float | None,
        what: str,
        is_over: Callable[[], bool],
    ) -> None:
        self.cancel = CancelToken()
        """Ends whatever waits within a try."""
        self._clock, self._tokens = clock, [token for token in tokens if token is not None]
        self._patience = config.timeouts.rejoin_timeout
        self._timeout, self._what, self._is_over = timeout, what, is_over
        self._until = None if timeout is None else clock() + timeout
        self._is_late = False
        self._furthest, self._since = -1, clock()

    def note(self, done: int) -> None:
        """Note how far a try has come (bytes)."""
        if done > self._furthest:
            self._furthest, self._since = done, self._clock()

    def make(self, attempt: Callable[[], R], *, is_once: bool = False) -> R:
        """Call ``attempt`` until it succeeds, or another one is of no use.

        Raises:
            CommunicationTimeout: the time is over.
            Cancelled: a token was cancelled.
            StreamlinkError: what the last try raised.
        """
        with ExitStack() as stack:
            for token in self._tokens:
                stack.enter_context(token.calling(self.cancel.cancel))
            if self._until is not None:
                # What is left: a call may make several things, such as the pieces of one read.
                left = max(0.0, self._until - self._clock())
                timer = start_timer(self._clock, left, self._be_late)
                stack.callback(timer.cancel)
            return self._try(attempt, is_once)

    def _try(self, attempt: Callable[[], R], is_once: bool) -> R:
        seconds = _FIRST_PAUSE_SECONDS
        while True:
            try:
                self._check()
                return attempt()
            except StreamlinkError as error:
                self._check()  # a token causes other errors, which would hide it
                if is_once or not is_passing(error) or self._is_hopeless():
                    raise
                logger.warning("%s: %s; trying again", self._what, error)
            self.cancel.pause(seconds, self._clock)
            seconds = min(2 * seconds, _LONGEST_PAUSE_SECONDS)

    def _is_hopeless(self) -> bool:
        return self._is_over() or self._clock() - self._since >= self._patience

    def _be_late(self) -> None:
        self._is_late = True
        self.cancel.cancel("it takes too long")

    def _check(self) -> None:
        if self._is_late:
            raise CommunicationTimeout(
                stage="transfer",
                who="the server",
                stream=self._what,
                seconds=self._timeout or 0.0,
                bytes_done=max(0, self._furthest),
                setting="timeout",
            )
        self.cancel.check()
