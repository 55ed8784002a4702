"""Two sessions joined in memory: requests, replies, goodbyes, and what dies with them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    CommunicationTimeout,
    LocalProtocolError,
    StreamAborted,
    StreamlinkError,
)
from streamlink.protocol import frames as f
from streamlink.protocol.events import HelloReceived, Welcomed
from streamlink.protocol.frames import Attempt, Hello, Request
from streamlink.protocol.liveness import SessionLost
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.session import SessionMachine
from streamlink.transport.pump import Pump
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump
from streamlink.transport.session import PendingReply, Session
from streamlink.transport.ticker import Ticker
from tests.support.joined_pumps import JoinedPumps
from tests.support.peers import SMALL, WAIT, config
from tests.support.virtual_clock import VirtualClock

HELLO = Hello(1, 1, "site-1", "a", 4096, 64 * 1024, 30.0)


@dataclass
class Pair:
    """A server's and a client's session; all they wait for goes by ``clock``."""

    config: LinkConfig
    clock: VirtualClock
    asked: Future[Request] = field(default_factory=Future)
    closed: list[Session] = field(default_factory=list)

    def __post_init__(self) -> None:
        ours: Pump[SessionMachine] = Pump(
            SessionMachine(self.config, peer_name="somebody"), clock=self.clock
        )
        theirs: Pump[SessionMachine] = Pump(
            SessionMachine(self.config, peer_name="server", hello=HELLO), clock=self.clock
        )
        self.ticker = Ticker(clock=self.clock)
        self.carrier = JoinedPumps(ours, theirs, is_session=True)
        self.carrier.join()
        assert isinstance(ours.poll(WAIT), HelloReceived)
        with ours.locked() as (machine, now):
            machine.welcome("id", "epoch", now=now)
        assert isinstance(theirs.poll(WAIT), Welcomed)
        self.server = Session(
            ours, session_id="id", peer_name="site-1", config=SMALL, on_closed=self.closed.append
        )
        self.client = Session(
            theirs,
            session_id="id",
            peer_name="server",
            config=SMALL,
            on_request=lambda _, request: self.asked.set_result(request),
        )
        for session, pump in ((self.server, ours), (self.client, theirs)):
            session.start()
            self.ticker.add(pump)

    def close(self) -> None:
        for session in (self.server, self.client):
            session.close("the test is over")
        self.carrier.close()
        self.ticker.close()


def committed(stream_id: int) -> ReceivePump:
    """Return an empty model's receiving end, whole and committed."""
    machine = ReceiveStream(
        SMALL, stream_id=stream_id, peer_name="site-1", name=f"model {stream_id}"
    )
    pump = ReceivePump(machine, clock=running_time)
    call = pump.attach(lambda: None)
    opened = f.Open(stream_id, Attempt("job", 0, 1), 0, b"spec", 0, 4096)
    pump.incoming([opened], call)
    pump.accept(wants_spec=False)
    pump.incoming([f.Finish(0, "digest")], call)
    pump.commit("digest")
    return pump


@pytest.fixture
def pair() -> Iterator[Pair]:
    with (clock := VirtualClock()).running():
        pair = Pair(config(communication_timeout=60.0), clock)
        yield pair
        pair.close()


def stream() -> SendPump:
    return SendPump(
        SendStream(SMALL, stream_id=7, total_bytes=5, peer_name="site-1", name="the model"),
        clock=running_time,
    )


def test_a_request_is_answered(pair: Pair) -> None:
    pending = pair.server.request("train", attempt=Attempt("job", 2, 1), metadata={"lr": "0.1"})
    request = pair.asked.result(WAIT)
    assert (request.topic, request.attempt) == ("train", Attempt("job", 2, 1))
    assert request.metadata == {"lr": "0.1"}
    pair.client.reply(request, metadata={"loss": "1"})
    assert pending.result(WAIT).metadata == {"loss": "1"}


def test_a_request_nobody_can_answer_is_answered_so(pair: Pair) -> None:
    reply = pair.client.request("hello?").result(WAIT)
    assert reply.error == "requests of topic 'hello?' are not answered here"


def test_a_request_that_cannot_be_served_costs_no_session(pair: Pair) -> None:
    pair.server.request("train")
    pair.asked.result(WAIT)
    for _ in range(2):  # what takes requests there takes one only, and raises for any other
        reply = pair.server.request("train").result(WAIT)
        assert "it cannot be served: InvalidStateError" in reply.error
    assert not pair.client.closed.is_set()


def test_an_answer_that_does_not_come_is_a_timeout(pair: Pair) -> None:
    with pytest.raises(CommunicationTimeout) as named:
        pair.server.request("train").result(90.0)
    assert (named.value.stage, named.value.who) == ("processing", "site-1")


def test_an_answer_to_a_request_given_up_is_dropped(pair: Pair) -> None:
    pending = pair.server.request("train")
    request = pair.asked.result(WAIT)
    pair.server.cancel(pending, "over")
    pair.client.reply(request)
    assert pending.cancelled()
    again = pair.client.request("still there?")
    assert again.result(WAIT).error  # and the session works on


def test_progress_of_a_request_given_up_is_no_fault(pair: Pair) -> None:
    pending = pair.server.request("train")
    request = pair.asked.result(WAIT)
    pair.server.cancel(pending, "over")
    pair.client.report_progress(request, 1)
    assert pair.client.request("still there?").result(WAIT).error


def test_a_goodbye_ends_both_with_its_reason(pair: Pair) -> None:
    pair.server.close("enough")
    assert pair.client.closed.wait(WAIT)
    assert isinstance(pair.client.error, StreamAborted)
    assert pair.client.error.reason == "enough"
    assert pair.closed == [pair.server]


def test_closing_twice_is_harmless(pair: Pair) -> None:
    pair.client.close("once")
    pair.client.close("twice")
    assert pair.closed == [pair.server] or pair.server.closed.wait(WAIT)


def test_a_fault_ends_both_with_its_reason(pair: Pair) -> None:
    pair.server.abort(AbortCode.PROTOCOL_ERROR, "nonsense")
    assert pair.client.closed.wait(WAIT)
    assert "nonsense" in str(pair.client.error)


def test_a_connection_that_does_not_come_back_fails_what_is_pending(pair: Pair) -> None:
    pending = pair.server.request("train")
    pair.carrier.cut()
    assert pair.server.is_disconnected
    with pytest.raises(SessionLost):
        pending.result(90.0)


def test_what_was_pending_is_answered_over_another_connection(pair: Pair) -> None:
    pending = pair.server.request("train")
    request = pair.asked.result(WAIT)
    pair.carrier.cut()
    pair.client.reply(request, metadata={"loss": "1"})
    pair.carrier.join()
    assert pending.result(WAIT).metadata == {"loss": "1"}
    assert not pair.server.is_disconnected


def test_what_is_asked_while_the_peer_is_away_reaches_it_later(pair: Pair) -> None:
    pair.carrier.cut()
    pair.server.request("train")
    pair.carrier.join()
    assert pair.asked.result(WAIT).topic == "train"


class Heard(logging.Handler):
    """Waits for a line of the log."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.is_there = text, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.text in record.getMessage():
            self.is_there.set()


def test_a_session_says_when_it_lost_its_peer_and_when_it_is_back(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "streamlink")
    lost = Heard("connection to site-1 lost (the connection ended); waiting")
    back = Heard("site-1 is back after")
    logger = logging.getLogger("streamlink.session")
    for each in (lost, back):
        logger.addHandler(each)
    try:
        pair.carrier.cut()
        pair.carrier.join()
        pair.server.request("train")
        pair.asked.result(WAIT)
        assert lost.is_there.wait(WAIT)
        assert back.is_there.wait(WAIT)
    finally:
        for each in (lost, back):
            logger.removeHandler(each)


@pytest.mark.parametrize("is_ours", [True, False])
def test_streams_die_with_the_session(pair: Pair, is_ours: bool) -> None:
    pump = stream()
    pair.server.offer(pump)
    assert pair.server.stream(7) is pump
    (pair.server if is_ours else pair.client).close("lunch")
    assert pair.server.closed.wait(WAIT)
    with pytest.raises(StreamlinkError, match=r"ended: .* left: lunch"):
        pump.wait_room()
    assert pair.server.stream(7) is None


def test_a_stream_that_was_withdrawn_is_not_found(pair: Pair) -> None:
    pump = stream()
    pair.server.offer(pump)
    pair.server.withdraw(pump)
    pair.server.withdraw(pump)
    assert pair.server.stream(7) is None


def test_of_the_streams_that_were_withdrawn_only_the_latest_commits_are_kept(pair: Pair) -> None:
    pumps = [committed(number) for number in range(1, 21)]
    for pump in pumps:
        pair.server.withdraw(pump)
    assert [pair.server.stream(n) for n in range(1, 21)] == [None] * 4 + pumps[4:]
    assert pair.server.withdrawn(1) == "model 1, which has ended"


def test_a_commit_that_is_being_said_again_is_still_found(pair: Pair) -> None:
    pump = committed(7)
    pair.server.withdraw(pump)
    pump.attach(lambda: None)
    assert not pump.is_closed
    assert pair.server.stream(7) is pump


def test_asking_over_an_ended_session_is_an_error(pair: Pair) -> None:
    pair.server.close("done")
    with pytest.raises(StreamlinkError, match="left: done"):
        pair.server.request("train")


def test_answering_over_an_ended_session_is_harmless(pair: Pair) -> None:
    pair.server.request("train")
    request = pair.asked.result(WAIT)
    pair.client.close("done")
    pair.client.reply(request)
    pair.client.report_progress(request, 1)


def test_an_answer_arrives_once(pair: Pair) -> None:
    pending = pair.server.request("train")
    request = pair.asked.result(WAIT)
    pair.client.reply(request, metadata={"n": "1"})
    pair.client.reply(request, metadata={"n": "2"})
    assert pending.result(WAIT).metadata == {"n": "1"}
    assert not pair.server.closed.is_set()


def test_a_reply_that_began_is_waited_for(pair: Pair) -> None:
    pending: PendingReply = pair.server.request("train")
    request = pair.asked.result(WAIT)
    pair.server.reply_began(pending)
    assert not pair.clock.event().wait(90.0)  # beyond the limit for processing
    pair.client.reply(request)
    assert pending.result(WAIT).error == ""


def test_facts_that_are_no_text_are_refused_where_they_are_given(pair: Pair) -> None:
    with pytest.raises(LocalProtocolError, match=r"'lr': 0\.1"):
        pair.server.request("train", metadata={"lr": 0.1})  # type: ignore[dict-item]
