"""Whose turn it is, by the numbers of the two streams."""

from __future__ import annotations

from dataclasses import replace

from streamlink.extent import Extent
from streamlink.link.peer_request import is_peers_turn
from streamlink.protocol.stats import StreamStats

NINE = Extent(0, 9)
NOTHING_YET = StreamStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0)
ALL_HERE = replace(NOTHING_YET, total_bytes=9, received_bytes=9, consumed_bytes=9, extent=NINE)
UNTAKEN = replace(NOTHING_YET, total_bytes=9, received_bytes=5, stalled_by="credit")
COMING = replace(NOTHING_YET, total_bytes=9, received_bytes=5, stalled_by="network")


def test_it_is_the_turn_of_who_has_what_was_sent_and_sends_nothing() -> None:
    for down in (ALL_HERE, UNTAKEN):
        assert is_peers_turn(down, COMING)
        assert is_peers_turn(down, NOTHING_YET)


def test_it_is_not_the_turn_of_who_is_owed_something_or_is_done() -> None:
    assert not is_peers_turn(NOTHING_YET, NOTHING_YET)
    assert not is_peers_turn(replace(UNTAKEN, in_flight_bytes=3), NOTHING_YET)
    assert not is_peers_turn(COMING, NOTHING_YET)
    assert not is_peers_turn(ALL_HERE, ALL_HERE)
    assert not is_peers_turn(ALL_HERE, replace(COMING, stalled_by="reader"))
    assert not is_peers_turn(ALL_HERE, replace(COMING, in_flight_bytes=3))
