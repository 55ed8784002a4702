"""A sender whose bytes come from elsewhere: it writes what it has, when it has it."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from streamlink.blocks import part_hashes
from streamlink.errors import AbortCode, LocalProtocolError, StreamAborted
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.interfaces import Payload
from streamlink.protocol import frames as f
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.joined_pumps import JoinedPumps, Transfer
from tests.support.models import arrays_of, content, float_spec, pattern_model
from tests.support.peers import WAIT

SPEC = float_spec(15_000, 10)
DATA = content(pattern_model(SPEC))


@pytest.fixture
def transfer() -> Iterator[Transfer]:
    with Transfer(SPEC) as transfer:
        yield transfer


@pytest.fixture
def store(transfer: Transfer) -> MemoryStore:
    """A store the model is received into, from the start of the test on."""
    return received(transfer)


def received(transfer: Transfer) -> MemoryStore:
    """Join both ends, and receive into a store from now on."""
    store = MemoryStore()

    def receive() -> None:
        with suppress(StreamAborted):  # the test looks at the sender
            receive_model(transfer.incoming, lambda model: store.begin(model.spec))

    transfer.carrier.join()
    threading.Thread(target=receive, daemon=True).start()
    return store


@pytest.mark.parametrize("seed", range(4))
def test_pieces_of_any_size_and_number_of_views_are_written(
    transfer: Transfer, store: MemoryStore, seed: int
) -> None:
    dice, at = random.Random(seed), 0
    while at < len(DATA):
        size = min(dice.choice([1, 500, 9_000, 30_000]), len(DATA) - at)
        cut = dice.randrange(size + 1)
        views = (memoryview(DATA)[at : at + cut], memoryview(DATA)[at + cut : at + size])
        transfer.outgoing.write(at, tuple(view for view in views if view.nbytes))
        at += size
    receipt = transfer.outgoing.finish({"loss": 0.5})
    assert content(store.open()) == DATA
    assert receipt.metrics == {"loss": 0.5}
    assert transfer.incoming.metrics == {"loss": 0.5}


def test_a_chunk_of_whole_blocks_leaves_with_the_hashes_that_the_digest_has() -> None:
    spec, chunks = float_spec(100, 2), list[f.Chunk]()  # one chunk: the last block, which is short
    with Transfer(spec) as transfer:
        transfer.carrier.on_leave = lambda frame: (
            chunks.append(frame) if isinstance(frame, f.Chunk) else None
        )
        transfer.run(pattern_model(spec), MemoryStore().begin(spec))
    (chunk,) = chunks
    assert chunk.hashes == part_hashes(0, (memoryview(content(pattern_model(spec))),))


class Cut(SendTransfer):
    """Its call is lost once, between the look for room and the write; another follows after it."""

    at = 0
    carrier: JoinedPumps | None = None

    def wait_room(self) -> tuple[int, int] | None:
        if self.carrier is not None and not self.is_connected:
            self.carrier.join()
            self.carrier = None
        room = super().wait_room()
        if self.carrier is not None and room is not None and room[0] == self.at:
            self.carrier.cut()
        return room


@pytest.mark.parametrize("at", [0, 9_000])
def test_a_piece_whose_call_is_lost_before_it_was_queued_is_written_again(at: int) -> None:
    with Transfer(SPEC, sender=Cut) as transfer:
        store = received(transfer)
        sender = transfer.outgoing
        assert isinstance(sender, Cut)
        sender.at, sender.carrier = at, transfer.carrier
        for start in range(0, len(DATA), 9_000):
            sender.write(start, (memoryview(DATA)[start : start + 9_000],))
        sender.finish()
        assert transfer.carrier.cuts == 1
        assert content(store.open()) == DATA


def test_a_write_out_of_turn_is_our_own_error(transfer: Transfer, store: MemoryStore) -> None:
    with pytest.raises(LocalProtocolError, match="write at byte 100, but the stream expects"):
        transfer.outgoing.write(100, (memoryview(b"1234"),))


def test_being_held_is_told_to_the_owner(transfer: Transfer, store: MemoryStore) -> None:
    told: list[tuple[str, str]] = []
    transfer.outgoing.when_held(lambda reason, whom: told.append((reason, whom)))

    def hold(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk) and frame.offset == 0:
            transfer.incoming.hold("lockstep", "site-9")
        return True

    transfer.carrier.watch = hold
    send_model(transfer.outgoing, pattern_model(SPEC))
    assert told == [("lockstep", "site-9")]


def test_a_sender_may_hold_too(transfer: Transfer, store: MemoryStore) -> None:
    transfer.outgoing.wait_room()
    transfer.outgoing.hold("thinking", "itself")
    send_model(transfer.outgoing, pattern_model(SPEC))
    assert content(store.open()) == DATA


class Source(ArrayModel):
    """A model that calls ``act`` when it is read."""

    act: Callable[[], None]

    def read(self, offset: int, length: int) -> Payload:
        self.act()
        return super().read(offset, length)


def fail() -> None:
    raise OSError("the disk failed")


@pytest.mark.parametrize("is_its_fault", [False, True])
def test_a_failed_transfer_does_not_keep_its_source_alive(
    transfer: Transfer, store: MemoryStore, is_its_fault: bool
) -> None:
    source = Source(arrays_of(SPEC, DATA))
    stop = partial(transfer.outgoing.abort, AbortCode.CANCELLED, "not today")
    source.act = fail if is_its_fault else stop
    freed = threading.Event()
    weakref.finalize(source, freed.set)
    gc.disable()  # it would free a cycle at some time
    try:
        with suppress(StreamAborted, OSError):
            send_model(transfer.outgoing, source)
        del source
        assert freed.wait(WAIT), "the carrier's thread may let go of it a little later"
    finally:
        gc.enable()
    assert transfer.outgoing.error is not None


def test_a_failed_stream_keeps_its_error(transfer: Transfer, store: MemoryStore) -> None:
    transfer.outgoing.abort(AbortCode.CANCELLED, "not today")
    with pytest.raises(StreamAborted, match="not today"):
        send_model(transfer.outgoing, pattern_model(SPEC))
    assert isinstance(transfer.outgoing.error, StreamAborted)
