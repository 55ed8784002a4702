"""A receiver step by step: opened, described, read, checked."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import (
    AbortCode,
    FrameTooLarge,
    RemoteProtocolError,
    SpecMismatch,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.model.digest import digest_of
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Attempt
from streamlink.transport.messages import encode_spec
from tests.support.joined_pumps import STREAM, Transfer
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, config
from tests.support.pumps import pump_of

SPEC = float_spec(15_000, 10)


@pytest.fixture
def transfer() -> Iterator[Transfer]:
    with Transfer(SPEC) as transfer:
        threading.Thread(target=_send, args=(transfer,), daemon=True).start()
        transfer.carrier.join()
        yield transfer


def _send(transfer: Transfer) -> None:
    with suppress(StreamlinkError):  # the test looks at the receiver
        send_model(transfer.outgoing, pattern_model(SPEC))


def test_nothing_announced_is_waited_for(transfer: Transfer) -> None:
    idle = ReceiveTransfer(SMALL, stream_id=9, peer_name="x", name="nothing", clock=running_time)
    assert not idle.open(0.01)
    assert idle.error is None


def test_what_is_announced_is_known_before_its_first_byte(transfer: Transfer) -> None:
    assert transfer.incoming.open(WAIT)
    assert transfer.incoming.open(WAIT)
    assert transfer.incoming.spec == SPEC
    assert transfer.incoming.update.weight == 1.0
    assert transfer.incoming.attempt == Attempt()
    assert transfer.incoming.stats.consumed_bytes == 0


def test_bytes_are_read_in_order_and_nothing_is_left_out(transfer: Transfer) -> None:
    model, taken = transfer.incoming, bytearray()
    model.open(WAIT)
    while not model.is_exhausted:
        piece = model.read(WAIT)
        assert piece is not None
        assert piece[0] == len(taken)
        taken += b"".join(piece[1])
        model.release(len(taken) - model.stats.consumed_bytes)
    assert model.read(WAIT) is None
    assert model.is_complete
    assert model.commit().digest == model.digest
    assert taken == content(pattern_model(SPEC))


def test_without_credit_given_back_a_window_arrives_and_no_more(transfer: Transfer) -> None:
    model, taken = transfer.incoming, 0
    model.open(WAIT)
    while (piece := model.read(0.3)) is not None:
        taken += sum(view.nbytes for view in piece[1])
    assert SMALL.stream.window_bytes - SMALL.stream.chunk_bytes < taken
    assert taken <= SMALL.stream.window_bytes
    assert model.stats.received_bytes == taken


@pytest.mark.parametrize("is_hashed", [True, False])
def test_a_chunk_of_whole_blocks_is_hashed_where_it_arrives_and_not_again(is_hashed: bool) -> None:
    spec = float_spec(100, 2)
    source = pattern_model(spec)
    opened = f.Open(STREAM, Attempt(), spec.nbytes, spec.digest, 1, 4096)
    model = announced(opened, *description(spec))
    assert model.open(WAIT)
    hashes = bytes(16) if is_hashed else b""  # no hash of these bytes: so it shows that it is taken
    chunk = f.Chunk(0, 0, (memoryview(content(source)),), hashes=hashes)
    pump_of(model).incoming([chunk], 1)
    assert model.read_chunk(WAIT) is chunk
    assert (model.digest != digest_of(source)) == is_hashed


def announced(open_: f.Open, *pages: bytes, limits: Any = SMALL) -> ReceiveTransfer:
    """Return a receiver that has heard ``open_`` and, once it asks, is sent ``pages``."""
    model = ReceiveTransfer(
        limits, stream_id=STREAM, peer_name="site-s", name="m", clock=running_time
    )
    call = pump_of(model).attach(lambda: None)
    pump_of(model).incoming([open_], call)

    def answer() -> None:
        for frame in pump_of(model).outgoing(call):
            if isinstance(frame, f.Accept):
                sent = [f.SpecPage(number, page) for number, page in enumerate(pages)]
                pump_of(model).incoming(sent, call)

    threading.Thread(target=answer, daemon=True).start()
    return model


def description(spec: ModelSpec) -> list[bytes]:
    tensors = ((tensor.name, tensor.dtype, tensor.shape) for tensor in spec.tensors)
    return encode_spec(tensors, 4096)


OPEN = f.Open(STREAM, Attempt(), SPEC.nbytes, SPEC.digest, 1, 4096)


def test_a_description_of_another_model_is_refused() -> None:
    model = announced(OPEN, *description(float_spec(1)))
    with pytest.raises(SpecMismatch, match="described a model of 4 bytes that is not the one"):
        model.open(WAIT)
    assert isinstance(model.error, StreamAborted)
    assert model.error.code is AbortCode.SPEC_MISMATCH


def test_a_description_of_another_size_is_refused() -> None:
    model = announced(dataclasses.replace(OPEN, total_bytes=12), *description(SPEC))
    with pytest.raises(SpecMismatch):
        model.open(WAIT)


def test_a_description_that_is_none_is_refused() -> None:
    model = announced(OPEN, b"\xff\xff nonsense")
    with pytest.raises(RemoteProtocolError, match="that are no frame"):
        model.open(WAIT)
    assert model.error is not None


def test_a_description_beyond_the_limit_is_refused() -> None:
    spec = float_spec(*[1] * 2000)
    limits = config(stream={"max_spec_bytes": "4KiB"})
    open_ = f.Open(STREAM, Attempt(), spec.nbytes, spec.digest, len(description(spec)), 4096)
    model = announced(open_, *description(spec), limits=limits)
    with pytest.raises(FrameTooLarge, match="max_spec_bytes"):
        model.open(WAIT)


def test_a_model_of_another_attempt_is_refused_by_name() -> None:
    model = ReceiveTransfer(
        SMALL,
        stream_id=STREAM,
        peer_name="site-s",
        name="m",
        attempt=Attempt("job", 2, 1),
        clock=running_time,
    )
    call = pump_of(model).attach(lambda: None)
    old = dataclasses.replace(OPEN, attempt=Attempt("job", 1, 3))
    pump_of(model).incoming([old], call)
    with pytest.raises(StreamAborted, match="'job' round 1 attempt 3; this is job 'job' round 2"):
        model.open(WAIT)
    assert f.Abort(AbortCode.STALE_ATTEMPT, model.error.reason) in list(  # type: ignore[union-attr]
        pump_of(model).outgoing(call)
    )


def test_the_last_few_descriptions_are_remembered() -> None:
    known, specs = KnownSpecs(), [float_spec(size) for size in range(1, 12)]
    for spec in specs:
        known.add(spec)
    assert known.get(specs[-1].digest) is specs[-1]
    assert known.get(specs[0].digest) is None
    assert sum(known.get(spec.digest) is not None for spec in specs) == KnownSpecs.LIMIT


def test_a_sender_that_leaves_is_heard_of_while_waiting(transfer: Transfer) -> None:
    transfer.incoming.open(WAIT)
    transfer.outgoing.abort(AbortCode.CANCELLED, "changed my mind")
    with pytest.raises(StreamAborted, match="changed my mind"):
        _read_all(transfer.incoming)


def _read_all(model: ReceiveTransfer) -> None:
    while not model.is_complete:
        model.read(WAIT)
