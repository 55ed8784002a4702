"""A frame that is damaged costs its call and nothing else; one that is wrong ends its stream."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, ChecksumError, RemoteProtocolError
from streamlink.link.peer_request import PeerRequest
from streamlink.protocol import frames as f
from streamlink.protocol.sender import SendStream
from streamlink.stores.memory import MemoryStore
from streamlink.transport import messages
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.send_pump import SendPump
from streamlink.transport.wire import SessionWire, TransferWire
from tests.support.dialing import Dialing, Once, TappedCall, hold
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, Federation, config, exchange_models

ACCEPT = f.Accept(0, 1 << 20, 4096, False)
SPEC = float_spec(60_001, 3, 0, 17_000)
BOUND = SMALL.stream.max_repairs


@pytest.fixture
def pump() -> SendPump:
    machine = SendStream(SMALL, stream_id=7, total_bytes=100, peer_name="there", name="out")
    return SendPump(machine, clock=running_time)


def said(*frames: f.TransferFrame, damaged: bool = False) -> Iterator[bytes]:
    """Yield what a peer says on one call, and perhaps a frame with a bit that is wrong."""
    wire = TransferWire(7)
    yield from map(wire.encode, frames)
    if damaged:
        raw = wire.encode(f.Held(1, "", ""))
        yield raw[:-1] + bytes([raw[-1] ^ 1])


def read(pump: SendPump, raws: Iterator[bytes]) -> bool:
    return pump.read(raws, pump.attach(lambda: None), TransferWire(7).decode)


# --- one call ----------------------------------------------------------------------


def test_a_damaged_frame_costs_the_call_and_is_told_with_who_and_how_many(
    pump: SendPump, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(pump, said(ACCEPT, damaged=True))
        assert read(pump, said(ACCEPT, damaged=True))
    assert not pump.is_closed
    assert not pump.stream.is_attached
    assert pump.stream.stats.damaged == 2
    assert [line for line in caplog.messages if "damaged" in line][1].startswith(
        "out with there: damaged on the way"
    )
    assert caplog.messages[-1].endswith("; 2 so far")


def test_calls_that_bring_nothing_but_damage_end_the_stream_and_the_peer_hears_it(
    pump: SendPump,
) -> None:
    for _ in range(BOUND):
        assert read(pump, said(ACCEPT, damaged=True))
    call = pump.attach(lambda: None)
    assert not pump.read(said(ACCEPT, damaged=True), call, TransferWire(7).decode)
    assert isinstance(pump.stream.error, ChecksumError)
    (word,) = [frame for frame in pump.outgoing(call) if isinstance(frame, f.Abort)]
    assert word.code is AbortCode.CHECKSUM


def test_what_comes_between_starts_the_count_again(pump: SendPump) -> None:
    for _ in range(3 * BOUND + 3):
        assert read(pump, said(ACCEPT, f.Held(1, "lockstep", "site-2"), damaged=True))
    assert not pump.is_closed


def test_a_frame_that_is_wrong_ends_the_stream_and_its_abort_leaves_by_that_call(
    pump: SendPump,
) -> None:
    call = pump.attach(lambda: None)
    wrong = messages.encode_transfer(f.Commit("x" * 70_000), 7, 0)
    rest = [messages.encode_transfer(f.Held(1, "", ""), 7, 1)]
    assert not pump.read([wrong, *rest], call, TransferWire(7).decode)
    assert pump.is_closed
    (word,) = [frame for frame in pump.outgoing(call) if isinstance(frame, f.Abort)]
    assert word.code is AbortCode.PROTOCOL_ERROR


def test_neither_damage_nor_nonsense_of_an_old_call_touches_the_new_one(pump: SendPump) -> None:
    old = pump.attach(lambda: None)
    pump.attach(lambda: None)
    assert pump.read(said(damaged=True), old, TransferWire(7).decode)

    def nonsense(raw: bytes) -> f.Frame:
        raise RemoteProtocolError("nonsense")

    pump.read(iter([b"?"]), old, nonsense)
    assert not pump.is_closed
    assert pump.stream.is_attached
    assert pump.stream.damaged == 0


# --- lost frames -------------------------------------------------------------------


def test_a_frame_that_was_lost_is_found_with_the_next() -> None:
    sends, hears = TransferWire(7), TransferWire(7)
    hears.decode(sends.encode(ACCEPT))
    sends.encode(f.Held(1, "", ""))
    with pytest.raises(DamagedFrame):
        hears.decode(sends.encode(f.Held(2, "", "")))
    asks, serves = SessionWire(), SessionWire()
    asks.encode(f.Heartbeat(1))
    with pytest.raises(DamagedFrame):
        serves.decode(asks.encode(f.Heartbeat(2)))


def test_a_chunk_that_was_lost_is_found_with_the_next() -> None:
    sends, hears = TransferWire(7), TransferWire(7)
    chunks = [f.Chunk(n, 4 * n, (memoryview(b"data"),)) for n in range(3)]
    hears.decode(sends.encode(chunks[0]))
    with pytest.raises(DamagedFrame, match="chunk 2 where 1 was due"):
        hears.decode(sends.encode(chunks[2]))


# --- over gRPC ---------------------------------------------------------------------


def flip(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
    return raw[:1] + bytes([raw[1] ^ 4]) + raw[2:]


@pytest.mark.parametrize("kind", [f.Hello, f.Welcome])
def test_a_damaged_greeting_does_not_end_connect(kind: type[Any]) -> None:
    damage = Once(kind, flip)
    with Federation() as federation:
        federation.link("site-1", dial=Dialing(damage))
        assert damage.done.is_set()
        assert federation.peer("site-1").is_here


@pytest.mark.parametrize("kind", [f.Request, f.Reply])
def test_a_damaged_request_or_reply_is_made_good_over_another_call(kind: type[Any]) -> None:
    damage = Once(kind, flip)
    with Federation() as federation:
        link = federation.link("site-1", dial=Dialing(damage))
        there_and_back(federation)
        assert damage.done.is_set()
        assert not link.wait(0.0)


def there_and_back(federation: Federation) -> PeerRequest:
    """Have a model echoed, and check what comes back."""
    source, store = pattern_model(SPEC), MemoryStore()
    exchange = federation.peer("site-1").request("echo", SPEC, attempt=f.Attempt("job", 1, 1))
    exchange_models(exchange, source, store)
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert not reply.error
    assert content(store.open()) == content(source)
    exchange.close()
    return exchange


@pytest.mark.product
@pytest.mark.parametrize("kind", [f.Open, f.Accept, f.Ack, f.Chunk, f.Finish, f.Commit])
def test_a_call_that_is_stuck_is_given_up_and_another_goes_on(kind: type[Any]) -> None:
    stuck = Once(kind, hold)
    with Federation(config(call_timeout=0.1, open_timeout=2.0)) as federation:
        federation.link("site-1", dial=Dialing(stuck))
        exchange = there_and_back(federation)
        assert stuck.done.is_set()
        assert exchange.outgoing.stats.resumes + exchange.incoming.stats.resumes > 0


def test_a_flipped_bit_of_any_control_frame_of_a_transfer_costs_one_call() -> None:
    left = [f.Attach, f.Open, f.Accept, f.Finish, f.Commit]

    def flipped(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
        if type(frame) in left:
            left.remove(type(frame))
            return raw[:-12] + bytes([raw[-12] ^ 16]) + raw[-11:]
        return raw

    with Federation() as federation:
        federation.link("site-1", dial=Dialing(flipped))
        there_and_back(federation)
    assert left == []
