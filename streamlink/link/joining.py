"""How a client gets a session: its first one, and another after the server has lost it.

The first may have to wait, since the name may still belong to this client's own earlier process. A
client that was killed and started again can be back before the server notices that the first
process has gone; neither side can distinguish that from two clients with one name. So the later one
retries for as long as the server may keep a dead client, and then fails with an error that names
both causes.

A session is ended by the server, with a goodbye or an abort, or it is *lost*: the server was
restarted and does not know it, or was silent for ``reconnect_timeout``, or what one of the two
sends arrives damaged over call after call. Only a lost session is replaced by another.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import TimeoutConfig
from streamlink.errors import (
    AbortCode,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
    TransportError,
)
from streamlink.transport.jitter import FullJitter, below
from streamlink.transport.session import Session

__all__ = ["Patience", "is_goodbye", "is_lost", "join_again", "join_when_free"]

T = TypeVar("T")

logger = logging.getLogger("streamlink.client")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 2.0  # between tries for a name that is taken
_TRY_SECONDS = 0.5  # one try to reach the server; gRPC itself retries across several of them
_LONGEST_REFUSED_SECONDS = 1.0  # pause after a refusal; random, so that clients do not come at once
_TEMPORARY = (AbortCode.SESSION_LOST, AbortCode.REFUSED, AbortCode.NAME_TAKEN)
"""Refusals that may end soon: the server has not noticed that we were gone, or is full."""


def join_when_free(
    connect: Callable[[], T], name: str, timeouts: TimeoutConfig, cancel: CancelToken, clock: Clock
) -> T:
    """Call ``connect``, again and again while the server refuses the name as taken.

    Raises:
        Cancelled: ``cancel`` was cancelled; ``connect`` has to check it, too.
        StreamAborted: the name is still taken after ``session_timeout`` + ``connect_timeout``.
    """
    patience = timeouts.session_timeout + timeouts.connect_timeout
    until = clock() + patience

    def log(state: RetryCallState) -> None:
        # Once: later tries only repeat it.
        if state.attempt_number == 1 and state.outcome is not None:
            logger.warning(
                "%s; if that is this client's process from before a restart, the server will soon "
                "notice: retrying for up to %g s",
                state.outcome.exception(),
                patience,
            )

    def pause(seconds: float) -> None:
        cancel.pause(seconds, clock)

    tries = Retrying(
        retry=retry_if_exception(_is_taken),
        stop=lambda state: clock() >= until,
        # Full jitter: many clients may have been started again at the same moment.
        wait=FullJitter(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
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
            f"{error.reason}. That was so for {patience:g} s (session_timeout and "
            f"connect_timeout): either another process runs as {name!r}, and one of the two needs "
            "another name; or the server still waits for the process before this one, which lost "
            "its connection, and this one can be started later",
            by_peer=True,
            who=error.who,
        ) from error


def _is_taken(error: BaseException) -> bool:
    return isinstance(error, StreamAborted) and error.code is AbortCode.NAME_TAKEN


def is_goodbye(error: StreamlinkError | None) -> bool:
    """Whether a session that ended with ``error`` ended by the server's goodbye."""
    return isinstance(error, StreamAborted) and error.by_peer and error.code is AbortCode.GOODBYE


def is_lost(error: StreamlinkError | None) -> bool:
    """Whether a session that ended with ``error`` was lost: the server has not ended it."""
    return error is not None and error.code is AbortCode.SESSION_LOST


class Patience:
    """The time limit for joining again. Not thread-safe.

    After each loss a client tries for up to ``seconds``. Sessions that are lost soon after they
    began share one such limit: otherwise a line that damages everything after the handshake would
    make a client join again without end.

    Args:
        seconds: the limit after one loss.
        lasting: a session that lived longer than this has a limit of its own (seconds).
        now: when the first session began.
    """

    def __init__(self, seconds: float, *, lasting: float, now: float) -> None:
        self._seconds, self._lasting = seconds, lasting
        self._joined_at, self._lost_at = now, -math.inf

    def lost(self, now: float) -> float:
        """Note that the session is lost; returns how long another is tried for (seconds)."""
        if now - self._joined_at > self._lasting or self._lost_at == -math.inf:
            self._lost_at = now
        return self._seconds - (now - self._lost_at)

    def joined(self, now: float) -> None:
        """Note that another session has begun."""
        self._joined_at = now


def join_again(
    connect: Callable[[float], Session],
    renew: Callable[[], None],
    why: StreamlinkError,
    *,
    seconds: float,
    at_once: bool = True,
    is_closing: threading.Event,
    clock: Clock,
) -> Session:
    """Open a new session with the server as soon as it can be reached.

    Args:
        connect: makes one try, for at most the seconds it is given.
        renew: replaces the connections, which may be dead without this end's knowing.
        why: how the old session ended.
        seconds: how long to try at most.
        at_once: False: pause before the first try, too, because the last session was short.
        is_closing: ends the tries.
        clock: of the tries.

    Raises:
        StreamlinkError: it could not be reached, or refuses this client; the last reason.
    """
    until, error = clock() + seconds, why
    # It ended by silence: the connection may be dead while its carrier takes it for alive.
    if isinstance(why, StreamTimeout):
        renew()
    if not at_once:
        clock.wait(is_closing, below(_LONGEST_REFUSED_SECONDS))
    while (left := until - clock()) > 0 and not is_closing.is_set():
        try:
            # In short tries, since only between two of them it is seen that this client is closing.
            return connect(min(_TRY_SECONDS, left))
        except TransportError as failed:
            if isinstance(failed.__cause__, StreamAborted):
                raise  # it does not accept our certificate, token or name
            logger.debug("not yet: %s", failed)
        except (StreamAborted, StreamTimeout) as refused:
            if isinstance(refused, StreamAborted) and refused.code not in _TEMPORARY:
                raise
            logger.debug("not yet: %s", refused)
            error = refused
            renew()
            clock.wait(is_closing, below(_LONGEST_REFUSED_SECONDS))
    raise error
