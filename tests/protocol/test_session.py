"""A session: greeting, heartbeats, requests and replies, silence."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    CommunicationTimeout,
    LocalProtocolError,
    OpenTimeout,
    RemoteProtocolError,
    StreamAborted,
)
from streamlink.protocol.events import (
    Answered,
    Asked,
    Failed,
    Greeted,
    Left,
    Ready,
    RequestFailed,
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
from streamlink.protocol.session import MOST_EVENTS, SessionDied, SessionMachine, SessionState
from tests.support.machines import SMALL, KiB, a_hello, events, small_config, the

SILENCE, BEAT, COMMUNICATION, OPEN = 30.0, 5.0, 60.0, 10.0


def a_server(config: LinkConfig = SMALL) -> SessionMachine:
    server = SessionMachine(config, peer="ipv4:10.0.0.7")
    server.attach(now=0.0)
    return server


def a_client(config: LinkConfig = SMALL, **changes: object) -> SessionMachine:
    client = SessionMachine(config, peer="server", hello=a_hello(**changes))
    client.attach(now=0.0)
    return client


def ready_server(config: LinkConfig = SMALL, **changes: object) -> SessionMachine:
    server = a_server(config)
    server.receive(a_hello(**changes), now=0.0)
    server.welcome("id", "epoch", now=0.0)
    server.frames_to_send(now=0.0)
    events(server)
    return server


def ready_client(config: LinkConfig = SMALL, *, beat: float = BEAT) -> SessionMachine:
    client = a_client(config)
    client.frames_to_send(now=0.0)
    client.receive(Welcome(1, "id", "epoch", 4 * KiB, beat), now=0.0)
    events(client)
    return client


def exchange(client: SessionMachine, server: SessionMachine, now: float = 0.0) -> None:
    for frame in client.frames_to_send(now=now):
        server.receive(frame, now=now)
    for frame in server.frames_to_send(now=now):
        client.receive(frame, now=now)


def kept_alive(session: SessionMachine, until: float) -> SessionMachine:
    """Let the peer's heartbeats come in, and our clocks run, up to ``until``."""
    beat, now = 0, 0.0
    while now < until:
        beat, now = beat + 1, min(now + 4.0, until)
        session.receive(Heartbeat(beat), now=now)
        session.handle_timer(now=now)
    return session


# --- greeting -----------------------------------------------------------------------------


def test_client_and_server_greet_and_agree() -> None:
    client, server = a_client(), a_server()
    exchange(client, server)
    assert events(server) == [Greeted(a_hello())]
    assert server.peer == "site-1"
    answer = server.welcome("id", "epoch", now=0.0)
    exchange(client, server)
    assert events(client) == [Ready(answer)]
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
    assert server.peer == "ipv4:10.0.0.7"


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
    assert not server.has_frames


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


def test_a_peer_that_is_not_heard_at_all_is_named_after_the_session_timeout() -> None:
    server = ready_server()
    server.receive(Heartbeat(1), now=10.0)
    server.handle_timer(now=10.0 + SILENCE - 0.01)
    assert not server.is_closed
    server.handle_timer(now=10.0 + SILENCE)
    assert isinstance(server.error, SessionDied)
    assert server.error.code is AbortCode.SESSION_LOST
    assert "site-1 was not heard from for 30.0 s" in str(server.error)


def test_a_live_peer_is_never_lost() -> None:
    assert kept_alive(ready_server(), 1000.0).error is None


# --- ends ---------------------------------------------------------------------------------------


def test_a_goodbye_ends_both_sides_without_an_error() -> None:
    client, server = ready_client(), ready_server()
    client.goodbye("job done")
    assert client.frames_to_send(now=0.0) == [Goodbye("job done")]
    server.receive(Goodbye("job done"), now=0.0)
    assert events(server) == [Left("job done")]
    assert client.is_closed
    assert server.is_closed
    assert client.error is server.error is None
    client.goodbye("again")
    assert not client.has_frames


def test_a_lost_connection_ends_the_session() -> None:
    server = ready_server()
    server.detach(now=1.0)
    assert isinstance(server.error, StreamAborted)
    assert server.error.code is AbortCode.SESSION_LOST
    assert not server.has_frames
    server.detach(now=2.0)
    assert len(events(server)) == 1


def test_frames_after_the_end_are_ignored() -> None:
    server = ready_server()
    server.receive(Abort(AbortCode.CANCELLED, "enough"), now=0.0)
    server.receive(a_hello(), now=0.0)
    assert [type(event) for event in events(server)] == [Failed]
    assert server.next_deadline() is None


# --- requests -----------------------------------------------------------------------------------


def test_a_request_is_asked_and_answered() -> None:
    client, server = ready_client(), ready_server()
    number = server.request("train", sends=7, returns=8, metadata={"round": "1"}, now=0.0)
    exchange(server, client)
    request = the(Asked, events(client)).request
    assert (request.request_id, request.topic, request.sends) == (number, "train", 7)
    client.reply(number, metadata={"samples": "10"})
    exchange(client, server)
    assert the(Answered, events(server)).reply == Reply(number, metadata={"samples": "10"})


def test_progress_of_the_work_travels_to_the_side_that_asked() -> None:
    client = ready_client()
    client.report_progress(3, 17)
    assert client.frames_to_send(now=0.0) == [TaskProgress(3, 17)]


def test_a_reply_nobody_waits_for_is_dropped() -> None:
    server = ready_server()
    number = server.request("train", now=0.0)
    server.cancel(number, "over")
    server.receive(Reply(number), now=1.0)
    server.receive(Reply(99), now=1.0)
    assert not server.has_events


def test_asking_or_answering_outside_a_session_is_our_own_fault() -> None:
    server = a_server()
    with pytest.raises(LocalProtocolError, match="request"):
        server.request("train", now=0.0)
    with pytest.raises(LocalProtocolError, match="reply"):
        server.reply(1)
    with pytest.raises(LocalProtocolError, match="progress"):
        server.report_progress(1, 1)


def test_a_flood_of_requests_is_bounded() -> None:
    client = ready_client()
    for number in range(MOST_EVENTS + 1):
        client.receive(Request(number, "train"), now=0.0)
    assert isinstance(client.error, RemoteProtocolError)
    assert len(events(client)) == MOST_EVENTS + 1


# --- processing -----------------------------------------------------------------------------------


def test_a_request_without_progress_fails_in_its_processing_stage_and_the_session_lives() -> None:
    server = ready_server()
    number = server.request("train", now=0.0)
    kept_alive(server, COMMUNICATION)
    failed = the(RequestFailed, events(server))
    assert isinstance(failed.error, CommunicationTimeout)
    assert (failed.request_id, failed.error.stage) == (number, "processing")
    assert failed.error.stream == f"request {number}"
    assert server.error is None


def test_processing_starts_only_when_the_model_that_goes_with_it_is_complete() -> None:
    server = ready_server()
    number = server.request("train", sends=7, now=0.0)
    kept_alive(server, 500.0)
    server.request_complete(number, now=500.0)
    assert not server.has_events
    server.handle_timer(now=500.0 + COMMUNICATION - 0.01)
    assert not the_failures(server)


def the_failures(session: SessionMachine) -> list[RequestFailed]:
    return [event for event in events(session) if isinstance(event, RequestFailed)]


def test_progress_that_grows_keeps_a_request_alive_for_any_multiple_of_the_timeout() -> None:
    server = ready_server()
    number = server.request("train", now=0.0)
    for step in range(1, 100):
        server.receive(TaskProgress(number, step), now=step * 29.0)
        server.handle_timer(now=step * 29.0)
    assert not server.has_events
    assert server.error is None


def test_progress_of_another_request_or_that_does_not_grow_excuses_nothing() -> None:
    server = ready_server()
    number, other = server.request("train", now=0.0), server.request("evaluate", now=0.0)
    server.receive(TaskProgress(number, 1), now=1.0)
    for now in (20.0, 40.0, 60.0):
        server.receive(TaskProgress(number, 1), now=now)
        server.receive(TaskProgress(other, int(now)), now=now)
        server.receive(TaskProgress(12345, int(now)), now=now)
    server.handle_timer(now=1.0 + COMMUNICATION)
    assert [failed.request_id for failed in the_failures(server)] == [number]


def test_processing_ends_with_the_first_byte_of_the_reply() -> None:
    server = ready_server()
    number = server.request("train", now=0.0)
    server.reply_began(number)
    server.receive(TaskProgress(number, 1), now=1.0)
    assert not the_failures(kept_alive(server, 500.0))


def test_a_reply_that_began_while_the_request_was_still_being_sent_is_not_processed_again() -> None:
    server = ready_server()
    number = server.request("train", sends=7, returns=8, now=0.0)
    server.reply_began(number)
    server.request_complete(number, now=1.0)
    assert not the_failures(kept_alive(server, 500.0))


def test_what_is_said_of_a_forgotten_request_starts_no_clock() -> None:
    server = ready_server()
    number = server.request("train", sends=7, now=0.0)
    server.cancel(number, "over")
    server.request_complete(number, now=1.0)
    server.reply_began(number)
    assert not the_failures(kept_alive(server, 500.0))


def test_a_hello_keeps_its_token_out_of_an_event_in_a_log() -> None:
    frame: Frame = a_hello(token="secret")
    assert isinstance(frame, Hello)
    assert "secret" not in repr(Greeted(frame))
    assert small_config().timeouts.open_timeout == OPEN
