"""The calls between this process and the others have numbers, and a message finds its call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.errors import AddressInUse
from streamlink.transport.mpi.tags import Kind, Tag, numbers_within
from tests.support.mpi import MOST, MpiEnds, mpi_ends
from tests.support.peers import until


@pytest.fixture
def ends() -> Iterator[MpiEnds]:
    # Tags for two calls and no more; a library of MPI may have them for 1,024 only.
    most = Tag(1, True, Kind.LOST).packed() | 15
    assert numbers_within(most) == 2
    with mpi_ends(most) as ends:
        yield ends


def test_a_number_is_used_again_once_its_call_has_ended_at_both_ends(ends: MpiEnds) -> None:
    first, second = ends.call(), ends.call()
    assert ends.switchboard.open(0, Kind.OPEN_STREAM, MOST) is None
    first[0].lose()
    until(lambda: ends.switchboard.calls == 2)
    third = ends.call()
    third[0].send(Kind.FRAME, b"to the third")
    message = third[1].next()
    assert bytes(third[1].content(message)) == b"to the third"
    second[0].lose()
    third[0].lose()
    until(lambda: ends.switchboard.calls == 0)


def test_a_message_of_no_call_is_dropped_and_harms_nobody(ends: MpiEnds) -> None:
    ranks = ends.switchboard.ranks
    client, server = ends.call()
    ranks.notify(ranks.rank, Tag(1 - client.number, True, Kind.FRAME).packed())
    client.send(Kind.FRAME, b"goes on")
    assert bytes(server.content(server.next())) == b"goes on"
    client.lose()
    until(lambda: ends.switchboard.calls == 0)


def test_only_one_server_of_a_process_listens(ends: MpiEnds) -> None:
    with pytest.raises(AddressInUse, match="another server of this process"):
        ends.switchboard.listen(lambda kind, call: None, MOST)
