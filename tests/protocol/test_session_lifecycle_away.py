"""A session whose call is lost: who may resume it, for how long, and what counts as news."""

from __future__ import annotations

import pytest

from streamlink.errors import AbortCode, RemoteProtocolError, StreamAborted
from streamlink.protocol.events import Disconnected, Reconnected
from streamlink.protocol.frames import (
    Abort,
    Frame,
    Heartbeat,
    Hello,
    Reply,
    Request,
    TaskProgress,
    Welcome,
)
from streamlink.protocol.liveness import SessionLost
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState
from tests.support.machines import KiB, a_hello, events
from tests.support.sessions import (
    AWAY,
    BEAT,
    SILENCE,
    cut,
    join,
    kept_alive,
    pair,
    ready_client,
    ready_server,
)


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
    assert str(client.error).startswith("server did not come back for 30.0 s; if that is normal")
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
