"""Joins a server again that has lost this client without a word, such as one that was killed.

A session ends with the server's word, a goodbye or an abort, or it is *lost*: the server that came
back does not know it, or nobody answered for ``reconnect_timeout``. Then a new one is begun.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.errors import (
    AbortCode,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
    TransportError,
)
from streamlink.transport.session import Session

__all__ = ["is_goodbye", "is_lost", "join_again"]

logger = logging.getLogger("streamlink.client")

_TRY_SECONDS = 0.5  # one try to reach the server; gRPC goes on trying from one to the next
_LONGEST_PAUSE_SECONDS = 1.0  # after a refusal
_PASSING = (AbortCode.SESSION_LOST, AbortCode.REFUSED, AbortCode.NAME_TAKEN)
"""Refusals that may be over soon: the server does not know yet that we are gone, or is full."""


def is_goodbye(error: StreamlinkError | None) -> bool:
    """Whether a session ended with it because the server said goodbye."""
    return isinstance(error, StreamAborted) and error.by_peer and error.code is AbortCode.GOODBYE


def is_lost(error: StreamlinkError | None) -> bool:
    """Whether a session ended with it, and without the server's word."""
    return error is not None and error.code is AbortCode.SESSION_LOST


def join_again(
    connect: Callable[[float], Session],
    renew: Callable[[], None],
    why: StreamlinkError,
    *,
    seconds: float,
    is_closing: threading.Event,
    clock: Clock,
) -> Session:
    """Begin a new session with the server, as soon as it is there.

    Args:
        connect: tries to, for so many seconds.
        renew: makes new connections to it; those there are may be dead without our knowing.
        why: how the old session ended.
        seconds: how long to try at most.
        is_closing: ends the tries.
        clock: what they go by.

    Raises:
        StreamlinkError: it could not be reached, or does not want us; the last reason.
    """
    until, error = clock() + seconds, why
    if isinstance(why, StreamTimeout):
        renew()
    while (left := until - clock()) > 0 and not is_closing.is_set():
        try:
            return connect(min(_TRY_SECONDS, left))
        except TransportError as failed:
            if isinstance(failed.__cause__, StreamAborted):
                raise  # it does not believe who we are
            logger.debug("not yet: %s", failed)
        except (StreamAborted, StreamTimeout) as refused:
            if isinstance(refused, StreamAborted) and refused.code not in _PASSING:
                raise
            logger.debug("not yet: %s", refused)
            error = refused
            renew()
            clock.wait(is_closing, random.uniform(0.0, _LONGEST_PAUSE_SECONDS))
    raise error
