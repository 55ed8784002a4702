"""Messages of a session that come each in a call of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.clock import running_time
from streamlink.errors import FrameTooLarge, RemoteProtocolError
from streamlink.protocol import frames as f
from streamlink.transport.grpc.posts import (
    KEY,
    MOST_AHEAD,
    NUMBER,
    SAYS,
    Inbox,
    Inboxes,
    address_of_post,
)
from streamlink.transport.wire import SessionWire
from tests.support.machines import KiB, a_hello
from tests.support.peers import WAIT, Federation, until
from tests.support.virtual_clock import VirtualClock

OURS = "a" * 32
METHOD = "/streamlink.v1.Streamlink/"


# --- the order ------------------------------------------------------------------------------------


def an_inbox() -> tuple[Inbox, list[bytes], threading.Event]:
    taken, is_cut = list[bytes](), threading.Event()
    inbox = Inbox(is_cut.set, running_time, WAIT)
    inbox.on_message(taken.append)
    return inbox, taken, is_cut


@given(st.permutations(range(MOST_AHEAD)))
def test_messages_are_taken_in_their_order_whichever_comes_first(order: list[int]) -> None:
    inbox, taken, is_cut = an_inbox()
    for number in order:
        inbox.put(number, b"%d" % number)
    assert taken == [b"%d" % number for number in range(MOST_AHEAD)]
    assert not is_cut.is_set()


@pytest.mark.parametrize("number", [-1, 0, 1, 3, 1 + MOST_AHEAD, 1 << 70])
def test_a_message_out_of_all_order_costs_the_call(number: int) -> None:
    inbox, taken, is_cut = an_inbox()
    inbox.put(0, b"first")
    inbox.put(3, b"early")
    if number in range(1, 1 + MOST_AHEAD) and number != 3:
        inbox.put(number, b"in order")
        assert not is_cut.is_set()
        return
    with pytest.raises(RemoteProtocolError, match="where 1 is due"):
        inbox.put(number, b"wrong")
    assert is_cut.is_set()
    assert taken == [b"first"]


def test_only_so_many_messages_may_be_about_to_come() -> None:
    inbox, _, is_cut = an_inbox()
    with ExitStack() as coming:
        for _ in range(MOST_AHEAD):
            coming.enter_context(inbox.coming(_nothing))
        with pytest.raises(RemoteProtocolError, match="at once"), inbox.coming(_nothing):
            pass
        assert is_cut.is_set()
    with inbox.coming(_nothing):  # their places are free again
        pass


def test_no_message_comes_before_the_session_takes_any_nor_after_its_call() -> None:
    inbox = Inbox(_nothing, running_time, WAIT)
    with pytest.raises(RemoteProtocolError, match="takes no messages"), inbox.coming(_nothing):
        pass
    inbox.on_message(list[bytes]().append)
    with inbox.coming(_nothing):
        pass
    inbox.close()
    with pytest.raises(RemoteProtocolError, match="takes no messages"), inbox.coming(_nothing):
        pass
    inbox.on_message(list[bytes]().append)  # it ended while its client was greeted
    with pytest.raises(RemoteProtocolError, match="takes no messages"), inbox.coming(_nothing):
        pass


def test_what_is_under_way_ends_with_the_call_or_when_it_takes_too_long() -> None:
    clock = VirtualClock()
    inbox, cuts = Inbox(_nothing, clock, 5.0), list[str]()
    inbox.on_message(list[bytes]().append)
    with inbox.coming(lambda: cuts.append("slow")) as arrived:
        clock.advance(3.0)
        with inbox.coming(lambda: cuts.append("quick")):
            inbox.tick()
            assert cuts == []
            clock.advance(3.0)
            inbox.tick()
            assert cuts == ["slow"]
            arrived()  # what it has brought may be what ends the call: it is still answered
            inbox.close()
            assert cuts == ["slow", "quick"]
        assert not inbox.is_over
        inbox.tick()  # in its time
        assert cuts == ["slow", "quick", "slow"]
    assert inbox.is_over


def test_a_message_that_is_larger_than_any_is_not_kept() -> None:
    inbox, taken, _ = an_inbox()
    with pytest.raises(FrameTooLarge):
        inbox.put(1, bytes(1 << 20))
    assert taken == []


def _nothing() -> None:
    pass


# --- whose they are -------------------------------------------------------------------------------


def test_a_key_leads_to_one_call_while_that_lasts() -> None:
    inboxes, inbox = Inboxes(2), Inbox(_nothing, running_time, WAIT)
    inboxes.open(OURS, inbox, None)
    assert inboxes.find(OURS, None) is inbox
    with pytest.raises(RemoteProtocolError, match="another call has that key"):
        inboxes.open(OURS, Inbox(_nothing, running_time, WAIT), None)
    inboxes.close(OURS)
    with pytest.raises(RemoteProtocolError, match="no call of a session here"):
        inboxes.find(OURS, None)


def test_a_key_is_of_no_use_without_the_certificate_of_its_client() -> None:
    inboxes = Inboxes(2)
    inboxes.open(OURS, Inbox(_nothing, running_time, WAIT), frozenset({"site-1"}))
    for names in (None, frozenset[str](), frozenset({"site-2"})):
        with pytest.raises(RemoteProtocolError, match="no call of a session here"):
            inboxes.find(OURS, names)


def test_only_so_many_calls_take_messages() -> None:
    inboxes = Inboxes(2)
    for key in ("a" * 32, "b" * 32):
        inboxes.open(key, Inbox(_nothing, running_time, WAIT), None)
    with pytest.raises(RemoteProtocolError, match="2 calls of sessions are open"):
        inboxes.open("c" * 32, Inbox(_nothing, running_time, WAIT), None)
    inboxes.close("a" * 32)
    inboxes.open("c" * 32, Inbox(_nothing, running_time, WAIT), None)


@pytest.mark.parametrize("key", ["", "short", "a" * 33])
def test_a_key_of_another_length_is_refused(key: str) -> None:
    with pytest.raises(RemoteProtocolError, match="it has 32"):
        Inboxes(2).open(key, Inbox(_nothing, running_time, WAIT), None)


@pytest.mark.parametrize(
    "metadata",
    [{}, {KEY: OURS}, {NUMBER: "1"}, {KEY: OURS, NUMBER: "x"}, {KEY: OURS, NUMBER: "1" * 21}],
)
def test_a_message_that_belongs_nowhere_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(RemoteProtocolError, match="a message without"):
        address_of_post(metadata)
    assert address_of_post({KEY: OURS, NUMBER: "12"}) == (OURS, 12)


# --- over gRPC ------------------------------------------------------------------------------------


class Poster:
    """A client of plain gRPC that opens a session and posts what it is told to."""

    def __init__(self, port: int, key: str = OURS, *, greets: bool = True) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._key, self._wire, self._heard = key, SessionWire(), SessionWire()
        self._ends, self._greets = threading.Event(), greets
        open_call: Any = self._channel.stream_stream(METHOD + "Session", None, None)
        self.call = open_call(self._first(), metadata=((KEY, key),))

    def _first(self) -> Iterator[bytes]:
        if self._greets:
            yield self._wire.encode(a_hello(name="site-1", chunk_bytes=4 * KiB, instance="one"))
        self._ends.wait(WAIT)

    def hear(self) -> f.Frame:
        return self._heard.decode(next(self.call))

    def post(self, number: int, *frames: f.Frame, key: str = "", raw: bytes = b"") -> None:
        say: Any = self._channel.unary_unary(METHOD + "Say", None, None)
        for at, frame in enumerate(frames):
            say(self._wire.encode(frame), timeout=WAIT, metadata=self._to(number + at, key))
        if raw:
            say(raw, timeout=WAIT, metadata=self._to(number, key))

    def open_post(self, ends: threading.Event) -> Any:
        """Open a call that says nothing."""

        def nothing() -> Iterator[bytes]:
            ends.wait(WAIT)
            yield from ()

        say: Any = self._channel.stream_stream(METHOD + "Say", None, None)
        return say(nothing(), metadata=self._to(0, self._key))

    def _to(self, number: int, key: str) -> tuple[tuple[str, str], ...]:
        return (KEY, key or self._key), (NUMBER, str(number))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.call.cancel()
        self._channel.close()


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation() as federation:
        yield federation


def status_of(post: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        post()
    code: grpc.StatusCode = caught.value.code()
    return code


def test_a_client_that_posts_is_told_that_it_may_and_is_heard(federation: Federation) -> None:
    with Poster(federation.server.port) as client:
        assert SAYS in dict(client.call.initial_metadata())
        assert isinstance(client.hear(), f.Welcome)
        client.post(0, f.Goodbye("that was all"))
        while not isinstance(client.hear(), f.Goodbye):
            pass
        assert [*client.call] == []
        assert client.call.code() is grpc.StatusCode.OK


def test_a_damaged_message_costs_the_call_and_not_the_session(federation: Federation) -> None:
    with Poster(federation.server.port) as client:
        assert isinstance(client.hear(), f.Welcome)
        client.post(0, raw=b"\xff" * 40)
        status_of(lambda: [*iter(client.hear, None)])
        until(lambda: federation.server.peers()[0].is_disconnected)


def test_nobody_posts_for_another_and_the_session_goes_on(federation: Federation) -> None:
    with Poster(federation.server.port) as client:
        assert isinstance(client.hear(), f.Welcome)
        stranger = partial(client.post, 0, raw=b"x", key="b" * 32)
        assert status_of(stranger) is grpc.StatusCode.NOT_FOUND
        client.post(0, f.Heartbeat(1))
        assert not federation.server.peers()[0].is_disconnected


def test_a_message_that_is_far_too_early_costs_the_call(federation: Federation) -> None:
    with Poster(federation.server.port) as client:
        assert isinstance(client.hear(), f.Welcome)
        assert status_of(partial(client.post, MOST_AHEAD, raw=b"x")) is grpc.StatusCode.NOT_FOUND
        until(lambda: federation.server.peers()[0].is_disconnected)


def test_calls_that_bring_no_message_keep_a_bounded_number_of_threads(
    federation: Federation,
) -> None:
    with Poster(federation.server.port) as client:
        assert isinstance(client.hear(), f.Welcome)
        ends = threading.Event()
        mute = [client.open_post(ends) for _ in range(MOST_AHEAD + 1)]
        until(lambda: federation.server.peers()[0].is_disconnected)
        ends.set()
        for call in mute:
            call.cancel()


def test_a_stranger_that_greets_nobody_posts_nothing(federation: Federation) -> None:
    with Poster(federation.server.port, greets=False) as stranger:
        mute = partial(stranger.post, 0, raw=b"x")
        assert status_of(mute) is grpc.StatusCode.NOT_FOUND


def test_a_key_that_is_taken_is_refused(federation: Federation) -> None:
    with Poster(federation.server.port) as client:
        assert isinstance(client.hear(), f.Welcome)
        with Poster(federation.server.port) as rival:
            refused = rival.hear()
            assert isinstance(refused, f.Abort)
            assert "another call has that key" in refused.reason
        assert not federation.server.peers()[0].is_disconnected


def test_sessions_keep_no_thread_of_their_server(federation: Federation) -> None:
    before = {each.name for each in threading.enumerate()}
    clients = [federation.link(f"site-{number}") for number in range(8)]
    assert len(federation.server.peers()) == len(clients)
    kept = [each.name for each in threading.enumerate() if each.name not in before]
    # Those of the clients, which are in this process, too, have a name each.
    assert not [name for name in kept if name.startswith(("session-site", "read-", "greet"))]
