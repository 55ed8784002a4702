"""Which call a message belongs to: the calls between this process and the others, both ends'."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamlink.clock import Clock
from streamlink.errors import AddressInUse
from streamlink.transport.mpi.calls import MpiCall
from streamlink.transport.mpi.tags import ENDS, OPENS, Kind, Tag, numbers_within
from streamlink.transport.rank_messages import Arrival
from streamlink.transport.ranks import Ranks, ranks_of_this_process

__all__ = ["Accept", "Switchboard", "switchboard_of_this_process"]

logger = logging.getLogger("streamlink.transport")

Accept = Callable[[Kind, MpiCall], None]
"""Serves a call that a client has opened. It must not block."""


class Switchboard:
    """The calls of this process. Use ``switchboard_of_this_process``."""

    def __init__(self, ranks: Ranks, clock: Clock) -> None:
        self.ranks, self._clock = ranks, clock
        self._lock = threading.Lock()
        # By the rank of the other end, the call's number, and whether this is the client's end.
        self._calls: dict[tuple[int, int, bool], MpiCall] = {}
        self._accept: Accept | None = None
        self._most = 0
        self._last = 0
        # Last: from here on another thread calls.
        ranks.on_arrival = self._arrived

    @property
    def calls(self) -> int:
        """How many ends of calls are here of which something may still come."""
        with self._lock:
            return len(self._calls)

    def open(self, to: int, kind: Kind, most: int) -> MpiCall | None:
        """Open a call to the server at rank ``to``; None: every number is in use.

        Args:
            to: a rank.
            kind: what it is for.
            most: the largest message that may arrive (bytes).
        """
        with self._lock:
            number = self._free(to)
            if number is None:
                return None
            call = self._new(to, number, is_client=True, most=most)
        call.begin(kind)
        return call

    def listen(self, accept: Accept, most: int) -> None:
        """Have ``accept`` called with each call that is opened to this process.

        Raises:
            AddressInUse: another server of this process listens.
        """
        with self._lock:
            if self._accept is not None:
                raise AddressInUse("another server of this process listens at its MPI rank")
            self._accept, self._most = accept, most

    def stop_listening(self) -> None:
        """Refuse calls from now on."""
        with self._lock:
            self._accept = None

    def _free(self, to: int) -> int | None:
        """Return a number that no call to there has; the caller holds the lock."""
        most = numbers_within(self.ranks.most_tag)
        for _ in range(len(self._calls) + 1):
            # The next one, and not the last that became free: logs are easier to read.
            self._last = (self._last + 1) % most
            if (to, self._last, True) not in self._calls:
                return self._last
        return None

    def _new(self, other: int, number: int, *, is_client: bool, most: int) -> MpiCall:
        """Return a new call; the caller holds the lock."""
        key = other, number, is_client

        def forget() -> None:
            with self._lock:
                self._calls.pop(key, None)

        call = self._calls[key] = MpiCall(
            self.ranks,
            other,
            number,
            is_client=is_client,
            most=most,
            forget=forget,
            clock=self._clock,
        )
        return call

    # --- in the thread that moves all messages --------------------------------------------

    def _arrived(self, arrival: Arrival) -> None:
        try:
            number, is_up, kind = Tag.unpacked(arrival.tag)
        except ValueError:  # of a newer version: its call ends by a deadline, and no other does
            logger.warning("rank %d sent a message of an unknown kind", arrival.source)
            self.ranks.drop(arrival)
            return
        if kind in OPENS:
            self.ranks.drop(arrival)
            self._opened(arrival.source, number, kind)
            return
        with self._lock:
            # ``not``: what goes up comes from the client's end, and is for the end that is not the
            # client's.
            call = self._calls.get((arrival.source, number, not is_up))
        if call is None:
            logger.warning("rank %d sent a message of no call, %s", arrival.source, kind.name)
            self.ranks.drop(arrival)
        elif kind in ENDS:
            call.heard_end(kind, arrival)
        else:
            call.arrived(kind, arrival)

    def _opened(self, source: int, number: int, kind: Kind) -> None:
        with self._lock:
            # Made also where nobody listens: it answers ``LOST``, and keeps its number taken until
            # the client has sent its own last message.
            call = self._new(source, number, is_client=False, most=self._most)
            accept = self._accept
        if accept is None:
            call.lose()
        else:
            accept(kind, call)


def switchboard_of_this_process(clock: Clock) -> Switchboard:
    """Return the calls of this process; the first use of it begins MPI (see ``ranks``)."""
    global _switchboard
    with _once:
        if _switchboard is None:
            _switchboard = Switchboard(ranks_of_this_process(clock), clock)
        return _switchboard


_once = threading.Lock()
_switchboard: Switchboard | None = None
