"""``DataReach``: which sessions have reached a data port, and which ought to be helped."""

from __future__ import annotations

import logging
import threading
from weakref import WeakKeyDictionary, WeakSet, ref

from streamlink.clock import Clock
from streamlink.timers import Timer, start_timer
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
        self._lock = threading.Lock()
        self._reached: WeakSet[Session] = WeakSet()  # both gone with their sessions
        self._watched: WeakKeyDictionary[Session, Timer] = WeakKeyDictionary()

    def reached(self, session: Session) -> None:
        """A connection of ``session`` to a data port has been proven."""
        with self._lock:
            self._reached.add(session)
            timer = self._watched.get(session)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Name nobody any more."""
        with self._lock:
            timers = list(self._watched.values())
        for timer in timers:
            timer.cancel()

    def went_without(self, session: Session, ports: str) -> None:
        """A stream of ``session`` has come over the carrier of sessions; logs it once, later.

        Args:
            session: whose stream it is.
            ports: what its welcome offered, for people.
        """
        later = ref(session)
        with self._lock:
            if session in self._reached or session in self._watched:
                return
            try:
                # A stream does not wait for the proof, which may take a client so long. And it is
                # not waited for: the operator would hear of the port hours later.
                timer = start_timer(self._clock, PROVE_SECONDS, lambda: self._tell(later(), ports))
            except RuntimeError:  # no more threads here: the next stream sees to it
                return
            self._watched[session] = timer

    def _tell(self, session: Session | None, ports: str) -> None:
        if session is None or session.is_ending or session in self._reached:
            return
        logger.warning(
            "%s has never reached %s, and its streams use the connection of its session, which is "
            "slower; let connections to this port through",
            session.peer_name,
            ports,
            extra=noted("data port not reached", peer=session.peer_name, ports=ports),
        )
