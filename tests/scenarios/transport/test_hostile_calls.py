"""Hostile calls and frames against a live server: each bound, and nobody else is disturbed."""

from __future__ import annotations

import logging

import pytest

from streamlink.errors import AbortCode, FrameTooLarge, LocalProtocolError
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from streamlink.transport._generated import streamlink_pb2 as pb
from streamlink.transport.framing import check_size, largest_received
from tests.support.attacks import FIRST, LIMITS, SPEC, Attack
from tests.support.hostile import HostileClient
from tests.support.hostile_frames import resealed
from tests.support.machines import KiB
from tests.support.models import pattern_model
from tests.support.peers import Federation, config, exchange_models
from tests.support.pumps import pump_of


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
