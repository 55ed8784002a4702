"""Models that travel encoded, over gRPC, in memory and over pipes: the same bits arrive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
import pytest

import streamlink as sl
from streamlink.config import LinkConfig
from streamlink.encodings.rounder import RoundedSource, Rounder, formats_of
from streamlink.errors import RemoteProtocolError, UnknownCodec
from streamlink.link.client import ClientLink
from streamlink.link.receive_model import receive_model
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.protocol import frames as f
from streamlink.stores import as_model
from streamlink.stores.memory import MemoryStore
from tests.scenarios.link.test_reconnect import Cuts
from tests.scenarios.transport.test_lending import Counting, Damaging
from tests.support.joined_pumps import STREAM, Transfer
from tests.support.models import content, random_bytes
from tests.support.peers import (
    SMALL,
    WAIT,
    Federation,
    assert_same,
    config,
    executor,
    mean_of,
)
from tests.support.pipes import PipedTransfer
from tests.support.relay import UNSHAPED, Link, Relay

ENCODED = config(stream={"encodings": ("zstd",)})
HALF = 200_000


def model() -> ModelSource:
    """A model whose first half shrinks to nearly nothing, and whose second does not shrink."""
    noise = np.frombuffer(random_bytes(HALF), np.uint8)
    return as_model({"a": np.zeros(HALF // 4, np.float32), "b": noise, "c": np.ones(3)})


def assert_encoded(receipt: Receipt) -> None:
    stats = receipt.stats
    assert HALF <= stats.wire_bytes < 1.2 * HALF
    assert stats.wire_bytes + stats.saved_bytes == stats.moved_bytes == stats.total_bytes


def pushed(
    theirs: LinkConfig,
    faults: Callable[[Relay], object] = lambda relay: None,
    *,
    ours: LinkConfig = ENCODED,
    line: Link = UNSHAPED,
) -> tuple[Receipt, Receipt, bytes]:
    """Send the model encoded through a relay; returns both ends' receipts and what arrived."""
    store, port, taken = MemoryStore(), Future[int](), Future[Receipt]()

    def take() -> None:
        try:
            taken.set_result(sl.receive(store.begin, config=theirs, on_listening=port.set_result))
        except BaseException as error:
            taken.set_exception(error)

    threading.Thread(target=take, daemon=True).start()
    with Relay("127.0.0.1", port.result(WAIT), up=line) as relay:
        faults(relay)
        sent = sl.send(model(), f"127.0.0.1:{relay.port}", config=ours)
        return sent, taken.result(WAIT), content(store.open())


def test_a_model_travels_encoded_where_it_shrinks_and_both_ends_count_it() -> None:
    sent, received, arrived = pushed(SMALL)  # who receives needs no setting
    assert arrived == content(model())
    assert sent.digest == received.digest == digest_of(model())
    assert_encoded(sent)
    assert_encoded(received)


@pytest.mark.parametrize("seed", range(2))
def test_an_encoded_model_outlives_resets(seed: int) -> None:
    cuts = Cuts(seed, 8, most_bytes=20_000)
    sent, _, arrived = pushed(SMALL, cuts.start)
    assert arrived == content(model())
    assert sent.stats.resumes >= 1
    assert_encoded(sent)


def test_over_a_slow_line_what_auto_encodes_arrives_as_it_was() -> None:
    automatic = config(stream={"encodings": ("auto",)})
    sent, received, arrived = pushed(SMALL, ours=automatic, line=Link(bandwidth=400_000.0))
    assert arrived == content(model())
    assert sent.digest == received.digest
    # How much of it depends on this machine, too: what leaves while the line is idle is plain.
    assert sent.stats.wire_bytes + sent.stats.saved_bytes == sent.stats.total_bytes


def test_an_encoded_model_outlives_flipped_bits() -> None:
    def flip(relay: Relay) -> None:
        relay.flip("up", at=(30_000, 20_000, 40_000, 50_000))

    sent, _, arrived = pushed(SMALL, flip)
    assert arrived == content(model())
    assert sent.stats.repairs + sent.stats.damaged + sent.stats.resumes >= 1


def test_without_the_setting_nothing_is_offered_and_all_travels_plain() -> None:
    with Transfer(model().spec) as transfer:
        offers: list[tuple[str, ...]] = []

        def see(frame: f.Frame) -> bool:
            if isinstance(frame, f.Open):
                offers.append(frame.encodings)
            return True

        transfer.carrier.watch = see
        sent, _ = transfer.run(model(), MemoryStore().begin(model().spec))
    assert offers == [()]
    assert sent.stats.saved_bytes == 0


def test_a_receiver_that_knows_fewer_encodings_gets_the_model_plain() -> None:
    def forget(frame: f.Frame) -> None:
        if isinstance(frame, f.Accept):  # as one would say it that has never heard of zstd
            object.__setattr__(frame, "encodings", ())

    with Transfer(model().spec, ENCODED) as transfer:
        transfer.carrier.on_leave = forget
        sent, received = transfer.run(model(), MemoryStore().begin(model().spec))
    assert sent.digest == received.digest
    assert sent.stats.saved_bytes == 0


def test_what_is_written_piece_by_piece_travels_encoded_too() -> None:
    source, store = model(), MemoryStore()
    with Transfer(source.spec, ENCODED) as transfer:
        started = transfer.start(source, store.begin(source.spec))
        assert_encoded(started[0].result(WAIT))
        started[1].result(WAIT)
    assert content(store.open()) == content(source)

    with Transfer(source.spec, ENCODED) as transfer:
        taken = Future[Receipt]()
        sink = MemoryStore()

        def take() -> None:
            taken.set_result(receive_model(transfer.incoming, lambda _: sink.begin(source.spec)))

        threading.Thread(target=take, daemon=True).start()
        transfer.join()
        transfer.outgoing.write(0, source.read(0, source.spec.nbytes))
        assert_encoded(transfer.outgoing.finish())
        taken.result(WAIT)
        assert content(sink.open()) == content(source)


@pytest.mark.parametrize("is_prompt", [True, False])
def test_encoded_pieces_are_decoded_beside_memory_that_is_lent(is_prompt: bool) -> None:
    source = model()
    sink = Counting(source.spec, is_prompt=is_prompt)
    with PipedTransfer(source.spec, ENCODED, lanes=2) as transfer:
        transfer.pipes.on_chunk = Damaging(2, 5)
        sent, received = transfer.run(source, sink)
    assert content(sink) == content(source)
    assert sent.digest == received.digest
    assert sink.writes > 0  # the zeros
    assert sink.fills  # the noise, in place


@pytest.mark.slow
@pytest.mark.parametrize("duplex_bytes", [0, 1 << 20])
def test_rounds_whose_models_travel_encoded_have_the_same_results(duplex_bytes: int) -> None:
    before = {"a": np.zeros(40_000, np.float32), "b": np.arange(9_000, dtype=np.float32)}
    facts: list[TransferFacts] = []
    with Federation(ENCODED, on_transfer=facts.append) as federation:
        store = MemoryStore(before)
        for number in range(2):
            federation.client(f"site-{number}", executor(number))
        federation.server.wait_for_peers(2, WAIT)
        rules = sl.RoundConfig(num_rounds=2, duplex_bytes=duplex_bytes)
        sl.ScatterAndGather(federation.server, store, rules).run()
    expected = mean_of(mean_of(before, {0: 1.0, 1: 1.0}), {0: 1.0, 1: 1.0})
    assert_same(store.arrays, expected)
    assert any(each.wire_bytes < each.bytes for each in facts)


LOSSY = config(
    stream={
        "lossy_up": "*=int8",
        # Of several blocks each: the parts of blocks at the ends of a chunk travel as they are.
        "chunk_bytes": 32_768,
        "min_chunk_bytes": 16_384,
        "window_bytes": 65_536,
        "initial_window_bytes": 32_768,
    }
)


def rounded() -> RoundedSource:
    """A model as it leaves where a lossy format was asked for."""
    noise = np.random.default_rng(5).standard_normal(HALF // 4).astype(np.float32)
    source = as_model({"odd": np.arange(3, dtype=np.uint8), "w": noise})
    return RoundedSource(source, Rounder(source.spec, formats_of(["*=int8"], source.spec)))


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_rounded_model_outlives_chunks_that_are_damaged(lanes: int) -> None:
    source = rounded()
    with PipedTransfer(source.spec, LOSSY, lanes=lanes) as transfer:
        transfer.pipes.on_chunk = Damaging(2, 5)
        store = MemoryStore()
        sent, received = transfer.run(source, store.begin(source.spec))
    assert content(store.open()) == content(rounded())
    assert sent.digest == received.digest == digest_of(rounded())
    assert sent.stats.wire_bytes < 0.4 * sent.stats.total_bytes
    assert sent.rounding is not None
    assert sent.rounding.elements == HALF // 4


def test_a_receiver_that_knows_no_lossy_format_gets_the_rounded_model_plain() -> None:
    def forget(frame: f.Frame) -> None:
        if isinstance(frame, f.Accept):
            object.__setattr__(frame, "encodings", ())

    store = MemoryStore()
    with Transfer(rounded().spec, LOSSY) as transfer:
        transfer.carrier.on_leave = forget
        sent, received = transfer.run(rounded(), store.begin(rounded().spec))
    assert sent.digest == received.digest == digest_of(rounded())
    assert content(store.open()) == content(rounded())
    assert sent.stats.saved_bytes == 0


def test_a_packed_range_of_another_length_ends_the_stream_and_names_the_sender() -> None:
    source = rounded()
    with Transfer(source.spec, LOSSY) as transfer:

        def claim(frame: f.Frame) -> None:
            if isinstance(frame, f.Chunk) and frame.encoding:
                # Its first slice is said to be there as it is, which is longer.
                payload = (memoryview(b"\0" + b"".join(frame.payload)[1:]),)
                object.__setattr__(frame, "payload", payload)

        transfer.carrier.on_leave = claim
        sent, received = transfer.start(source, MemoryStore().begin(source.spec))
        error = received.exception(WAIT)
        assert isinstance(error, RemoteProtocolError)
        assert "in encoding 'int8', and they do not decode" in str(error)
        assert sent.exception(WAIT) is not None


def test_bytes_that_do_not_decode_end_the_stream_and_name_the_sender() -> None:
    source = model()
    with Transfer(source.spec, ENCODED) as transfer:

        def replace(frame: f.Frame) -> None:
            if isinstance(frame, f.Chunk) and frame.encoding:
                payload = (memoryview(bytes(frame.wire_bytes)),)
                object.__setattr__(frame, "payload", payload)

        transfer.carrier.on_leave = replace
        sent, received = transfer.start(source, MemoryStore().begin(source.spec))
        error = received.exception(WAIT)
        assert isinstance(error, RemoteProtocolError)
        assert "site-s sent bytes 0 to" in str(error)
        assert error.stream_id == STREAM
        assert sent.exception(WAIT) is not None


def test_an_encoding_that_there_is_not_is_refused_before_anything_connects() -> None:
    wrong = config(stream={"encodings": "zstd,gzip"})
    match = "no encoding 'gzip'"
    with pytest.raises(UnknownCodec, match=match):
        sl.send(model(), "127.0.0.1:1", config=wrong)
    with pytest.raises(UnknownCodec, match=match):
        sl.Server(config=wrong)
    with pytest.raises(UnknownCodec, match=match):
        ClientLink("127.0.0.1:1", name="x", serve=lambda task: None, config=wrong)
