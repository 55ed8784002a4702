"""The client's end: what a task sees, and how its session ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from streamlink.errors import ConnectFailed, StreamAborted
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.protocol.frames import Attempt
from tests.support.models import float_spec
from tests.support.peers import WAIT, Federation, config, until

SPEC = float_spec(10)


def test_a_link_that_lives_has_no_error(federation: Federation) -> None:
    link = federation.link("site-1")
    assert not link.wait(0.01)
    assert link.error is None


def test_two_requests_are_worked_on_at_once(federation: Federation) -> None:
    both = threading.Barrier(2, timeout=WAIT)

    def serve(assignment: Assignment) -> None:
        both.wait()
        assignment.reply(metadata={"topic": assignment.topic})

    federation.link("site-1", serve)
    exchanges = [
        federation.peer("site-1").request(topic, SPEC, attempt=Attempt("job", 1, 1))
        for topic in ("train", "validate")
    ]
    replies = [exchange.wait_reply(WAIT) for exchange in exchanges]
    assert [reply and reply.metadata["topic"] for reply in replies] == ["train", "validate"]


def test_leaving_tells_the_server_why(federation: Federation) -> None:
    begun: Future[Assignment] = Future()
    link = federation.link("site-1", begun.set_result)
    exchange = federation.peer("site-1").request("train", SPEC, attempt=Attempt())
    begun.result(WAIT)
    link.close("maintenance window")
    with pytest.raises(StreamAborted, match="left: maintenance window"):
        exchange.wait_reply(WAIT)


def test_a_task_for_which_there_is_no_thread_does_not_keep_its_client(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, start = federation.link("site-1", lambda assignment: None), threading.Thread.start

    def none_for_tasks(each: threading.Thread) -> None:
        if each.name.startswith("task-"):
            raise RuntimeError("can't start new thread")
        start(each)

    monkeypatch.setattr(threading.Thread, "start", none_for_tasks)
    reply = federation.peer("site-1").request("train", SPEC, attempt=Attempt()).wait_reply(WAIT)
    assert reply is not None
    assert "can't start new thread" in reply.error
    federation.server.close()
    waiting = threading.Thread(target=link.wait_finished, daemon=True)
    waiting.start()
    waiting.join(WAIT)
    assert not waiting.is_alive()


def test_nobody_there_is_an_error_and_leaves_nothing_open() -> None:
    before = threading.active_count()
    with pytest.raises(ConnectFailed):
        ClientLink(
            "127.0.0.1:9", name="x", serve=lambda _: None, config=config(connect_timeout=0.3)
        ).start()
    assert threading.active_count() <= before + 1  # gRPC's own poller may linger


@pytest.mark.parametrize("is_late", [False, True], ids=["instead of it", "right after it"])
@pytest.mark.parametrize("thread", ["carry-Session", "session-server", "keep-session"])
def test_a_client_interrupted_while_it_starts_a_thread_leaves_no_session(
    federation: Federation, thread: str, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, connects = threading.Thread.start, threading.current_thread()

    def interrupted(each: threading.Thread) -> None:
        is_it = each.name.startswith(thread) and threading.current_thread() is connects
        if is_late or not is_it:
            start(each)
        if is_it:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):  # and nothing that closing it met
        federation.link("site-1")
    until(lambda: not federation.server.peers())  # one that is lost would be waited for longer
