"""Where a session stands, either end of it, and the moves between: what may be heard when."""

from __future__ import annotations

from enum import Enum, auto

from streamlink.protocol.frames import (
    Abort,
    Cancel,
    Goodbye,
    Heartbeat,
    Hello,
    Reply,
    Request,
    TaskProgress,
    Welcome,
)
from streamlink.protocol.machine import Moves


class SessionState(Enum):
    """Where a session stands."""

    __hash__ = object.__hash__  # as for ``State``

    GREETING = auto()
    """Client: hello sent on this call."""
    WAITING = auto()
    """Server: nothing heard yet on this call."""
    GREETED = auto()
    """Server: hello heard, the owner decides."""
    READY = auto()
    AWAY = auto()
    """The call is lost; another may take over within ``reconnect_timeout``."""
    CLOSED = auto()


SESSION_MOVES: Moves = {
    (SessionState.GREETING, Welcome): SessionState.READY,
    (SessionState.WAITING, Hello): SessionState.GREETED,
    (SessionState.READY, Heartbeat): SessionState.READY,
    (SessionState.READY, Request): SessionState.READY,
    (SessionState.READY, TaskProgress): SessionState.READY,
    (SessionState.READY, Reply): SessionState.READY,
    (SessionState.READY, Cancel): SessionState.READY,
    (SessionState.GREETING, Goodbye): SessionState.CLOSED,
    (SessionState.WAITING, Goodbye): SessionState.CLOSED,
    (SessionState.GREETED, Goodbye): SessionState.CLOSED,
    (SessionState.READY, Goodbye): SessionState.CLOSED,
    (SessionState.GREETING, Abort): SessionState.CLOSED,
    (SessionState.WAITING, Abort): SessionState.CLOSED,
    (SessionState.GREETED, Abort): SessionState.CLOSED,
    (SessionState.READY, Abort): SessionState.CLOSED,
}
