"""``DataReach``: which sessions have reached a data port, and which ought to be helped."""

from __future__ import annotations

import logging
from weakref import WeakKeyDictionary, WeakSet

from streamlink.clock import Clock
from streamlink.transport.log import noted
from streamlink.transport.proving import PROVE_SECONDS
from streamlink.transport.session import Session

__all__ = ["DataReach"]

logger = logging.getLogger("streamlink.server")


class DataReach:
    """The server's half of what a client logs (``proving``). Any thread may tell it.

    An operator who has not opened the port sees that here, and not in the logs of each site.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Gone with their sessions. Sets and dictionaries of the interpreter: each step is atomic,
        # and a line that is logged twice would be no harm.
        self._reached: WeakSet[Session] = WeakSet()
        self._without: WeakKeyDictionary[Session, float] = WeakKeyDictionary()
        self._told: WeakSet[Session] = WeakSet()

    def reached(self, session: Session) -> None:
        """A connection of ``session`` to a data port has been proven."""
        self._reached.add(session)

    def went_without(self, session: Session, ports: str) -> None:
        """A stream of ``session`` has come over the carrier of sessions; logs it once.

        Args:
            session: whose stream it is.
            ports: what its welcome offered, for people.
        """
        if session in self._reached or session in self._told:
            return
        # A stream does not wait for the proof, which may take a client so long.
        if self._clock() - self._without.setdefault(session, self._clock()) < PROVE_SECONDS:
            return
        self._told.add(session)
        logger.warning(
            "%s has never reached %s, and its streams use the connection of its session, which is "
            "slower; let connections to this port through",
            session.peer_name,
            ports,
            extra=noted("data port not reached", peer=session.peer_name, ports=ports),
        )
