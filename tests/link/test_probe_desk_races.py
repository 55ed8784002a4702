"""The desk of a server when sessions, requests and threads come and go at bad moments."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode
from streamlink.link.probe_desk import ProbeDesk
from streamlink.link.probe_wire import BEGIN
from streamlink.protocol.frames import Attempt, Request
from streamlink.transport.session import Session
from tests.support.peers import WAIT, until


class Probing:
    """A session that probes, as far as the desk sees it."""

    is_probe, peer_name, session_id = True, "prober", "1"

    def __init__(self) -> None:
        self.config = LinkConfig()
        self.closed = threading.Event()
        self.aborted: list[str] = []
        self.replies: list[str] = []

    def abort(self, code: AbortCode, reason: str) -> None:
        self.aborted.append(reason)

    def reply(self, request: Request, *, error: str = "", metadata: object = None) -> None:
        self.replies.append(error)


@pytest.fixture
def desk() -> Iterator[ProbeDesk]:
    cancel = CancelToken()
    config = LinkConfig.model_validate({"limits": {"probes": "always"}})
    yield ProbeDesk(config, running_time, on_request=_nobody, cancel=cancel)
    cancel.cancel("the test is over")


def _nobody(session: Session, request: Request) -> None:
    pytest.fail("every session here is a probe")


def gives_up(desk: ProbeDesk) -> bool:
    """Whether the desk stops to wait for a probe soon."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(desk.wait_done, 0.01)
        try:
            return not waiting.result(5)
        except TimeoutError:
            return False
        finally:
            desk.cancel.cancel("enough")


def begin(desk: ProbeDesk, session: Probing) -> None:
    desk.on_request(cast("Session", session), Request(1, BEGIN, Attempt()))


def is_watched() -> bool:
    return any(each.name == "probe" for each in threading.enumerate())


def test_a_request_that_comes_after_the_end_of_its_session_begins_no_probe(
    desk: ProbeDesk,
) -> None:
    session = Probing()
    desk.on_session(cast("Session", session))
    session.closed.set()
    until(lambda: not is_watched())
    begin(desk, session)
    assert not desk.has_probed
    assert gives_up(desk)


def test_a_request_that_comes_before_the_notice_of_its_session_begins_the_probe(
    desk: ProbeDesk,
) -> None:
    session = Probing()
    begin(desk, session)
    desk.on_session(cast("Session", session))
    assert session.replies == [""]
    session.closed.set()
    assert desk.wait_done(WAIT)
    assert desk.has_probed


def test_a_probe_for_which_there_is_no_thread_is_refused_and_forgotten(
    desk: ProbeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    session = Probing()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", failing)
        desk.on_session(cast("Session", session))
    assert session.aborted == ["this server has no thread for a probe: can't start new thread"]
    begin(desk, session)
    assert not desk.has_probed
    assert gives_up(desk)
