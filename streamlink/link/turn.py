"""Whose turn it is while a peer is to answer a model by another: as far as this end can see."""

from __future__ import annotations

from streamlink.protocol.stats import CREDIT, NETWORK, NOTHING, StreamStats

__all__ = ["is_its_turn"]


def is_its_turn(down: StreamStats, up: StreamStats) -> bool:
    """Tell whether the peer has all it was sent, and nothing of its answer waits to be taken here.

    Then it works, or what it has done is on its way. ``down`` is sent here, ``up`` received.
    """
    has_what_was_sent = down.stalled_by == CREDIT or 0 < down.extent.stop == down.consumed_bytes
    is_awaited = up.stalled_by in (NOTHING, NETWORK) and not up.is_all_received
    return has_what_was_sent and is_awaited and not (down.in_flight_bytes or up.in_flight_bytes)
