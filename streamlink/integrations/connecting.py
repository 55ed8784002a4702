"""Connecting to a job's object server, where it is not sure that this end can reach it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlink import CancelToken, LinkConfig
from streamlink.errors import ConnectFailed
from streamlink.objects import ObjectClient

__all__ = ["Resting", "connected", "warn"]

logger = logging.getLogger("streamlink.integrations")

MOST_CHARS = 500  # of an error that the other end reports


def connected(address: str, name: str, config: LinkConfig, cancel: CancelToken) -> ObjectClient:
    """Return a client that has connected; ``cancel`` ends the attempt, and not the session.

    Raises:
        StreamlinkError: as ``ObjectClient.start``.
    """
    ended = CancelToken()
    client = ObjectClient(address, name=name, config=config, cancel=ended)
    with cancel.calling(ended.cancel):
        return client.start()


class Resting:
    """Keeps those that could not connect from trying again at once.

    A job has many models. Where a firewall drops packets, each of them would wait for
    ``connect_timeout`` before it takes another way.

    Args:
        seconds: how long they rest.
        now: the time (seconds).
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now = seconds, now
        self._until: dict[str, tuple[float, str]] = {}

    @contextmanager
    def trying(self, who: str) -> Iterator[None]:
        """Connect within the block; a ``ConnectFailed`` begins the rest.

        Raises:
            ConnectFailed: ``who`` rests.
        """
        until, why = self._until.get(who, (0.0, ""))
        if (left := until - self._now()) > 0:
            raise ConnectFailed(f"{why}; {who} tries again in {left:.0f} s")
        try:
            yield
        except ConnectFailed as error:
            self._until[who] = self._now() + self._seconds, str(error)
            raise


def warn(framework: str, setting: str, port: int, end: str, error: object) -> str:
    """Log that a model goes the framework's own way, and what to do; return the error as a line.

    Args:
        framework: its name.
        setting: what has the ports.
        port: of the server's sessions.
        end: who reports the error.
        error: why the model did not travel beside the framework's messages.
    """
    why = " ".join(str(error).split())[:MOST_CHARS].rstrip(".")
    logger.warning(
        "a model did not get through at port %d of the server; %s reports: %s. %s carries it. "
        "If a firewall is between, open that port and the next one, or set %s to a range that is "
        "open, the same at both ends",
        *(port, end, why, framework, setting),
    )
    return why
