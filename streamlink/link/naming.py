"""A client whose name the server has given away already waits a while: it may be its own.

A process that was killed and started again may come back before the server has noticed that the
first one is gone. Neither side can tell that from two clients that were given one name. So the
later one tries again for as long as a dead one may be thought alive; then it ends, and says both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import TimeoutConfig
from streamlink.errors import AbortCode, StreamAborted

__all__ = ["once_free"]

T = TypeVar("T")

logger = logging.getLogger("streamlink.client")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 2.0


def once_free(
    connect: Callable[[], T], name: str, timeouts: TimeoutConfig, cancel: CancelToken, clock: Clock
) -> T:
    """Return what ``connect`` does, called again while the server says that the name is taken.

    Raises:
        Cancelled: ``cancel`` was; ``connect`` has to look at it, too.
        StreamAborted: it still is after ``session_timeout`` and ``connect_timeout``.
    """
    patience = timeouts.session_timeout + timeouts.connect_timeout
    until = clock() + patience

    def log(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            logger.warning(
                "%s; if that was this client before it was started again, the server will notice: "
                "trying again for up to %g s",
                state.outcome.exception(),
                patience,
            )

    def pause(seconds: float) -> None:
        cancel.pause(seconds, clock)

    tries = Retrying(
        retry=retry_if_exception(_is_taken),
        stop=lambda state: clock() >= until,
        wait=wait_random_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
        before_sleep=log,
        sleep=pause,
        reraise=True,
    )
    try:
        return tries(connect)
    except StreamAborted as error:
        if not _is_taken(error):
            raise
        raise StreamAborted(
            error.code,
            f"{error.reason}. It was so for {patience:g} s (session_timeout and connect_timeout): "
            f"either another process runs as {name!r}, and one of the two needs another name; or "
            "the one before this was cut off and the server waits for it longer than that, and "
            "this one can be started later",
            by_peer=True,
            who=error.who,
        ) from error


def _is_taken(error: BaseException) -> bool:
    return isinstance(error, StreamAborted) and error.code is AbortCode.NAME_TAKEN
