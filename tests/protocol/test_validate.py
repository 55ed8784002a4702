"""What a peer may send: the table of its faults."""

from __future__ import annotations

import pytest

from streamlink.errors import FlowControlError, FrameTooLarge, ProtocolError, RemoteProtocolError
from streamlink.protocol.frames import ChunkHeader
from streamlink.protocol.validate import check_chunk
from tests.support.machines import an_open

# --- chunks --------------------------------------------------------------------------


def check(
    nbytes: int,
    *,
    at: int = 0,
    wire: int = -1,
    encoding: int = 0,
    limit: int = 90,
    sequence: int = 0,
) -> None:
    """Check the first chunk of a model of 100 bytes; one encoding is agreed."""
    header = ChunkHeader(0, at, nbytes, nbytes if wire < 0 else wire, encoding)
    check_chunk(
        header,
        an_open(100),
        sequence=sequence,
        max_bytes=40,
        limit=limit,
        encodings=1,
        peer_name="site-1",
    )


@pytest.mark.parametrize(
    ("nbytes", "changes"),
    [
        (40, {}),
        (1, {}),
        (40, {"at": 50}),
        (40, {"at": 60, "limit": 200}),
        (40, {"encoding": 1, "wire": 0}),
        (40, {"encoding": 1, "wire": 39}),
    ],
)
def test_a_chunk_may_come_up_to_every_bound(nbytes: int, changes: dict[str, int]) -> None:
    check(nbytes, **changes)


@pytest.mark.parametrize(
    ("nbytes", "changes", "kind", "words"),
    [
        (41, {}, FrameTooLarge, "41 bytes; at most 40 were agreed"),
        (40, {"at": 51}, FlowControlError, "up to byte 91 with credit to 90"),
        (40, {"at": 61, "limit": 200}, RemoteProtocolError, "sent bytes 61 to 101, outside of"),
        (10, {"sequence": 1}, RemoteProtocolError, "sent chunk frame 0 where 1 was expected"),
        (10, {"wire": 9}, RemoteProtocolError, "9 plain bytes that it counts as 10"),
        (10, {"encoding": 2, "wire": 5}, RemoteProtocolError, "encoding 2, which was not agreed"),
        (10, {"encoding": 1, "wire": 10}, RemoteProtocolError, "those must travel plain"),
    ],
)
def test_a_chunk_beyond_a_bound_is_refused_by_name(
    nbytes: int, changes: dict[str, int], kind: type[ProtocolError], words: str
) -> None:
    with pytest.raises(kind, match=f"site-1 .*{words}") as failure:
        check(nbytes, **changes)
    assert failure.value.stream_id == 1
