"""``Presence``: whether a client is here, in the session it asked in or in the next one."""

from __future__ import annotations

from typing import Literal

from streamlink.errors import AbortCode
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session

__all__ = ["Presence"]


class Presence:
    """Whether the client that has asked is still here; ``ClientRequest.presence`` makes one.

    It keeps nothing of the request, so that it may be kept for long.
    """

    __slots__ = ("_hub", "_session")

    def __init__(self, hub: Hub, session: Session) -> None:
        self._hub, self._session = hub, session

    @property
    def state(self) -> Literal["here", "lost", "left"]:
        """``here``; ``lost``, and may join again; or ``left`` for good, as its process has."""
        if not self._session.closed.is_set():
            return "here"
        named = (each for each in self._hub.sessions if each.peer_name == self._session.peer_name)
        newer = next(named, None)  # no two clients that are here share a name
        if newer is not None:
            # Another client has the name by now, so the one that asked has ended.
            if newer.instance != self._session.instance:
                return "left"
            self._session = newer
            return "here"
        error = self._session.error
        return "left" if error is not None and error.code is AbortCode.GOODBYE else "lost"
