"""What this layer logs: records with stable names and facts, and how many of them.

A record has a sentence for people, and beside it an event name and facts that do not change with
the wording. Whatever a stranger can cause as often as it likes is limited in rate here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from streamlink.clock import Clock
from streamlink.protocol.limits import TokenBucket
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.stream import StreamMachine

__all__ = [
    "RateLimitedLog",
    "is_news",
    "log_lag",
    "log_repair",
    "log_resume",
    "log_silence",
    "noted",
]

logger = logging.getLogger("streamlink.transport")

_PER_SECOND, _BURST = 1.0, 20.0


def noted(event: str, **facts: str | float | bool) -> dict[str, Any]:
    """Return the ``extra`` of a log record; a log made of JSON shows it (docs/operations.md)."""
    return {"event": event, "facts": facts}


def is_news(count: int) -> bool:
    """Whether the ``count``-th of what may come in floods is worth a line: 1, 2, 4, ..."""
    return count & (count - 1) == 0


def log_silence(machine: StreamMachine) -> None:
    """Log that the calls of a stream were given up because they brought nothing."""
    logger.warning(
        "%s with %s: nothing arrives on its call (call_timeout); the call is replaced",
        machine.name,
        machine.peer_name,
    )


def log_lag(machine: StreamMachine) -> None:
    """Log that one of several calls of a stream was given up because the others waited for it."""
    extra = noted("lane lags", stream=machine.name, peer=machine.peer_name)
    text = "%s with %s: one of its connections lags; the others carry what it owes"
    logger.info(text, machine.name, machine.peer_name, extra=extra)


def log_resume(machine: SendStream | ReceiveStream, at: int) -> None:
    """Log that a stream resumes at byte ``at`` over a new call."""
    extra = noted("stream resumed", stream=machine.name, peer=machine.peer_name, offset=at)
    logger.info("%s resumes at byte %d", machine.name, at, extra=extra)


def log_repair(machine: SendStream | ReceiveStream, count: int, what: str) -> None:
    """Log the ``count``-th repair of a chunk, if that is news: a bad line causes thousands."""
    if is_news(count):
        extra = noted("chunk repaired", stream=machine.name, peer=machine.peer_name, repairs=count)
        logger.warning("%s: a chunk %s; %d so far", machine.name, what, count, extra=extra)


class RateLimitedLog:
    """Writes warnings to ``logger``, as many as a person can read. Any thread may warn."""

    def __init__(self, logger: logging.Logger, *, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._allowance = TokenBucket(_PER_SECOND, burst=_BURST)
        self._left_out = 0

    def warning(self, text: str, *args: object, extra: Mapping[str, object] | None = None) -> None:
        """Log a warning, or count it where there were too many; the next that is logged says so."""
        with self._lock:
            if not self._allowance.take_token(now=self._clock()):
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        # Without the lock: a handler may block, and other threads only want to count.
        if left_out:
            text, args = f"{text} (%d like it were left out)", (*args, left_out)
        self._logger.warning(text, *args, extra=extra)
