"""A hostile server, and a receiver without a name: the client that meets it ends with an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streamlink.copying import send
from streamlink.errors import ConnectFailed, RemoteProtocolError, StreamlinkError
from streamlink.link.client import ClientLink
from streamlink.protocol import frames as f
from tests.support.attacks import CONFIG, SPEC
from tests.support.hostile import HostileServer, a_welcome
from tests.support.models import pattern_model
from tests.support.peers import WAIT


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
