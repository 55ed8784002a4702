"""Hostile clients against a live server: what they attack ends, and no more.

Beside every attack a client that keeps to the protocol gets its model there and back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    FlowControlError,
    FrameTooLarge,
    ModelError,
    RemoteProtocolError,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.stores.compressed import CompressedStore
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from streamlink.transport.messages import encode_spec
from tests.support.attacks import SPEC, TOTAL, Attack, a_chunk, an_open, in_thread
from tests.support.hostile import HostileClient, Line
from tests.support.hostile_load import load_server
from tests.support.hostile_messages import fuzz_messages
from tests.support.hostile_openings import fuzz_openings
from tests.support.hostile_port import load_port
from tests.support.machines import KiB, zeros
from tests.support.models import pattern_model
from tests.support.peers import WAIT
from tests.support.pumps import pump_of

# --- an update that is none ---------------------------------------------------------------

UPDATES: dict[str, tuple[dict[str, Any], list[f.Frame], type[StreamlinkError], str]] = {
    "another attempt": ({"attempt": f.Attempt("job", 0, 0)}, [], StreamAborted, "sent a model of"),
    "too large": ({"total_bytes": (1 << 64) - 1}, [], FrameTooLarge, "max_model_bytes"),
    "another size": ({"total_bytes": 5}, [], ModelError, "is not the one of 5 bytes"),
    "a replay": (
        {}, [a_chunk(0), *(a_chunk(n, offset=0) for n in range(1, 500))],
        RemoteProtocolError, "with the chunk at byte 0",
    ),
    "an overlap": ({}, [a_chunk(0), a_chunk(1, offset=1)], RemoteProtocolError, "overlaps others"),
    "a range beyond": ({}, [a_chunk(0, offset=1 << 63)], RemoteProtocolError, "outside of"),
    "too much at once": (
        {}, [a_chunk(0, payload=zeros(8 * KiB))], FrameTooLarge, "at most 4096",
    ),
    "another end": ({}, [f.Finish(TOTAL - 1, "")], RemoteProtocolError, "finished at"),
    "the wrong side": ({}, [f.Ack(0, 0, 0, 0)], RemoteProtocolError, "sent ack while"),
    "a flood": ({}, [f.Held(n, "", "") for n in range(500)], RemoteProtocolError, "floods"),
    "pages": (
        {"spec_digest": b"x", "spec_pages": 9000},
        [f.SpecPage(n, bytes(KiB)) for n in range(70)], FrameTooLarge, "max_spec_bytes",
    ),
    "tensors": (
        {"spec_digest": b"x"},
        [f.SpecPage(0, encode_spec([(f"t{n}", "U8", ()) for n in range(51)], 1 << 20)[0])],
        ModelError, "more than 50 tensors",
    ),
    "a name": (
        {"spec_digest": b"x"}, [f.SpecPage(0, encode_spec([("n" * 101, "U8", ())], 1 << 20)[0])],
        ModelError, "max_name_bytes",
    ),
    "dimensions": (
        {"spec_digest": b"x"}, [f.SpecPage(0, encode_spec([("n", "U8", (1,) * 65)], 1 << 20)[0])],
        ModelError, "max_dimensions",
    ),
    "twice the same": (
        {"spec_digest": b"x"}, [f.SpecPage(0, encode_spec([("n", "U8", ())] * 2, 1 << 20)[0])],
        ModelError, "is in the spec twice",
    ),
    "an overflow": (
        {"spec_digest": b"x"}, [f.SpecPage(0, encode_spec([("n", "F64", (1 << 40,) * 9)], 99)[0])],
        ModelError, "above the limit of",
    ),
    "no description": (
        {"spec_digest": b"x"}, [f.SpecPage(0, b"\xff" * 99)], RemoteProtocolError, "are no frame",
    ),
}  # fmt: skip


@pytest.mark.product
@pytest.mark.parametrize("what", UPDATES)
def test_an_update_that_breaks_a_rule_ends_its_stream_with_the_typed_error(
    what: str, attack: Attack
) -> None:
    changes, frames, kind, words = UPDATES[what]
    exchange = attack.ask()
    number = attack.asked.returns
    store = MemoryStore()
    outcome = in_thread(
        lambda: receive_model(exchange.incoming, lambda model: store.begin(model.spec))
    )
    line = attack.hostile.attached(attack.session_id, number).say(an_open(number, **changes))
    if frames:
        line.hear(f.Accept)
        line.say(*frames)
    error = outcome.exception(WAIT)
    assert isinstance(error, kind), error
    assert words in str(error)
    told = line.abort_heard()
    assert told is not None
    assert told.code is not AbortCode.UNSPECIFIED
    exchange.end(AbortCode.CANCELLED, "over")
    attack.finish()
    assert attack.federation.peer("evil").is_here  # the stream ended, and no more


def test_bytes_beyond_the_credit_end_the_stream_and_the_window_bounds_them(attack: Attack) -> None:
    exchange = attack.ask()
    number = attack.asked.returns
    line = attack.hostile.attached(attack.session_id, number).say(an_open(number))
    assert exchange.incoming.open(WAIT)  # and nobody reads it
    line.say(*[a_chunk(n) for n in range(9)])
    assert line.abort_heard() is not None
    error = exchange.incoming.error
    assert isinstance(error, FlowControlError)
    assert "up to byte 20480 with credit to 16384" in str(error)
    assert exchange.incoming.stats.received_bytes == 16 * KiB
    exchange.end(AbortCode.CANCELLED, "over")
    attack.finish()


def test_a_digest_that_is_not_the_bytes_is_found_at_the_end(attack: Attack) -> None:
    exchange = attack.ask()
    number = attack.asked.returns
    outcome = in_thread(
        lambda: receive_model(exchange.incoming, lambda model: MemoryStore().begin(model.spec))
    )
    line = attack.hostile.attached(attack.session_id, number).say(an_open(number))
    limit, at, sequence = line.hear(f.Accept).limit, 0, 0
    while at < TOTAL:
        nbytes = min(4 * KiB, TOTAL - at)
        while at + nbytes > limit:
            limit = line.hear(f.Ack).limit
        line.say(f.Chunk(sequence, at, zeros(nbytes)))
        at, sequence = at + nbytes, sequence + 1
    line.say(f.Finish(TOTAL, "0" * 64, {"loss": float("nan")}))
    assert isinstance(outcome.exception(WAIT), ChecksumError)
    exchange.end(AbortCode.CANCELLED, "over")
    attack.finish()


# --- a receiver that lies -----------------------------------------------------------------

RECEIVERS: dict[str, tuple[list[f.Frame], type[StreamlinkError], str]] = {
    "a chunk of a byte": ([f.Accept(0, 1 << 40, 1)], RemoteProtocolError, "a chunk size of 1"),
    "more than was sent": (
        [f.Accept(0, 4 * KiB, 4 * KiB), f.Ack((1 << 64) - 1, 0, 0, 1 << 40)],
        RemoteProtocolError, "acknowledged 18446744073709551615 bytes",
    ),
    "credit taken back": (
        [f.Accept(0, 4 * KiB, 4 * KiB), f.Ack(0, 0, 0, 1)], FlowControlError, "took back credit",
    ),
    "a mark beyond": (
        [f.Accept(1 << 40, 1 << 41, 4 * KiB)], RemoteProtocolError, "accepted at byte",
    ),
    "a repair of nothing": (
        [f.Accept(0, 4 * KiB, 4 * KiB), f.Repair(1 << 40)], RemoteProtocolError, "not in flight",
    ),
    "an early commit": (
        [f.Accept(0, 4 * KiB, 4 * KiB), f.Commit("x")], RemoteProtocolError, "sent commit while",
    ),
    "a flood of acks": (
        [f.Accept(0, 4 * KiB, 4 * KiB), *[f.Ack(0, 0, 0, 4 * KiB)] * 400],
        RemoteProtocolError, "floods this side",
    ),
    "a flood of holds": (
        [f.Accept(0, 0, 4 * KiB), *[f.Held(n, "", "x") for n in range(400)]],
        RemoteProtocolError, "floods this side",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RECEIVERS)
def test_a_receiver_that_lies_ends_its_stream_with_the_typed_error(
    what: str, attack: Attack
) -> None:
    frames, kind, words = RECEIVERS[what]
    exchange = attack.ask()
    outcome = in_thread(lambda: send_model(exchange.outgoing, pattern_model(SPEC)))
    line = attack.hostile.attached(attack.session_id, attack.asked.sends)
    line.hear(f.Open)
    line.say(*frames)
    error = outcome.exception(WAIT)
    assert type(error) is kind
    assert words in str(error)
    assert line.abort_heard() is not None
    exchange.end(AbortCode.CANCELLED, "over")
    attack.finish()


class Waiting:
    """A source that gives nothing before it may."""

    def __init__(self, source: ModelSource) -> None:
        self._source, self.spec = source, source.spec
        self.is_asked, self.may_give = threading.Event(), threading.Event()

    def read(self, offset: int, length: int) -> Payload:
        self.is_asked.set()
        self.may_give.wait(WAIT)
        return self._source.read(offset, length)

    def close(self) -> None:
        self._source.close()


def test_less_credit_than_was_drawn_for_is_used_piece_by_piece(attack: Attack) -> None:
    exchange, source = attack.ask(), Waiting(pattern_model(SPEC))
    outcome = in_thread(lambda: send_model(exchange.outgoing, source))
    number = attack.asked.sends
    first = attack.hostile.attached(attack.session_id, number)
    first.hear(f.Open)
    first.say(f.Accept(0, 4 * KiB, 4 * KiB))
    assert source.is_asked.wait(WAIT)
    first.end()
    line = attack.hostile.attached(attack.session_id, number)
    line.hear(f.Open)
    received, limit = 0, 100  # a tenth of what is being drawn
    line.say(f.Accept(0, limit, 4 * KiB))
    wait_until(lambda: pump_of(exchange.outgoing).stream.limit == limit)
    source.may_give.set()
    while received < TOTAL:
        chunk = line.hear(f.Chunk)
        assert chunk.end <= limit
        received = chunk.end
        limit = received + 4 * KiB
        line.say(f.Ack(received, received, 0, limit))
    line.say(f.Commit(line.hear(f.Finish).digest))
    assert outcome.result(WAIT).stats.received_bytes == TOTAL
    exchange.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT
    while not is_so():
        assert time.monotonic() < until
        threading.Event().wait(0.01)


# --- names are no paths -------------------------------------------------------------------

PATHS = ("../../x", "/tmp/x", "a\0b", "..", ".", "CON", "__metadata__x", "a/b", "x" * 1000)


def test_names_of_tensors_and_clients_never_become_paths(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "in"
    place.mkdir(parents=True)
    spec = ModelSpec(tuple(TensorSpec(name, "U8", (3,)) for name in PATHS))
    for name in ("a", "b.slz"):
        store = SafetensorsStore(place / name) if name == "a" else CompressedStore(place / name)
        sink = store.begin(spec)
        sink.write(0, memoryview(bytes(spec.nbytes)))
        sink.commit()
        assert tuple(tensor.name for tensor in store.open().spec.tensors) == PATHS
    beside = {each.relative_to(tmp_path).parts[:3] for each in tmp_path.rglob("*")}
    assert beside == {
        ("deep",), ("deep", "in"), ("deep", "in", "a"), ("deep", "in", "b.slz"),
    }  # fmt: skip
    assert all(each.name.startswith("model") for each in (place / "a").iterdir())


# --- whatever else, and what is left ------------------------------------------------------


@pytest.mark.slow
def test_hundreds_of_hostile_frames_change_nothing_for_a_client_beside_them() -> None:
    held = load_server(250, seed=2026)
    assert held.is_held, held
    assert held.calls > 30
    assert held.outcomes["protocol_error"] > 0


def test_hundreds_of_hostile_connections_change_nothing_for_a_client_of_the_data_port() -> None:
    held = load_port(240, seed=2026)
    assert held.is_held, held
    assert held.proven == 20
    assert held.outcomes["refused"] > 100


def test_what_a_data_port_parses_leads_to_documented_errors_only() -> None:
    assert fuzz_openings(1000, seed=2026)["not proven"] > 100
    outcomes = fuzz_messages(2000, seed=2026)
    assert outcomes["ended"] > 20
    assert outcomes["damaged"] > 20
    assert outcomes["RemoteProtocolError"] > 20


def test_nothing_is_left_of_an_attack(attack: Attack) -> None:
    process = psutil.Process()

    def pass_by() -> None:
        with HostileClient(attack.federation.address) as hostile:
            lines: list[Line] = [hostile.session() for _ in range(3)]
            lines.append(hostile.attached("no session", 5))
            lines.append(hostile.session().say_bytes(b"\xff" * 999))
            hostile.greeted("passing")[0].say(f.Goodbye("done")).abort_heard()
            for line in lines:
                line.end()
        attack.federation.wait_left("passing")

    pass_by()
    attack.finish()
    threads, files = process.num_threads(), process.num_fds()
    for _ in range(5):
        pass_by()
    attack.finish()
    until = time.monotonic() + WAIT
    while process.num_threads() > threads + 2 and time.monotonic() < until:
        threading.Event().wait(0.05)
    assert process.num_threads() <= threads + 2
    assert process.num_fds() <= files + 2
