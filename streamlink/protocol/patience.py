"""How long the end that cannot call waits for a lost call to be made good.

All calls start at the client, and a break may be seen at the other end only: behind a proxy or a
NAT a client may take a dead connection for alive until it has heard nothing for its
``session_timeout``. A connection that was reset proves nothing about the client beyond it, so both
kinds of break are waited for alike.
"""

from __future__ import annotations

from streamlink.config import TimeoutConfig

TRIES = 3
"""A new call that brings nothing leaves time for others within ``reconnect_timeout`` (count)."""


def longer_than_reconnect(timeouts: TimeoutConfig, unnoticed: float) -> float:
    """Return how much longer than ``reconnect_timeout`` the server waits (seconds).

    Every break shorter than that is survived. Who notices late has time for one try at least; in
    all it is never more than 4/3 of what was set here, whatever a client asks.

    Args:
        timeouts: this end's.
        unnoticed: how long the client may take a broken call for alive (seconds).
    """
    longest = timeouts.reconnect_timeout
    noticed = max(0.0, min(longest, unnoticed))
    return max(0.0, noticed + longest / TRIES - longest)
