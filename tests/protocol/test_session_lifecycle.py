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
from streamlink.protocol.events import (
    Disconnected,
    Failed,
    HelloReceived,
    PeerLeft,
    Reconnected,
    Welcomed,
)
from streamlink.protocol.frames import (
    Abort,
    Ack,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Reply,
    Request,
    TaskProgress,
    Welcome,
)
from streamlink.protocol.liveness import GoodbyeUnanswered, SessionLost
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState
from tests.support.machines import (
    OPEN,
    SMALL,
    KiB,
    a_hello,
    events,
    small_config,
    the,
)
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


def test_a_lost_call_is_made_good_by_another() -> None:
    client, server = pair()
    cut(client, server, now=1.0)
    assert client.is_disconnected
    assert server.is_disconnected
    join(client, server, now=3.5)
    assert client.state is server.state is SessionState.READY
    assert events(client) == [Disconnected("the connection ended", AWAY), Reconnected(2.5)]
    assert events(server) == [Disconnected("the connection ended", AWAY * 4 / 3), Reconnected(2.5)]


def test_a_session_that_is_away_is_silent_and_ends_after_the_reconnect_timeout() -> None:
    client = ready_client()
    client.detach(now=1.0)
    assert client.next_deadline() == 1.0 + AWAY
    client.handle_timer(now=1.0 + AWAY)
    assert isinstance(client.error, SessionLost)
    assert client.error.code is AbortCode.SESSION_LOST
    assert "server did not come back for 30.0 s" in str(client.error)
    assert "raise reconnect_timeout" in str(client.error)
    assert not client.has_frames()


@pytest.mark.parametrize(
    ("asked", "longer"),
    [(12.0, 0.0), (25.0, 5.0), (30.0, 10.0), (1e9, 10.0), (float("nan"), 10.0), (-5.0, 0.0)],
)
def test_a_server_leaves_a_client_that_sees_a_break_late_time_for_one_try(
    asked: float, longer: float
) -> None:
    server = ready_server(session_timeout=asked)
    server.detach(now=1.0)
    assert server.next_deadline() == 1.0 + AWAY + longer


def test_a_server_that_was_told_nothing_does_not_wait_longer() -> None:
    server = ready_server()
    server.handle_timer(now=SILENCE)
    assert server.is_disconnected
    assert server.next_deadline() == SILENCE + AWAY


def test_calls_that_bring_no_greeting_do_not_start_the_clock_again() -> None:
    client, _ = pair()
    client.detach(now=0.0)
    for now in (1.0, 10.0, 20.0):
        client.attach(now=now)
        client.detach(now=now + 1.0)
    client.handle_timer(now=AWAY)
    assert isinstance(client.error, SessionLost)


def test_a_new_call_that_brings_nothing_leaves_time_for_others() -> None:
    client, _ = pair()
    client.detach(now=0.0)
    client.attach(now=1.0)
    client.handle_timer(now=1.0 + AWAY / 3)
    assert client.is_disconnected
    assert not client.is_attached


def test_a_peer_that_only_greets_is_lost_in_the_end() -> None:
    client, server = pair()
    now = 0.0
    while not server.is_closed:
        now += SILENCE
        server.handle_timer(now=now)
        if server.is_disconnected:
            join(client, server, now)
    assert now == 2 * SILENCE
    assert isinstance(server.error, SessionLost)


def said_at_each_return(*frames: Frame) -> SessionMachine:
    """Return a client whose peer greets, says ``frames`` and is silent until its call breaks."""
    client = ready_client()
    request = client.request("train", now=0.0)
    client.receive(TaskProgress(request, 5), now=0.0)
    for now in range(1, int(AWAY) + 2, 5):
        client.detach(now=now)
        client.attach(now=now)
        for frame in (Welcome(1, "id", "epoch", 4 * KiB, BEAT), *frames):
            client.receive(frame, now=now)
    client.detach(now=AWAY + 2.0)
    return client


@pytest.mark.parametrize("frames", [[], [TaskProgress(1, 5)], [TaskProgress(9, 7)], [Reply(9)]])
def test_who_says_nothing_new_is_silent_from_the_greeting_on(frames: list[Frame]) -> None:
    assert isinstance(said_at_each_return(*frames).error, SessionLost)


@pytest.mark.parametrize("news", [TaskProgress(1, 6), Request(1, "stop"), Heartbeat(7)])
def test_who_says_anything_new_is_not_lost(news: Frame) -> None:
    client = ready_client()
    client.request("train", now=0.0)
    client.detach(now=1.0)
    client.attach(now=2.0)
    client.receive(Welcome(1, "id", "epoch", 4 * KiB, BEAT), now=2.0)
    client.receive(news, now=25.0)
    client.detach(now=40.0)
    assert client.next_deadline() == 40.0 + AWAY


def test_progress_that_repeats_does_not_keep_a_call_alive() -> None:
    server = ready_server()
    number = server.request("train", now=0.0)
    for now in range(0, int(SILENCE), 5):
        server.receive(TaskProgress(number, 5), now=now)
    server.handle_timer(now=SILENCE)
    assert server.is_disconnected


def test_what_was_missed_is_forgotten_once_the_peer_speaks() -> None:
    client, server = pair()
    for start in (0.0, 100.0, 200.0):
        cut(client, server, now=start)
        join(client, server, now=start + AWAY - 1.0)
        kept_alive(server, start + 100.0)
        kept_alive(client, start + 100.0)
    assert server.error is client.error is None


def test_streams_that_move_are_news_of_a_peer_that_has_no_time_for_beats() -> None:
    client, server = pair()
    for now in range(0, 20 * int(AWAY), int(AWAY) // 2):
        cut(client, server, now=now + 1.0)
        for each in (client, server):
            each.note_stream_progress(now=now + 1.0)
        join(client, server, now=float(now + AWAY // 2))
        for each in (client, server):
            each.note_stream_progress(now=float(now + AWAY // 2))
    assert server.error is client.error is None


def test_streams_that_moved_give_a_lost_session_its_whole_time_again() -> None:
    client, server = pair()
    cut(client, server, now=1.0)
    join(client, server, now=AWAY - 1.0)  # nothing but greetings: it was away since the first cut
    cut(client, now=AWAY)
    client.note_stream_progress(now=AWAY)
    client.handle_timer(now=AWAY + 2.0)
    assert client.is_disconnected
    client.handle_timer(now=2 * AWAY)
    assert isinstance(client.error, SessionLost)


def test_a_server_replaces_a_call_it_still_thinks_alive() -> None:
    client, server = pair()
    client.detach(now=1.0)
    server.detach(now=2.0)  # as its pump does when another call comes
    join(client, server, now=2.0)
    assert server.state is SessionState.READY


@pytest.mark.parametrize("changes", [{"name": "site-2"}, {"instance": "b"}, {"resume": "other"}])
def test_only_the_very_client_may_go_on(changes: dict[str, str]) -> None:
    _, server = pair()
    hello = a_hello(**{"resume": "id", **changes})
    assert isinstance(hello, Hello)
    assert not server.can_resume(hello)
    server.detach(now=1.0)
    server.attach(now=1.0)
    server.receive(hello, now=1.0)
    assert isinstance(server.error, RemoteProtocolError)


def test_a_client_refused_at_its_return_ends_with_the_reason() -> None:
    client, _ = pair()
    client.detach(now=1.0)
    client.attach(now=1.0)
    client.receive(Abort(AbortCode.GOODBYE, "done"), now=1.0)
    assert isinstance(client.error, StreamAborted)
    assert client.error.code is AbortCode.GOODBYE


def test_another_session_is_not_taken_for_the_one_that_was_lost() -> None:
    client, _ = pair()
    client.detach(now=1.0)
    client.attach(now=1.0)
    client.receive(Welcome(1, "another", "epoch", 4 * KiB, BEAT), now=1.0)
    assert isinstance(client.error, RemoteProtocolError)


@pytest.mark.parametrize("end", ["goodbye", "abort"])
def test_a_session_may_be_ended_while_it_is_away(end: str) -> None:
    client, server = pair()
    server.detach(now=1.0)
    if end == "goodbye":
        client.detach(now=1.0)
        client.goodbye("done", now=1.0)
    else:
        server.abort(AbortCode.CANCELLED, "enough")
    ended = client if end == "goodbye" else server
    assert ended.is_closed
    assert ended.next_deadline() is None


def test_a_session_that_failed_while_it_was_away_says_so_to_a_call_that_comes_late() -> None:
    _, server = pair()
    server.detach(now=1.0)
    server.abort(AbortCode.CANCELLED, "enough")
    server.attach(now=2.0)
    assert server.frames_to_send(now=2.0) == [Abort(AbortCode.CANCELLED, "enough")]


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
