"""The frames of a stream over MPI: a payload travels apart from its header, and into its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np
import pytest

from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemorySink, MemoryStore
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.mpi.calls import MpiCall
from streamlink.transport.mpi.streams import StreamCall
from streamlink.transport.mpi.tags import Kind
from streamlink.transport.pump import Pump
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire
from tests.support.carrier_contract import Line, Moving
from tests.support.models import float_spec
from tests.support.mpi import MpiEnds, mpi_line, require_mpi4py
from tests.support.peers import SMALL

STREAM = 7


class Collecting:
    """Stands for a pump: keeps the frames that a call brings."""

    def __init__(self) -> None:
        self.frames: list[f.Frame] = []

    def read(self, raws: Iterable[Any], call: int, decode: Callable[[Any], f.Frame]) -> bool:
        self.frames.extend(map(decode, raws))
        return False


def frames_at(call: MpiCall) -> list[f.Frame]:
    """Return the frames that arrive until the call ends."""
    pump = Collecting()
    StreamCall(call, TransferWire(STREAM), WireCount()).read(cast("Pump[Any]", pump), 1)
    return pump.frames


def test_chunks_arrive_as_they_left_whatever_they_consist_of(ends: MpiEnds) -> None:
    client, server = ends.call()
    bytes_of = np.arange(9_000, dtype=np.uint8)
    views = (bytes_of[:10].data, bytes_of[10:20].data, bytes_of[20:].data)
    sent: list[f.Frame] = [
        f.Chunk(0, 0, (bytes_of.data,)),
        f.Chunk(1, 9_000, views),
        f.Chunk(2, 18_000, ()),
        f.Held(1, "waits", "site-2"),
    ]
    count = WireCount()
    StreamCall(server, TransferWire(STREAM), count).send(sent)
    server.end_served()
    *chunks, held = frames_at(client)
    assert held == sent[-1]
    for chunk, was in zip(chunks, sent[:-1], strict=True):
        assert isinstance(chunk, f.Chunk)
        assert isinstance(was, f.Chunk)
        assert (chunk.sequence, chunk.offset, chunk.is_intact) == (was.sequence, was.offset, True)
        assert b"".join(chunk.payload) == b"".join(was.payload)
    assert count.sent > 18_000


@pytest.mark.parametrize("nbytes", [0, 9, 11])
def test_a_payload_of_another_length_than_announced_is_damage(ends: MpiEnds, nbytes: int) -> None:
    client, server = ends.call()
    header, payload = TransferWire(STREAM).buffers(f.Chunk(0, 0, (memoryview(bytes(10)),)))
    server.send(Kind.HEAD, len(payload).to_bytes(8, "little") + bytes(header))
    server.send(Kind.BODY, bytes(nbytes))
    with pytest.raises(DamagedFrame, match="10 were due"):
        frames_at(client)
    client.cut()


def test_a_header_that_is_too_short_is_damage(ends: MpiEnds) -> None:
    client, server = ends.call()
    server.send(Kind.HEAD, bytes(7))
    with pytest.raises(DamagedFrame, match="a header of 7 bytes"):
        frames_at(client)
    client.cut()


def test_a_payload_without_a_header_is_damage(ends: MpiEnds) -> None:
    client, server = ends.call()
    server.send(Kind.BODY, b"payload")
    with pytest.raises(DamagedFrame, match="without a header"):
        frames_at(client)
    client.cut()


@pytest.fixture
def line() -> Iterator[Line]:
    require_mpi4py()
    line = mpi_line()
    yield line
    line.close()


class NotingSink(MemorySink):
    """Notes how its bytes come: copied to it, or read into memory that it lends."""

    copied = in_place = 0

    def write(self, offset: int, payload: memoryview) -> None:
        self.copied += payload.nbytes
        super().write(offset, payload)

    def lend(self, offset: int, nbytes: int) -> memoryview | None:
        return super().lend(offset, nbytes)

    def filled(self, offset: int, nbytes: int) -> None:
        self.in_place += nbytes
        super().filled(offset, nbytes)


class NotingStore(MemoryStore):
    sink: NotingSink

    def begin(self, spec: ModelSpec) -> NotingSink:
        self.sink = NotingSink(self, spec)
        return self.sink


def test_chunks_go_straight_into_memory_that_the_sink_lends(line: Line) -> None:
    moving = Moving(line, *line.joined(), float_spec(100_000))
    moving.store = store = NotingStore()
    moving.start()
    moving.finish()
    # What came before it began to lend is copied: no more than a window holds.
    assert store.sink.copied <= SMALL.stream.window_bytes
    assert store.sink.copied + store.sink.in_place == 400_000
