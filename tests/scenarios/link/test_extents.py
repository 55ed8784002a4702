"""Parts of one model, each on a stream of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from streamlink.errors import AbortCode, SpecMismatch, StreamAborted
from streamlink.extent import Extent
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.model.commit import CommitSink
from streamlink.model.computed import GeneratedModel
from streamlink.model.digest import DigestBuilder, digest_of
from streamlink.model.interfaces import ModelSink
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from tests.scenarios.link.test_resume import Cutter
from tests.support.joined_pumps import Transfer, failure
from tests.support.models import content, float_spec, pattern_model, save
from tests.support.peers import WAIT, config

SPEC = float_spec(60_001, 3, 0, 17_000)
EXTENTS = (Extent(0, 100_001), Extent(100_001, 240_004), Extent(240_004, SPEC.nbytes))


class OneAtATime:
    """A sink that several threads write to."""

    def __init__(self, sink: ModelSink) -> None:
        self.spec, self._sink, self._lock = sink.spec, sink, threading.Lock()

    def write(self, offset: int, payload: memoryview) -> None:
        with self._lock:
            self._sink.write(offset, payload)

    def commit(self, progress: object = None) -> None:
        self._sink.commit()

    def discard(self) -> None:
        self._sink.discard()


def digest_of_part(extent: Extent) -> str:
    builder = DigestBuilder(SPEC, extent=extent)
    builder.update(memoryview(content(pattern_model(SPEC)))[extent.start : extent.stop])
    return builder.hexdigest()


def test_several_extents_travel_as_streams_of_their_own_and_appear_at_once() -> None:
    old, new, store = pattern_model(SPEC, 8), pattern_model(SPEC), MemoryStore()
    save(store, old)
    sink = OneAtATime(store.begin(SPEC))
    whole, here = threading.Barrier(len(EXTENTS), action=sink.commit), threading.Semaphore(0)

    def commit(progress: object) -> None:
        here.release()
        whole.wait(WAIT)

    with ExitStack() as stack:
        ends = []
        for extent in EXTENTS[::-1]:
            assert content(store.open()) == content(old)  # whatever is here of the new one
            transfer = stack.enter_context(Transfer(SPEC, extent=extent))
            ends.append((extent, *transfer.start(new, CommitSink(sink, commit))))
            assert here.acquire(timeout=WAIT)  # all of this extent is here, and waits
        for extent, sent, received in ends:
            assert sent.result(WAIT).digest == received.result(WAIT).digest
            assert sent.result(WAIT).digest == digest_of_part(extent)
    assert content(store.open()) == content(new)


@pytest.mark.parametrize("extent", [*EXTENTS, Extent(7, 7)])
def test_a_part_outlives_cuts_and_nothing_else_travels(extent: Extent) -> None:
    source, sink = pattern_model(SPEC), Collected()
    offsets: list[int] = []

    def note(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk):
            offsets.extend((frame.offset, frame.end))
        return cut(frame)

    with Transfer(SPEC, extent=extent) as transfer:
        cut = Cutter(transfer.carrier, f.Chunk, 10, most=4)
        transfer.carrier.watch = note
        sent, received = transfer.run(source, sink)
    assert bytes(sink.got) == content(source)[extent.start : extent.stop]
    assert all(extent.start <= offset <= extent.stop for offset in offsets)
    assert sent.digest == received.digest == digest_of_part(extent)
    assert sent.stats.moved_bytes == received.stats.moved_bytes == extent.nbytes


@pytest.mark.parametrize("extent", EXTENTS)
def test_an_extent_travels_in_an_encoding(extent: Extent) -> None:
    zeros, sink = GeneratedModel(SPEC, lambda tensor, start, values: values.fill(0)), Collected()
    with Transfer(SPEC, config(stream={"encodings": ("zstd",)}), extent=extent) as transfer:
        sent, received = transfer.run(zeros, sink)
    assert bytes(sink.got) == bytes(extent.nbytes)
    assert sent.digest == received.digest
    assert sent.stats.wire_bytes < extent.nbytes // 10


@pytest.mark.parametrize("extent", EXTENTS)
def test_a_transfer_of_an_extent_is_resumed_inside_of_it(extent: Extent) -> None:
    source, half = pattern_model(SPEC), extent.start + extent.nbytes // 2
    kept = Kept(content(source)[extent.start : half], half)
    with Transfer(SPEC, extent=extent, is_resumable=True) as transfer, ThreadPoolExecutor() as pool:
        transfer.join()
        sending = pool.submit(send_model, transfer.outgoing, source)
        received = receive_model(transfer.incoming, lambda _: kept, lambda _: kept)
        sent = sending.result(WAIT)
    assert bytes(kept.got) == content(source)[extent.start : extent.stop]
    assert sent.resumed_at == received.resumed_at == half
    assert sent.digest == received.digest == digest_of_part(extent)
    assert sent.stats.moved_bytes == received.stats.moved_bytes == extent.stop - half


def test_an_extent_that_is_the_whole_model_has_its_digest() -> None:
    source, store = pattern_model(SPEC), MemoryStore()
    with Transfer(SPEC, extent=Extent(0, SPEC.nbytes)) as transfer:
        sent, _ = transfer.run(source, store.begin(SPEC))
    assert sent.digest == digest_of(source)


@pytest.mark.parametrize("sends", [EXTENTS[0], Extent(5, SPEC.nbytes), Extent(0, 0)])
def test_other_bytes_than_are_wanted_are_refused_at_both_ends(sends: Extent) -> None:
    whole, store = Extent(0, SPEC.nbytes), MemoryStore()
    with Transfer(SPEC, extent=sends, wanted=whole) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), lambda model: store.begin(model.spec))
        ours, theirs = failure(received), failure(sent)
    assert isinstance(ours, SpecMismatch)
    assert f"announced bytes {sends} of a model of {SPEC.nbytes}" in str(ours)
    assert isinstance(theirs, StreamAborted)
    assert theirs.code is AbortCode.SPEC_MISMATCH


class Collected:
    """A sink of the bytes of one extent, in order."""

    spec = SPEC

    def __init__(self) -> None:
        self.got = bytearray()

    def write(self, offset: int, payload: memoryview) -> None:
        self.got += payload

    def commit(self, progress: object = None) -> None:
        pass

    def discard(self) -> None:
        pass


class Kept(Collected):
    """A sink that has the bytes of an extent below ``durable`` from before."""

    def __init__(self, got: bytes, durable: int) -> None:
        super().__init__()
        self.got += got
        self.durable = durable

    def saved(self) -> Iterator[memoryview]:
        yield memoryview(bytes(self.got))

    def suspend(self) -> None:
        pass
