"""What one chunk may be, seen from the table of its faults."""

from __future__ import annotations

import pytest

from streamlink.errors import FlowControlError, FrameTooLarge, ProtocolError, RemoteProtocolError
from streamlink.protocol.admitted import check_chunk
from streamlink.protocol.arrivals import Arrivals
from streamlink.protocol.frames import Chunk
from tests.support.machines import an_open, zeros


def check(nbytes: int, *, at: int = 0, total: int = 100, most: int = 40, limit: int = 90) -> None:
    """Check a first chunk at ``at``, where a process before this one has brought what is below."""
    arrivals = Arrivals(max_damaged=1)
    arrivals.received = at
    chunk, opened = Chunk(0, at, zeros(nbytes)), an_open(total)
    check_chunk(chunk, arrivals, opened, most=most, limit=limit, peer="site-1")


@pytest.mark.parametrize(
    ("nbytes", "changes"),
    [(40, {}), (1, {}), (40, {"at": 50}), (40, {"at": 60, "limit": 200})],
)
def test_a_chunk_may_come_up_to_every_bound(nbytes: int, changes: dict[str, int]) -> None:
    check(nbytes, **changes)


@pytest.mark.parametrize(
    ("nbytes", "changes", "kind", "words"),
    [
        (41, {}, FrameTooLarge, "41 bytes; agreed were at most 40"),
        (40, {"at": 51}, FlowControlError, "up to byte 91 with credit to 90"),
        (40, {"at": 61, "limit": 200}, RemoteProtocolError, "beyond its model, up to 101"),
    ],
)
def test_a_chunk_beyond_a_bound_is_refused_by_name(
    nbytes: int, changes: dict[str, int], kind: type[ProtocolError], words: str
) -> None:
    with pytest.raises(kind, match=f"site-1 .*{words}") as failure:
        check(nbytes, **changes)
    assert failure.value.stream_id == 1


def test_a_chunk_out_of_its_place_is_refused() -> None:
    chunk, opened = Chunk(1, 0, zeros(10)), an_open(100)
    with pytest.raises(RemoteProtocolError, match="site-1 sent chunk 1 where 0 was due"):
        check_chunk(chunk, Arrivals(max_damaged=1), opened, most=40, limit=90, peer="site-1")
