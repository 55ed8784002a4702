"""Hostile peers against a live server, and a hostile server: what they attack ends, and no more.

Beside every attack a client that keeps to the protocol gets its model there and back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from streamlink.config import LimitsConfig
from streamlink.copying import send
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    ConnectFailed,
    FlowControlError,
    FrameTooLarge,
    LocalProtocolError,
    ModelError,
    RemoteProtocolError,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.client import ClientLink
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.stores.compressed import CompressedStore
from streamlink.stores.memory import MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from streamlink.transport._generated import streamlink_pb2 as pb
from streamlink.transport.framing import check_size, largest_received
from streamlink.transport.messages import encode_spec
from tests.support.hostile import HostileClient, HostileServer, Line, a_welcome
from tests.support.hostile_frames import resealed
from tests.support.hostile_load import load_server
from tests.support.machines import KiB, zeros
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, echo, exchange_models
from tests.support.pumps import pump_of

SPEC = float_spec(10_001)
TOTAL = SPEC.nbytes
FIRST = f.Attempt("job", 0, 1)
LIMITS = LimitsConfig(max_tensors=50, max_silent_calls=4, frames_per_second=20, max_name_bytes=100)
CONFIG = config(open_timeout=60.0, stream={"max_spec_bytes": 64 * KiB}).model_copy(
    update={"limits": LIMITS}
)


class Attack:
    """A server, a client that behaves, and one that does not."""

    def __init__(self, federation: Federation, hostile: HostileClient) -> None:
        self.federation = federation
        self.hostile = hostile
        self.evil, welcome = hostile.greeted("evil")
        self.session_id = welcome.session_id
        federation.link("good", echo)

    def ask(self) -> PeerRequest:
        """Ask the hostile client for something; it has heard of it then."""
        exchange = self.federation.peer("evil").request("echo", SPEC, attempt=FIRST)
        self.asked = self.evil.hear(f.Request)
        return exchange

    def finish(self, name: str = "good") -> None:
        """Let the client that behaves do its work, and look at every byte of it."""
        store = MemoryStore()
        exchange = self.federation.peer(name).request("echo", SPEC, attempt=FIRST)
        exchange_models(exchange, pattern_model(SPEC), store)
        assert content(store.open()) == content(pattern_model(SPEC))
        exchange.close()


@pytest.fixture(scope="module")
def attack() -> Iterator[Attack]:
    with Federation(CONFIG) as federation, HostileClient(federation.address) as hostile:
        yield Attack(federation, hostile)


def an_open(stream_id: int, **changes: Any) -> f.Open:
    fields: dict[str, Any] = {"attempt": FIRST, "total_bytes": TOTAL, "spec_digest": SPEC.digest}
    return f.Open(stream_id, **{**fields, "spec_pages": 1, "chunk_bytes": 4 * KiB, **changes})


def a_chunk(number: int, **changes: Any) -> f.Chunk:
    fields: dict[str, Any] = {"sequence": number, "offset": number * 4 * KiB}
    return f.Chunk(**{**fields, "payload": zeros(4 * KiB), **changes})


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    outcome = pool.submit(work)
    pool.shutdown(wait=False)
    return outcome


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


# --- calls --------------------------------------------------------------------------------


def test_calls_that_say_nothing_push_each_other_out_and_nobody_else(attack: Attack) -> None:
    silent = [
        attack.hostile.session() if n % 2 else attack.hostile.transfer()
        for n in range(3 * LIMITS.max_silent_calls)
    ]
    with HostileClient(attack.federation.address) as other:
        other.greeted("late")
    attack.finish()
    ended = [line.abort_heard() for line in silent[: 2 * LIMITS.max_silent_calls - 1]]
    assert ended == [None] * len(ended)  # cut, without a word
    for line in silent:
        line.end()


def test_a_call_that_says_nothing_ends_after_the_open_timeout() -> None:
    with Federation(config(open_timeout=0.3)) as federation:
        with HostileClient(federation.address) as hostile:
            for line in (hostile.session(), hostile.transfer()):
                assert line.abort_heard() is None
                assert line.status.name == "CANCELLED"


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff" * 100, b"\x0a" * 5000, b"GET / HTTP/1.1\r\n"])
def test_bytes_that_are_no_frame_end_their_call(raw: bytes, attack: Attack) -> None:
    for line in (attack.hostile.session(), attack.hostile.transfer()):
        line.say_bytes(raw).abort_heard()
    attack.finish()


def test_a_frame_is_refused_before_it_is_parsed_where_it_is_too_large(attack: Attack) -> None:
    many = pb.SessionFrame(request=pb.Request(part=[""] * (150 * KiB)))  # two bytes each
    raw = resealed(many.SerializeToString() + bytes(9), is_session=True)
    told = attack.hostile.session().say_bytes(raw).abort_heard()
    assert told is not None
    assert told.code is AbortCode.FRAME_TOO_LARGE
    line = attack.hostile.session().say_bytes(bytes(2 << 20))
    assert line.abort_heard() is None
    assert line.status.name == "RESOURCE_EXHAUSTED"  # gRPC's own limit
    attack.finish()


def test_a_page_may_be_larger_than_other_frames() -> None:
    check_size(b"\x32" + bytes(500 * KiB))
    check_size(bytes(256 * KiB))
    for raw in (b"\x32" + bytes(513 * KiB), bytes(256 * KiB + 1)):
        with pytest.raises(FrameTooLarge, match="but for chunks the most is 262144"):
            check_size(raw)


def test_no_more_is_let_in_than_the_largest_chunk_explains() -> None:
    small = config()
    assert largest_received(small.grpc, small.stream) == 2 * (4 * KiB + 512 * KiB)
    tight = config(grpc={"max_message_bytes": "20KiB"})
    assert largest_received(tight.grpc, tight.stream) == 20 * KiB


@pytest.mark.parametrize(
    "name", ["", "x" * 129, "a\nb", "a\0b", "\x1b[2J", "\u202egood", "x" * 8000]
)
def test_a_name_that_is_none_is_refused_and_logged_as_a_literal(
    name: str, attack: Attack, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError, match="no Welcome"):
        attack.hostile.greeted(name)
    for record in caplog.records:
        if record.name == "streamlink.server" and record.levelno == logging.WARNING:
            assert "refused" in record.message
            assert record.message.isprintable()
            assert len(record.message) < 1000
    attack.finish()


def test_streams_of_another_session_and_unknown_ones_are_refused_by_name(attack: Attack) -> None:
    exchange = attack.federation.peer("good").request("echo", SPEC, attempt=FIRST)
    theirs = pump_of(exchange.incoming).stream.stream_id
    for session_id, number, code in (
        (attack.session_id, theirs, AbortCode.UNKNOWN_STREAM),
        (attack.session_id, (1 << 64) - 1, AbortCode.UNKNOWN_STREAM),
        ("no session", theirs, AbortCode.SESSION_LOST),
        ("", 0, AbortCode.SESSION_LOST),
    ):
        told = attack.hostile.attached(session_id, number).abort_heard()
        assert told is not None
        assert told.code is code
    exchange_models(exchange, pattern_model(SPEC), MemoryStore())


def test_a_stream_that_is_opened_again_and_again_ends(attack: Attack) -> None:
    exchange = attack.ask()
    number, calls = attack.asked.returns, 0
    while exchange.incoming.error is None and calls < 2000:
        line = attack.hostile.attached(attack.session_id, number)
        calls += 1
        if calls % 16 == 0:
            line.end()
    assert "opens call after call" in str(exchange.incoming.error)
    exchange.end(AbortCode.CANCELLED, "over")
    attack.finish()


def test_a_session_that_floods_ends_by_name_and_its_place_is_free_again(attack: Attack) -> None:
    for frames in (
        [f.Heartbeat(n) for n in range(400)],
        [f.Cancel(n, "") for n in range(400)],
        [f.Request((1 << 64) - 1, ""), *[f.Request(n, "") for n in range(400)]],
        [f.Welcome(1, "x", "y", 4096, 1.0)],
    ):
        line, _ = attack.hostile.greeted("flooder")
        peer = attack.federation.peer("flooder")
        line.say(*frames)
        told = line.abort_heard()
        assert told is not None
        assert told.code is AbortCode.PROTOCOL_ERROR
        attack.federation.wait_left("flooder")
        assert not peer.is_here
    attack.finish()


def test_what_a_session_keeps_of_facts_is_bounded_where_they_are_given(attack: Attack) -> None:
    with pytest.raises(LocalProtocolError, match="one request or reply takes 196608"):
        attack.federation.peer("good").request(
            "echo", SPEC, attempt=FIRST, metadata={"a": "x" * (200 * KiB)}
        )
    attack.finish()


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


# --- a hostile server ---------------------------------------------------------------------


def joined(*frames: f.Frame) -> StreamlinkError:
    """Return what a client ends with whose server says this once it was greeted."""

    def session(wire: Any, requests: Iterator[bytes]) -> Iterator[bytes]:
        wire.decode(next(requests))
        for frame in frames:
            yield wire.encode(frame)
        for _ in requests:
            pass

    with HostileServer(session) as server:
        try:
            link = ClientLink(server.address, name="site-1", serve=lambda task: None, config=CONFIG)
            link.start()
        except StreamlinkError as error:
            return error
        try:
            assert link.wait(WAIT)
            assert link.error is not None
            return link.error
        finally:
            link.close()


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([a_welcome(version=7)], "chose version 7"),
        ([a_welcome(chunk_bytes=1)], "chose a chunk size of 1 bytes"),
        ([a_welcome(chunk_bytes=1 << 40)], "chose a chunk size of"),
        ([f.Heartbeat(1)], "sent heartbeat while session is in state HELLO_SENT"),
        ([a_welcome(), a_welcome()], "sent welcome while session is in state READY"),
        ([a_welcome(), *[f.Reply(n) for n in range(400)]], "floods this side"),
        ([a_welcome(), *[f.TaskProgress(n, n) for n in range(400)]], "floods this side"),
    ],
)
def test_a_server_that_breaks_a_rule_is_left_with_the_typed_error(
    frames: list[f.Frame], words: str
) -> None:
    error = joined(*frames)
    assert isinstance(error, RemoteProtocolError)
    assert words in str(error)


def test_a_server_that_asks_without_end_gets_no_thread_for_each() -> None:
    release, before = threading.Event(), threading.active_count()
    most = 0

    def serve(task: Any) -> None:
        nonlocal most
        most = max(most, threading.active_count() - before)
        release.wait(WAIT)

    def session(wire: Any, requests: Iterator[bytes]) -> Iterator[bytes]:
        wire.decode(next(requests))
        yield wire.encode(a_welcome())
        for number in range(1, 150):
            yield wire.encode(f.Request(number, "train"))
        for _ in requests:
            pass

    with HostileServer(session) as server:
        link = ClientLink(server.address, name="site-1", serve=serve, config=CONFIG).start()
        assert link.wait(WAIT)
        release.set()
        link.close()
    assert "has more than 64 requests open at once" in str(link.error)
    assert most <= 64 + 40


@pytest.mark.parametrize("stream", ["abc", "-1", "9" * 5000, "", "١٢"])
def test_a_receiver_that_names_no_stream_is_no_receiver(stream: str) -> None:
    def session(wire: Any, requests: Iterator[bytes]) -> Iterator[bytes]:
        wire.decode(next(requests))
        yield wire.encode(a_welcome())
        asked = wire.decode(next(requests))
        yield wire.encode(f.Reply(asked.request_id, metadata={"stream": stream}))
        # A goodbye is answered, or the client would wait for the answer.
        yield from (wire.encode(said) for said in map(wire.decode, requests) if is_goodbye(said))

    with HostileServer(session) as server:
        with pytest.raises((RemoteProtocolError, ConnectFailed), match="which is not a number"):
            send(pattern_model(SPEC), server.address, config=CONFIG, retry=0.0)


def is_goodbye(frame: f.Frame) -> bool:
    return isinstance(frame, f.Goodbye)


# --- whatever else, and what is left ------------------------------------------------------


def test_hundreds_of_hostile_frames_change_nothing_for_a_client_beside_them() -> None:
    held = load_server(250, seed=2026)
    assert held.is_held, held
    assert held.calls > 30
    assert held.outcomes["protocol_error"] > 0


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
