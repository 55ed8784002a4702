"""A session: greeting, heartbeats, requests and replies, silence."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig
from streamlink.errors import (
    CommunicationTimeout,
    LocalProtocolError,
    PeerBusy,
    RemoteProtocolError,
)
from streamlink.protocol.events import (
    ReplyReceived,
    RequestCancelled,
    RequestFailed,
    RequestReceived,
)
from streamlink.protocol.frames import (
    Cancel,
    Goodbye,
    Heartbeat,
    Reply,
    Request,
    TaskProgress,
    Welcome,
)
from streamlink.protocol.requests import MAX_KEPT
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.session_lifecycle import MAX_EVENTS
from tests.support.machines import COMMUNICATION, SMALL, KiB, a_hello, events, the
from tests.support.sessions import (
    BEAT,
    SILENCE,
    a_server,
    cut,
    exchange,
    join,
    kept_alive,
    pair,
    ready_client,
    ready_server,
)

# --- requests -----------------------------------------------------------------------------------


def test_a_request_is_asked_and_answered() -> None:
    client, server = ready_client(), ready_server()
    number = server.request("train", sends=7, returns=8, metadata={"round": "1"}, now=0.0)
    exchange(server, client)
    request = the(RequestReceived, events(client)).request
    assert (request.request_id, request.topic, request.sends) == (number, "train", 7)
    client.reply(number, metadata={"samples": "10"})
    exchange(client, server)
    assert the(ReplyReceived, events(server)).reply == Reply(number, metadata={"samples": "10"})


def test_progress_of_the_work_travels_to_the_side_that_asked() -> None:
    client = ready_client()
    client.receive(Request(3, "train"), now=0.0)
    client.report_progress(3, 17)
    assert client.frames_to_send(now=0.0) == [TaskProgress(3, 17)]
    client.report_progress(3, 17)
    assert not client.has_frames()  # it has not moved


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
    most = client.config.limits.max_open_requests
    for number in range(1, most + 2):
        client.receive(Request(number, "train"), now=0.0)
    assert isinstance(client.error, RemoteProtocolError)
    assert len(events(client)) == most + 1


def test_a_flood_of_events_that_nobody_listens_to_is_bounded() -> None:
    client = ready_client()
    for number in range(1, MAX_EVENTS + 2):
        client.receive(Cancel(number, "not wanted"), now=0.0)
    assert isinstance(client.error, RemoteProtocolError)
    assert "the last a RequestCancelled" in str(client.error)
    assert len(events(client)) == MAX_EVENTS + 1


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


def test_a_request_lost_with_its_call_is_asked_again() -> None:
    client, server = pair()
    number = server.request("train", now=0.0)
    server.frames_to_send(now=0.0)  # on its way when the call breaks
    cut(client, server, now=1.0)
    join(client, server, now=2.0)
    assert the(RequestReceived, events(client)).request.request_id == number


def test_a_request_that_arrived_is_not_done_twice() -> None:
    client, server = pair()
    server.request("train", now=0.0)
    exchange(client, server)
    cut(client, server, now=1.0)
    join(client, server, now=2.0)
    assert len([event for event in events(client) if isinstance(event, RequestReceived)]) == 1


def test_an_answer_lost_with_its_call_is_given_again() -> None:
    client, server = pair()
    number = server.request("train", now=0.0)
    exchange(client, server)
    client.reply(number, metadata={"n": "1"})
    client.frames_to_send(now=1.0)  # lost
    cut(client, server, now=1.0)
    join(client, server, now=2.0)
    assert the(ReplyReceived, events(server)).reply == Reply(number, metadata={"n": "1"})


def few(most: int) -> LinkConfig:
    limits = SMALL.limits.model_copy(update={"max_open_requests": most})
    return SMALL.model_copy(update={"limits": limits})


def test_an_answer_too_old_to_be_kept_is_named() -> None:
    client, server = pair(few(MAX_KEPT + 1))
    numbers = []
    for _ in range(MAX_KEPT + 1):
        numbers.append(server.request("train", now=0.0))
        exchange(client, server)
        client.reply(numbers[-1])
        client.frames_to_send(now=1.0)
    cut(client, server, now=1.0)
    join(client, server, now=2.0)
    answers = [event.reply for event in events(server) if isinstance(event, ReplyReceived)]
    assert sorted(reply.request_id for reply in answers) == numbers
    assert [reply.request_id for reply in answers if "is not kept" in reply.error] == numbers[:1]


def test_what_is_asked_and_given_up_while_away_is_told_at_the_return() -> None:
    client, server = pair()
    kept, lost = (server.request("train", now=0.0) for _ in range(2))
    exchange(client, server)
    cut(client, server, now=1.0)
    server.cancel(lost, "over")
    later = server.request("evaluate", now=2.0)
    assert not server.has_frames()
    join(client, server, now=3.0)
    told = events(client)
    asked = [event.request.request_id for event in told if isinstance(event, RequestReceived)]
    assert asked == [kept, lost, later]
    assert the(RequestCancelled, told) == RequestCancelled(lost, "over")


def test_a_peer_that_answers_nothing_is_asked_no_more_than_it_takes_and_its_session_lives() -> None:
    client, server = pair(few(3))
    for _ in range(3):
        server.cancel(server.request("train", now=0.0), "not needed")
    exchange(client, server)
    with pytest.raises(PeerBusy, match=r"has not answered 3 requests.*max_open_requests") as caught:
        server.request("train", now=1.0)
    assert caught.value.unanswered == 3
    client.reply(2)
    exchange(client, server)
    server.request("train", now=2.0)
    exchange(client, server)
    assert client.error is None


def test_what_was_called_off_keeps_its_place_over_a_break_until_it_is_answered() -> None:
    client, server = pair(few(2))
    timed_out, cancelled = (server.request("train", now=0.0) for _ in range(2))
    exchange(client, server)
    server.cancel(cancelled, "not needed")
    kept_alive(server, COMMUNICATION)  # the other one has timed out
    cut(client, server, now=COMMUNICATION + 1.0)
    join(client, server, now=COMMUNICATION + 2.0)
    assert {each.request_id for each in events(client) if isinstance(each, RequestCancelled)} == {
        timed_out, cancelled,
    }  # fmt: skip
    had_place = server.has_place
    client.reply(cancelled)
    exchange(client, server, COMMUNICATION + 3.0)
    assert (had_place, server.has_place) == (False, True)


@pytest.mark.parametrize("is_lost", ["the request", "the reply"])
def test_a_place_is_free_again_though_what_was_called_off_was_lost(is_lost: str) -> None:
    client, server = pair(few(1))
    number = server.request("train", now=0.0)
    if is_lost == "the request":
        server.frames_to_send(now=0.0)
    else:
        exchange(client, server)
        client.reply(number)
        client.frames_to_send(now=1.0)
    cut(client, server, now=1.0)
    server.cancel(number, "not needed")
    had_place = server.has_place
    join(client, server, now=2.0)
    assert (had_place, server.has_place) == (False, True)
    assert not [each for each in events(server) if isinstance(each, ReplyReceived)]


def test_only_the_latest_word_of_the_work_is_said() -> None:
    client, server = pair()
    number = server.request("train", now=0.0)
    exchange(client, server)
    cut(client, server, now=1.0)
    for counter in range(1, 1000):
        client.report_progress(number, counter)
    client.attach(now=2.0)
    client.frames_to_send(now=2.0)
    most = client.config.limits.max_open_requests
    client.receive(Welcome(1, "id", "epoch", 4 * KiB, BEAT, max_open_requests=most), now=2.0)
    assert client.frames_to_send(now=2.0) == [TaskProgress(number, 999)]


def test_a_lost_call_is_not_the_works_fault() -> None:
    client, server = pair()
    number = server.request("train", now=0.0)
    cut(client, server, now=COMMUNICATION - 1.0)
    server.handle_timer(now=COMMUNICATION + 20.0)
    join(client, server, now=COMMUNICATION + 20.0)
    assert not the_failures(server)
    for beat in range(1, 7):  # in the first call it was never heard
        server.receive(Heartbeat(beat), now=COMMUNICATION + 20.0 + beat * 9.9)
    server.handle_timer(now=2 * COMMUNICATION + 20.0 - 0.01)
    assert not the_failures(server)
    server.handle_timer(now=2 * COMMUNICATION + 20.0)
    assert [failed.request_id for failed in the_failures(server)] == [number]


def test_work_that_hangs_on_a_link_that_flaps_is_noticed_all_the_same() -> None:
    client, server = pair()
    server.request("train", now=0.0)
    now, here = 0.0, 0.0
    while not (failed := the_failures(server)):
        exchange(client, server, now)
        now, here = now + 5.0, here + 5.0
        for end in (client, server):
            end.receive(Heartbeat(int(now)), now=now)
        server.handle_timer(now=now)
        assert server.error is None
        cut(client, server, now=now)
        now += 7.0
        join(client, server, now=now)
    assert len(failed) == 1
    assert here == COMMUNICATION


def test_the_time_a_dead_call_was_taken_for_alive_is_not_the_works() -> None:
    _, server = pair()
    server.request("train", now=0.0)
    server.receive(Heartbeat(1), now=7.0)
    server.handle_timer(now=7.0 + SILENCE)
    assert server.is_disconnected
    server.attach(now=50.0)
    server.receive(a_hello(resume="id"), now=50.0)
    server.receive(Heartbeat(2), now=75.0)
    server.receive(Heartbeat(3), now=100.0)
    server.handle_timer(now=50.0 + COMMUNICATION - 7.0 - 0.01)
    assert not the_failures(server)
    server.handle_timer(now=50.0 + COMMUNICATION - 7.0)
    assert the_failures(server)


def test_a_request_complete_while_away_is_watched_from_the_return() -> None:
    client, server = pair()
    server.request("train", sends=7, now=0.0)
    cut(client, server, now=1.0)
    server.request_complete(1, now=2.0)
    join(client, server, now=3.0)
    kept_alive(server, 3.0 + COMMUNICATION)
    assert [failed.request_id for failed in the_failures(server)] == [1]


def test_what_was_on_its_way_when_we_said_goodbye_is_not_done() -> None:
    client, server = pair()
    open_ = server.request("train", now=0.0)
    exchange(server, client)
    events(client)
    client.request("ask", now=0.0)
    client.report_progress(open_, 1)
    client.reply(open_)
    server.goodbye("done", now=0.0)
    for frame in client.frames_to_send(now=0.0):
        server.receive(frame, now=0.0)
    server.reply(7)
    assert not server.has_events
    assert server.frames_to_send(now=0.0) == [Goodbye("done")]
    with pytest.raises(LocalProtocolError, match="request"):
        server.request("train", now=0.0)


def test_a_request_that_is_worked_on_has_no_clock_any_more_after_a_goodbye() -> None:
    _, server = pair()
    server.request("train", now=0.0)
    assert server.next_deadline() is not None
    server.goodbye("done", now=0.0)
    assert not events(kept_alive(server, SMALL.timeouts.reconnect_timeout))


def test_giving_up_what_is_answered_says_nothing() -> None:
    client, server = pair()
    number = server.request("train", now=0.0)
    exchange(client, server)
    client.reply(number)
    exchange(client, server)
    server.cancel(number, "over")
    assert not server.has_frames()


def test_a_peer_that_asks_again_and_again_and_never_listens_is_cut_short() -> None:
    client, server = pair()
    number = server.request("train", now=0.0)
    exchange(client, server)
    client.reply(number)
    for _ in range(MAX_EVENTS + 1):
        client.receive(Request(number, "train"), now=1.0)
    assert isinstance(client.error, RemoteProtocolError)
    assert "reads no replies" in str(client.error)
