"""``CallPlaces``: how many calls may carry the streams of one session, and which do.

``LanePlaces`` bounds those beyond the first of each stream, over all sessions of a server.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ProtocolError

__all__ = ["CallPlaces", "LanePlaces"]

_MOST_ENDED = 4  # calls that one peer may have for streams that have ended (count)


class LanePlaces:
    """The lanes of all sessions of one server. Any thread may use it.

    Args:
        most: of them (count).
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a place; returns whether there was one."""
        with self._lock:
            has_room = self.taken < self.most
            self.taken += has_room
            return has_room

    def free(self) -> None:
        """Free a place that was taken."""
        with self._lock:
            self.taken -= 1


class CallPlaces:
    """The calls of one session's streams: one for each, and lanes beside them.

    It has no lock: its session holds one around each call.

    Args:
        config: the limits of this end.
        peer_name: for errors.
        all_lanes: of all sessions of this end; None: it serves none.
    """

    def __init__(
        self, config: LinkConfig, peer_name: str, all_lanes: LanePlaces | None = None
    ) -> None:
        self._config, self._peer_name = config, peer_name
        self._all_lanes = all_lanes or LanePlaces(0)
        self._calls: dict[int, int] = {}  # stream to the call that carries it
        self._lanes: set[tuple[int, int]] = set()  # stream and call, of those beside it

    def take(self, stream_id: int, offered: Collection[int]) -> None:
        """Take a place for a call that is about to carry a stream, ``offered`` or ended.

        Raises:
            ProtocolError: too many other streams have a call already.
        """
        # Without its own: a call that takes over is not one more.
        others, most = self._calls.keys() - {stream_id}, self._config.limits.max_streams
        # How many streams there are is for this end to decide, so a client can open calls for more
        # only where it opens some again that have ended.
        if stream_id not in offered:
            others, most = others - set(offered), _MOST_ENDED
        if len(others) >= most:
            raise self._refused(
                stream_id,
                f"{self._peer_name} has {most} transfer calls open, the most a session may have",
            )
        # Taken before it is attached, or two streams could take the last place at once. 0 is no
        # call's number: the end of an older call does not free it.
        self._calls[stream_id] = 0

    def took(self, stream_id: int, call: int) -> None:
        """Note the number of the call for which ``take`` took a place."""
        # The newest, where two calls took over at once: the end of the other frees no place.
        self._calls[stream_id] = max(call, self._calls.get(stream_id, 0))

    def take_lane(self, stream_id: int, carrying: int) -> None:
        """Take a place for one more call of a stream, beside ``carrying`` others (count).

        Raises:
            ProtocolError: the stream, the session or the server has as many as it may; or none
                carries the stream, so that it has to be resumed first.
        """
        stream = self._config.stream
        is_room = len(self._lanes) < stream.client_lanes
        if not (is_room and 0 < carrying < stream.max_lanes):
            raise self._refused(
                stream_id,
                f"{self._peer_name} opens a connection beside {carrying} of this stream, and has "
                f"{len(self._lanes)} such in all; max_lanes is {stream.max_lanes}",
            )

        if not self._all_lanes.take():
            raise self._refused(
                stream_id,
                f"the clients of this server have {self._all_lanes.most} lanes in all, which is "
                "limits.max_extra_lanes or as many as file descriptors permit",
            )

    @contextmanager
    def taking_lane(self, stream_id: int, carrying: int) -> Iterator[None]:
        """Do as ``take_lane``, and free the place where what follows fails: no call comes of it."""
        self.take_lane(stream_id, carrying)
        try:
            yield
        except BaseException:
            self._all_lanes.free()
            raise

    def took_lane(self, stream_id: int, call: int) -> None:
        """Note the number of the call for which ``take_lane`` took a place."""
        self._lanes.add((stream_id, call))

    def free(self, stream_id: int, call: int) -> None:
        """Free the place of a call that has ended."""
        self._free_lane(stream_id, call)
        # Only if it is still that one: a newer call may have taken over.
        if self._calls.get(stream_id) == call:
            del self._calls[stream_id]
            # One of the lanes left becomes the stream's first connection. Counted as a lane, it
            # would take a place that other streams of the session may need.
            if lane := min((each for each in self._lanes if each[0] == stream_id), default=None):
                self._free_lane(*lane)
                self._calls[stream_id] = lane[1]

    def _free_lane(self, stream_id: int, call: int) -> None:
        if (stream_id, call) in self._lanes:
            self._lanes.remove((stream_id, call))
            self._all_lanes.free()

    @staticmethod
    def _refused(stream_id: int, why: str) -> ProtocolError:
        return ProtocolError(why, stream_id=stream_id, code=AbortCode.REFUSED)
