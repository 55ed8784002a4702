"""One model over one stream, in memory: whatever is sent arrives, or both ends know why not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    CorruptStore,
    SpecMismatch,
    StoreFull,
    StreamAborted,
)
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.computed import GeneratedModel
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSink, Payload, Progress
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.examples import examples
from tests.support.joined_pumps import Transfer, failure
from tests.support.models import content, float_spec, model_specs, pattern_model
from tests.support.peers import Array, config

SPEC = float_spec(20_000, 0, 7, 5_000)
MIXED = ModelSpec(
    (
        TensorSpec("flag", "BOOL", (1001,)),
        TensorSpec("half", "F16", (33, 77)),
        TensorSpec("none", "I64", (0, 4)),
        TensorSpec("scalar", "BF16", ()),
        TensorSpec("wide", "F64", (6543,)),
    )
)


def sent_and_received(spec: ModelSpec, transfer: Transfer) -> tuple[bytes, bytes]:
    source, store = pattern_model(spec), MemoryStore()
    sent, received = transfer.run(source, store.begin(spec))
    assert sent.digest == received.digest == digest_of(source)
    return content(source), content(store.open())


@given(model_specs())
@examples(60)
def test_any_small_model_arrives_as_it_was_sent(spec: ModelSpec) -> None:
    with Transfer(spec) as transfer:
        data, arrived = sent_and_received(spec, transfer)
    assert arrived == data


@given(
    st.lists(st.integers(0, 9_000), max_size=4),
    st.sampled_from([4096, 5000, 16_384]),
    st.sampled_from([4096, 7001, 16_384]),
)
@examples(30)
def test_any_chunk_sizes_of_the_two_ends_meet(sizes: list[int], ours: int, theirs: int) -> None:
    spec = float_spec(*sizes)
    receiver = config(stream={"chunk_bytes": ours})
    with Transfer(spec, receiver, sender_config=config(stream={"chunk_bytes": theirs})) as transfer:
        data, arrived = sent_and_received(spec, transfer)
        assert transfer.outgoing.stats.chunk_bytes <= min(ours, theirs)
    assert arrived == data


def test_both_ends_count_the_same_bytes() -> None:
    with Transfer(MIXED) as transfer:
        sent, received = transfer.run(pattern_model(MIXED), MemoryStore().begin(MIXED))
        assert transfer.incoming.update.weight == 1.0
        assert received.stats.consumed_bytes == sent.stats.consumed_bytes == MIXED.nbytes


def test_arrays_are_filled_in_place() -> None:
    there: dict[str, Array] = {"w": np.zeros((70, 90), np.float32), "n": np.zeros(3, np.int64)}
    model: dict[str, Array] = {
        "w": np.arange(6300, dtype=np.float32).reshape(70, 90),
        "n": np.array([1, -2, 3]),
    }
    target = ArrayModel(there)
    with Transfer(target.spec) as transfer:
        transfer.run(ArrayModel(model), target)
    assert all(np.array_equal(there[name], model[name]) for name in model)


def test_a_large_description_travels_in_pages() -> None:
    spec = ModelSpec(tuple(TensorSpec(f"layer.{n}.weight", "F32", (1,)) for n in range(3000)))
    with Transfer(spec) as transfer:
        data, arrived = sent_and_received(spec, transfer)
    assert arrived == data


class Failing:
    """A sink that raises at a byte, or at the commit."""

    def __init__(self, spec: ModelSpec, error: Exception, at: int | None = None) -> None:
        self.spec = spec
        self.is_discarded = self.is_committed = False
        self._error, self._at = error, at

    def write(self, offset: int, payload: memoryview) -> None:
        if self._at is not None and offset + payload.nbytes > self._at:
            raise self._error

    def commit(self, progress: Progress | None = None) -> None:
        if self._at is None:
            raise self._error
        self.is_committed = True

    def discard(self) -> None:
        self.is_discarded = True


@pytest.mark.parametrize("at", [0, 50_000, None])
def test_a_sink_that_fails_is_discarded_and_the_sender_is_told(at: int | None) -> None:
    sink = Failing(SPEC, StoreFull("no room on /data"), at)
    with Transfer(SPEC) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), sink)
        told = failure(sent)
        assert isinstance(failure(received), StoreFull)
    assert sink.is_discarded
    assert isinstance(told, StreamAborted)
    assert (told.code, told.by_peer, told.who) == (AbortCode.STORE_FAILED, True, "site-r")
    assert "no room on /data" in str(told)


def test_a_receiver_that_refuses_the_model_says_so_before_a_byte_of_it() -> None:
    def refuse(_: ReceiveTransfer) -> ModelSink:
        raise SpecMismatch("this site trains another model")

    with Transfer(SPEC) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), refuse)
        told = failure(sent)
        assert isinstance(failure(received), SpecMismatch)
    assert isinstance(told, StreamAborted)
    assert (told.code, told.by_peer) == (AbortCode.SPEC_MISMATCH, True)


class Breaking(GeneratedModel):
    """A source that raises from a byte on."""

    def __init__(self, at: int) -> None:
        super().__init__(SPEC, lambda tensor, start, out: None)
        self._at = at

    def read(self, offset: int, length: int) -> Payload:
        if offset + length > self._at:
            raise CorruptStore("block 3 is damaged", path="model.slz", offset=offset)
        return super().read(offset, length)


@pytest.mark.parametrize("at", [0, 50_000])
def test_a_source_that_fails_is_told_to_the_receiver(at: int) -> None:
    sink = Failing(SPEC, AssertionError(), 1 << 40)
    with Transfer(SPEC) as transfer:
        sent, received = transfer.start(Breaking(at), sink)
        told = failure(received)
        assert isinstance(failure(sent), CorruptStore)
    assert isinstance(told, StreamAborted)
    assert told.by_peer
    assert "block 3 is damaged" in str(told)
    assert sink.is_discarded or at == 0


def test_a_source_that_changes_under_the_transfer_fails_its_digest() -> None:
    array = np.zeros(50_000, np.uint8)
    sink = Failing(ArrayModel({"w": array}).spec, AssertionError("committed a wrong model"))

    def change(frame: f.Frame) -> None:
        if isinstance(frame, f.Chunk):
            array[:] = 1  # after it was read and hashed, before it is encoded

    with Transfer(sink.spec) as transfer:
        transfer.carrier.on_leave = change
        sent, received = transfer.start(ArrayModel({"w": array}), sink)
        assert isinstance(failure(received), ChecksumError)
        told = failure(sent)
    assert sink.is_discarded
    assert isinstance(told, StreamAborted)
    assert told.code is AbortCode.DIGEST_MISMATCH


def test_a_transfer_with_no_bytes_is_a_transfer() -> None:
    with Transfer(ModelSpec(())) as transfer:
        assert sent_and_received(ModelSpec(()), transfer) == (b"", b"")


def test_a_small_window_is_filled_and_emptied_many_times() -> None:
    narrow = config(stream={"window_bytes": "8KiB", "initial_window_bytes": "4KiB"})
    with Transfer(SPEC, narrow) as transfer:
        data, arrived = sent_and_received(SPEC, transfer)
    assert arrived == data
