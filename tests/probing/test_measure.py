"""A probe that the server ends early: what was measured until then is known."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from streamlink.config import LinkConfig, StreamConfig
from streamlink.errors import StreamAborted
from streamlink.link.server import Server
from streamlink.probing import ProbeLine, RoundTrips, Speed, measure


def test_each_measurement_is_noted_as_soon_as_it_is_there() -> None:
    found: dict[str, RoundTrips | Speed] = {}
    with ExitStack() as stack:
        # Slow: all that follows takes longer than the server needs to notice its round.
        slow = LinkConfig(stream=StreamConfig(bwlimit="4M"))
        server = stack.enter_context(Server(config=slow))
        line = stack.enter_context(ProbeLine(server.address))

        def note(name: str, each: RoundTrips | Speed) -> None:
            found[name] = each
            if name == "down, alone":
                stack.enter_context(server.occupied("round 4 runs"))

        with pytest.raises(StreamAborted, match="round 4 runs"):
            measure(line, address=server.address, seconds=0.5, note=note)
    assert list(found)[:2] == ["round trip, idle", "down, alone"]
    assert "down, 4 at once" not in found
    assert isinstance(found["round trip, idle"], RoundTrips)
    assert isinstance(found["down, alone"], Speed)


def test_what_is_noted_is_what_is_returned() -> None:
    found: dict[str, RoundTrips | Speed] = {}
    with Server() as server, ProbeLine(server.address) as line:
        measured = measure(
            line, address=server.address, seconds=0.5, most=4 << 20, note=found.__setitem__
        )
    assert found == {
        "round trip, idle": measured.idle,
        "down, alone": measured.down,
        "up, alone": measured.up,
        "down, beside up": measured.down_both,
        "up, beside down": measured.up_both,
        "down, 4 at once": measured.down_several,
    }
