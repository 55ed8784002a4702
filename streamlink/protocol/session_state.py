"""Where a session stands, either end of it; ``session`` has the moves between them."""

from __future__ import annotations

from enum import Enum, auto


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
