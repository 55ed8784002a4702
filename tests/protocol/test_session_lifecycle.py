"""A session without its requests: handshake, heartbeat, reconnecting, goodbye."""

from __future__ import annotations

import pytest

from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    OpenTimeout,
    RemoteProtocolError,
    StreamAborted,
)
from streamlink.protocol.events import Disconnected, Failed, HelloReceived, PeerLeft, Welcomed
from streamlink.protocol.frames import Abort, Ack, Frame, Goodbye, Heartbeat, Hello, Welcome
from streamlink.protocol.liveness import GoodbyeUnanswered
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState
from tests.support.machines import OPEN, SMALL, KiB, a_hello, events, small_config, the
from tests.support.sessions import (
    AWAY,
    BEAT,
    SILENCE,
    a_client,
    a_server,
    cut,
    exchange,
    join,
    kept_alive,
    pair,
    ready_client,
    ready_server,
)

# --- greeting -----------------------------------------------------------------------------


def test_client_and_server_greet_and_agree() -> None:
    client, server = a_client(), a_server()
    exchange(client, server)
    assert events(server) == [HelloReceived(a_hello())]
    assert server.peer_name == "site-1"
    answer = server.welcome("id", "epoch", now=0.0)
    exchange(client, server)
    assert events(client) == [Welcomed(answer)]
    assert client.state is server.state is SessionState.READY


def test_the_smallest_of_all_limits_is_the_chunk_size() -> None:
    server = a_server()
    server.receive(a_hello(chunk_bytes=1 << 30, max_message_bytes=3 * KiB), now=0.0)
    assert server.welcome("id", "epoch", now=0.0).chunk_bytes == 2 * KiB


@pytest.mark.parametrize("changes", [{"chunk_bytes": 1023}, {"max_message_bytes": 2047}])
def test_a_chunk_size_that_cannot_be_agreed_is_refused_in_words(changes: dict[str, int]) -> None:
    server = a_server()
    server.receive(a_hello(**changes), now=0.0)
    with pytest.raises(RemoteProtocolError, match="smallest chunk that can be agreed on is 1024"):
        server.welcome("id", "epoch", now=0.0)


@pytest.mark.parametrize(("low", "high"), [(2, 3), (0, 0)])
def test_without_a_common_version_the_older_side_is_told_to_upgrade(low: int, high: int) -> None:
    server = a_server()
    server.receive(a_hello(version_min=low, version_max=high), now=0.0)
    with pytest.raises(RemoteProtocolError, match="upgrade the older side") as caught:
        server.welcome("id", "epoch", now=0.0)
    server.abort(caught.value.code, str(caught.value))
    assert the(Abort, server.frames_to_send(now=0.0)).code is AbortCode.VERSION


def test_a_newer_client_that_still_speaks_our_version_is_welcome() -> None:
    server = a_server()
    server.receive(a_hello(version_min=1, version_max=9), now=0.0)
    assert server.welcome("id", "epoch", now=0.0).version == 1


@pytest.mark.parametrize(
    "welcome",
    [
        Welcome(2, "id", "epoch", 4 * KiB, BEAT),
        Welcome(0, "id", "epoch", 4 * KiB, BEAT),
        Welcome(1, "id", "epoch", 4 * KiB + 1, BEAT),
        Welcome(1, "id", "epoch", 1023, BEAT),
    ],
)
def test_a_welcome_that_was_not_offered_ends_the_session(welcome: Welcome) -> None:
    client = a_client()
    client.receive(welcome, now=0.0)
    assert isinstance(client.error, RemoteProtocolError)


@pytest.mark.parametrize("is_welcomed", [False, True])
def test_a_second_hello_ends_the_session(is_welcomed: bool) -> None:
    server = a_server()
    server.receive(a_hello(), now=0.0)
    if is_welcomed:
        server.welcome("id", "epoch", now=0.0)
    server.receive(a_hello(name="site-2"), now=0.0)
    assert isinstance(server.error, RemoteProtocolError)


def test_welcoming_before_the_hello_is_our_own_fault() -> None:
    with pytest.raises(LocalProtocolError, match="welcome"):
        a_server().welcome("id", "epoch", now=0.0)


def test_a_client_without_a_name_goes_by_its_address() -> None:
    server = a_server()
    server.receive(a_hello(name=""), now=0.0)
    assert server.peer_name == "ipv4:10.0.0.7"


@pytest.mark.parametrize("session_for", [a_server, a_client])
def test_a_peer_that_does_not_greet_is_named_after_the_open_timeout(session_for: object) -> None:
    session: SessionMachine = session_for()  # type: ignore[operator]
    session.handle_timer(now=OPEN)
    assert isinstance(session.error, OpenTimeout)
    assert the(Abort, list(session.frames_to_send(now=OPEN))[-1:]).code is AbortCode.OPEN_TIMEOUT


def test_a_transfer_frame_on_a_session_ends_it() -> None:
    server = ready_server()
    server.receive(Ack(0, 0, 0, 0), now=0.0)
    assert isinstance(server.error, RemoteProtocolError)


# --- heartbeats and silence -----------------------------------------------------------------


def test_a_session_with_nothing_to_say_sends_a_heartbeat() -> None:
    server = ready_server()
    server.handle_timer(now=BEAT)
    assert server.frames_to_send(now=BEAT) == [Heartbeat(1)]
    assert server.next_deadline() == 2 * BEAT


def test_anything_that_is_said_stands_for_a_heartbeat() -> None:
    server = ready_server()
    server.request("train", now=4.0)
    server.frames_to_send(now=4.0)
    server.handle_timer(now=BEAT)
    assert not server.has_frames()


@pytest.mark.parametrize(("wanted", "interval"), [(3.0, 1.0), (0.003, 0.1), (1e9, BEAT)])
def test_heartbeats_come_three_times_per_the_clients_patience_but_never_as_a_flood(
    wanted: float, interval: float
) -> None:
    assert ready_server(session_timeout=wanted).next_deadline() == interval


@pytest.mark.parametrize(("wanted", "interval"), [(2.0, 2.0), (0.001, 0.1), (60.0, BEAT)])
def test_a_client_beats_as_often_as_the_server_asks_but_never_as_a_flood(
    wanted: float, interval: float
) -> None:
    assert ready_client(beat=wanted).next_deadline() == interval


def test_a_peer_that_is_not_heard_at_all_is_away_after_the_session_timeout() -> None:
    server = ready_server()
    server.receive(Heartbeat(1), now=10.0)
    server.handle_timer(now=10.0 + SILENCE - 0.01)
    assert server.state is SessionState.READY
    server.handle_timer(now=10.0 + SILENCE)
    assert server.is_disconnected
    assert not server.is_attached  # its carrier cuts the call
    assert events(server) == [Disconnected("nothing arrived for 30.0 s (session_timeout)", AWAY)]


def test_clocks_that_expire_with_the_silence_do_not_run_on_while_it_is_away() -> None:
    server = ready_server(small_config(communication_timeout=SILENCE + 1.0))
    server.request("train", now=0.0)
    server.handle_timer(now=SILENCE + 1.0)
    assert events(server) == [Disconnected("nothing arrived for 31.0 s (session_timeout)", AWAY)]
    assert server.next_deadline() == SILENCE + 1.0 + AWAY


def test_a_live_peer_is_never_lost() -> None:
    assert kept_alive(ready_server(), 1000.0).error is None


# --- ends ---------------------------------------------------------------------------------------


def test_a_goodbye_ends_both_sides_without_an_error() -> None:
    client, server = ready_client(), ready_server()
    client.goodbye("job done", now=0.0)
    assert client.frames_to_send(now=0.0) == [Goodbye("job done")]
    server.receive(Goodbye("job done"), now=0.0)
    assert events(server) == [PeerLeft("job done")]
    assert server.is_closed
    assert client.is_leaving
    client.goodbye("again", now=0.0)
    assert not client.has_frames()
    exchange(client, server)
    assert client.is_closed
    assert client.error is server.error is None


def test_a_client_whose_call_is_lost_before_its_welcome_greets_again_for_the_connect_timeout() -> (
    None
):
    client = a_client()
    for now in (1.0, 2.0):
        client.detach(now=now)
        assert not client.is_closed
        assert not client.is_disconnected
        client.attach(now=now)
        assert the(Hello, client.frames_to_send(now=now)).resume == ""
    client.detach(now=client.config.timeouts.connect_timeout)
    assert isinstance(client.error, StreamAborted)


def test_a_server_does_not_wait_for_a_client_it_has_not_welcomed() -> None:
    session = a_server()
    session.detach(now=1.0)
    assert isinstance(session.error, StreamAborted)
    assert session.error.code is AbortCode.SESSION_LOST
    assert not session.has_frames()
    session.detach(now=2.0)
    assert len(events(session)) == 1


def test_frames_after_the_end_are_ignored() -> None:
    server = ready_server()
    server.receive(Abort(AbortCode.CANCELLED, "enough"), now=0.0)
    server.receive(a_hello(), now=0.0)
    assert [type(event) for event in events(server)] == [Failed]
    assert server.next_deadline() is None


def test_a_hello_keeps_its_token_out_of_an_event_in_a_log() -> None:
    frame: Frame = a_hello(token="secret")
    assert isinstance(frame, Hello)
    assert "secret" not in repr(HelloReceived(frame))
    assert small_config().timeouts.open_timeout == OPEN


@pytest.mark.parametrize("is_disconnected", [True, False], ids=["while away", "lost with its call"])
def test_a_goodbye_that_was_not_heard_is_said_again_over_the_next_call(
    is_disconnected: bool,
) -> None:
    client, server = pair()
    if is_disconnected:
        cut(client, server, now=1.0)
    server.goodbye("done", now=1.0)
    server.frames_to_send(now=1.0)  # nobody hears it
    if not is_disconnected:
        cut(client, server, now=2.0)
    join(client, server, now=3.0)
    assert events(client)[-1] == PeerLeft("done")
    assert client.is_closed
    assert server.is_closed
    assert server.error is None


def test_a_client_says_goodbye_again_over_the_next_call() -> None:
    client, server = pair()
    client.goodbye("done", now=1.0)
    client.frames_to_send(now=1.0)
    cut(client, server, now=2.0)
    join(client, server, now=3.0)
    assert events(server)[-1] == PeerLeft("done")
    assert client.is_closed
    assert client.error is None


def test_a_goodbye_that_nobody_answers_is_given_up_after_the_reconnect_timeout() -> None:
    _, server = pair()
    server.goodbye("done", now=0.0)
    kept_alive(server, 2 * SMALL.timeouts.reconnect_timeout)
    assert isinstance(server.error, GoodbyeUnanswered)
    assert "did not acknowledge our goodbye" in str(server.error)
    assert "raise reconnect_timeout" in str(server.error)


def test_a_goodbye_from_both_sides_at_once_answers_both() -> None:
    client, server = pair()
    client.goodbye("enough", now=0.0)
    server.goodbye("done", now=0.0)
    exchange(client, server)
    assert client.is_closed
    assert server.is_closed
    assert client.error is server.error is None
    assert not client.has_frames()
    assert not server.has_frames()


def test_goodbyes_that_cross_answer_each_other() -> None:
    client, server = pair()
    client.goodbye("enough", now=0.0)
    server.goodbye("done", now=0.0)
    said, heard = client.frames_to_send(now=0.0), server.frames_to_send(now=0.0)
    client.receive(heard[0], now=0.0)
    server.receive(said[0], now=0.0)
    assert client.is_closed
    assert server.is_closed
    assert not client.has_frames()
    assert not server.has_frames()


def test_a_heartbeat_that_is_due_after_the_silence_is_not_sent() -> None:
    session = ready_server()
    session.handle_timer(now=SILENCE - 2.0)
    session.frames_to_send(now=SILENCE - 2.0)  # the next heartbeat is due after the silence
    session.handle_timer(now=SILENCE + BEAT)
    assert session.is_disconnected
    assert not session.has_frames()
