"""How a server's sessions end: with a goodbye that is answered, for a fault, or for another one.

A client whose connection is lost tries again every few seconds. One that finds nobody cannot know
whether the server is about to be started again, and waits for ``reconnect_timeout`` and longer. So
a server that is done listens until each client has acknowledged its goodbye, or is given up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from streamlink.clock import Clock
from streamlink.errors import AbortCode
from streamlink.protocol.frames import Hello
from streamlink.transport.reconnect import LONGEST_PAUSE_SECONDS
from streamlink.transport.session import Session

__all__ = ["Drain", "leave", "superseded"]

logger = logging.getLogger("streamlink.server")

MOST_SECONDS = LONGEST_PAUSE_SECONDS + 0.5
"""Longer than any client pauses between two tries (seconds)."""


def leave(sessions: Sequence[Session], reason: str, longest: float, clock: Clock) -> None:
    """Say goodbye to all at once, and wait until each has answered or is given up.

    Args:
        sessions: those that stand.
        reason: of the goodbye, for their clients.
        longest: how long to wait in all (seconds). The clock of each session ends it by itself
            after ``reconnect_timeout``, or 4/3 of that.
        clock: what they go by.
    """
    until = clock() + longest
    # All goodbyes before the first wait: one client that is away must not delay those of others.
    for session in sessions:
        session.leave(reason)
    if away := [session.peer_name for session in sessions if session.is_disconnected]:
        logger.info("waiting for %s to come back and hear: %s", ", ".join(away), reason)
    for session in sessions:
        session.closed.wait(max(0.0, until - clock()))


def superseded(session: Session, hello: Hello) -> tuple[AbortCode, str]:
    """Return why a session ends whose client begins another one, and the code of that."""
    if session.is_leaving:
        return AbortCode.GOODBYE, session.left_because
    if session.instance != hello.instance:
        # Not "lost": the old process, if it lives after all, shall not take its place back.
        return (
            AbortCode.NAME_TAKEN,
            f"{hello.name} connected as another process",
        )
    why = f"{hello.name} replaced this session with a new one"
    paused = session.clock.paused_since(session.began_at)
    if paused > min(hello.session_timeout, session.config.timeouts.session_timeout):
        why += f", after this process had not run for {paused:.1f} s"
    return AbortCode.SESSION_LOST, why


class Drain:
    """The sessions whose clients do not know yet that the server failed.

    An abort is not acknowledged, and a server that failed shall end soon: it waits until the aborts
    have left, and for those away as long as one try of a client takes, and no longer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = clock.condition()
        self._waiting: set[str] = set()

    def abort(self, sessions: Sequence[Session], reason: str, seconds: float) -> bool:
        """End all after a fault, and wait for those away; returns whether all have heard of it."""
        with self._changed:
            # Before the abort: a client that comes back right after it would be noted too late.
            self._waiting.update(each.session_id for each in sessions if each.is_disconnected)
        until = self._clock() + min(seconds, MOST_SECONDS)
        for session in sessions:
            session.abort(AbortCode.CANCELLED, reason)
        # A carrier that stops flushes only what was handed to it. On a busy machine the abort may
        # still be queued here.
        for session in sessions:
            session.pump.wait_over(max(0.0, until - self._clock()))
        left = max(0.0, until - self._clock())
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, left)

    def told(self, session_id: str) -> None:
        """Note that a client came back and heard that its session has ended."""
        with self._changed:
            self._waiting.discard(session_id)
            self._changed.notify_all()
