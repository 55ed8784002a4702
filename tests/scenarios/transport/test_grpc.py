"""Sessions and transfers over real gRPC on a free port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from streamlink.errors import (
    AbortCode,
    OpenTimeout,
    RoundError,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.assignment import Assignment
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import MemoryStore
from tests.support.dialing import Dialing, TappedCall, hold
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, echo, exchange_models
from tests.support.pumps import pump_of

SPEC = float_spec(50_001, 0, 3)
FIRST = Attempt("job", 0, 1)


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation() as federation:
        yield federation


def asked(federation: Federation, name: str = "site-1", **metadata: str) -> PeerRequest:
    return federation.peer(name).request("echo", SPEC, attempt=FIRST, metadata=metadata)


# --- models ---------------------------------------------------------------------------


def test_a_model_goes_there_and_back(federation: Federation) -> None:
    federation.link("site-1")
    exchange, store = asked(federation), MemoryStore()
    exchange_models(exchange, pattern_model(SPEC), store)
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.error == ""
    assert content(store.open()) == content(pattern_model(SPEC))


def test_a_description_known_before_does_not_travel_again(federation: Federation) -> None:
    travelled: list[type[f.Frame]] = []

    def note(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
        travelled.append(type(frame))
        return raw

    federation.link("site-1", dial=Dialing(note))
    for _ in range(2):
        exchange_models(asked(federation), pattern_model(SPEC), MemoryStore())
    assert travelled.count(f.SpecPage) == 1


def test_facts_of_the_request_reach_the_client(federation: Federation) -> None:
    seen: Future[Assignment] = Future()
    federation.link("site-1", seen.set_result)
    asked(federation, lr="0.1")
    assignment = seen.result(WAIT)
    assert assignment.topic == "echo"
    assert assignment.attempt == FIRST
    assert assignment.metadata == {"lr": "0.1"}


@pytest.mark.parametrize("is_server_small", [True, False])
def test_no_message_exceeds_the_smaller_limit(is_server_small: bool) -> None:
    sizes: list[int] = []

    def note(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
        sizes.append(len(raw))
        return raw

    stream = {"chunk_bytes": "64KiB", "min_chunk_bytes": "64KiB", "window_bytes": "256KiB"}
    small = config(stream=stream, grpc={"max_message_bytes": "20KiB"})
    large = config(stream=stream)
    with Federation(small if is_server_small else large) as federation:
        federation.link("site-1", config=large if is_server_small else small, dial=Dialing(note))
        exchange_models(asked(federation), pattern_model(SPEC), MemoryStore())
    assert 19 * 1024 < max(sizes) <= 20 * 1024


def test_the_server_counts_what_its_transfers_put_on_the_wire(federation: Federation) -> None:
    federation.link("site-1")
    exchange_models(asked(federation), pattern_model(SPEC), MemoryStore())
    sent, received = federation.server.wire_bytes
    assert SPEC.nbytes < sent < 1.2 * SPEC.nbytes
    assert SPEC.nbytes < received < 1.2 * SPEC.nbytes


# --- streams nobody offered -----------------------------------------------------------


def test_a_stream_never_offered_is_refused_by_name(federation: Federation) -> None:
    told: Future[BaseException] = Future()

    def serve(assignment: Assignment) -> None:
        try:
            assignment.incoming().open(WAIT)
        except StreamlinkError as error:
            told.set_result(error)

    def never_offered(request: f.Request) -> f.Request:
        return replace(request, sends=901, returns=902)

    federation.link("site-1", serve, dial=Dialing(change=never_offered))
    asked(federation)
    error = told.result(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.UNKNOWN_STREAM
    assert "stream 901: was never offered" in error.reason


def test_another_clients_stream_is_refused(federation: Federation) -> None:
    told: Future[BaseException] = Future()
    theirs: Future[int] = Future()

    def steal(assignment: Assignment) -> None:
        try:
            assignment.incoming().open(WAIT)
        except StreamlinkError as error:
            told.set_result(error)

    def of_another(request: f.Request) -> f.Request:
        return replace(request, sends=theirs.result(WAIT), returns=0)

    federation.link("site-1", lambda _: None)
    federation.link("site-2", steal, dial=Dialing(change=of_another))
    theirs.set_result(pump_of(asked(federation, "site-1").outgoing).stream.stream_id)
    asked(federation, "site-2")
    error = told.result(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.UNKNOWN_STREAM


def test_streams_of_an_attempt_that_is_over_are_refused(federation: Federation) -> None:
    told: Future[BaseException] = Future()
    is_over = threading.Event()

    def late(assignment: Assignment) -> None:
        is_over.wait(WAIT)
        try:
            assignment.incoming().open(WAIT)
        except StreamlinkError as error:
            told.set_result(error)

    federation.link("site-1", late)
    exchange = asked(federation)
    exchange.end(AbortCode.STALE_ATTEMPT, f"{FIRST} is over")
    is_over.set()
    error = told.result(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.by_peer
    assert "is over" in error.reason


def test_an_update_of_another_attempt_is_refused_by_name(federation: Federation) -> None:
    told: Future[BaseException] = Future()
    dialing = Dialing()

    def answer_for_an_old_round(assignment: Assignment) -> None:
        store, model = MemoryStore(), assignment.incoming()
        receive_model(model, lambda model: store.begin(model.spec))
        try:
            send_model(dialing.answer(SPEC, Attempt("job", 7, 1)), store.open())
        except StreamlinkError as error:
            told.set_result(error)

    federation.link("site-1", answer_for_an_old_round, dial=dialing)
    exchange = asked(federation)
    with pytest.raises(StreamAborted, match="job 'job' round 7 attempt 1"):
        exchange_models(exchange, pattern_model(SPEC), MemoryStore())
    error = told.result(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.STALE_ATTEMPT


# --- requests -------------------------------------------------------------------------


def test_a_client_that_never_opens_its_model_is_named() -> None:
    with Federation(config(open_timeout=0.5)) as federation:
        federation.link("site-1", lambda _: None)
        with pytest.raises(OpenTimeout, match="site-1 did not open the stream"):
            send_model(asked(federation).outgoing, pattern_model(SPEC))


def test_an_error_in_the_answer_is_the_exchanges_failure(federation: Federation) -> None:
    federation.link("site-1", lambda assignment: assignment.reply(error="ValueError: no data"))
    exchange = asked(federation)
    assert exchange.wait_reply(WAIT) is not None
    assert isinstance(exchange.failure, StreamAborted)
    assert exchange.failure.code is AbortCode.TASK_FAILED
    assert "ValueError: no data" in str(exchange.failure)


def test_a_very_long_error_text_does_not_end_the_session(federation: Federation) -> None:
    federation.link("site-1", lambda each: each.reply(error="e" * 200_000, traceback="t" * 200_000))
    reply = asked(federation).wait_reply(WAIT)
    assert reply is not None
    assert reply.error.startswith("eee")
    assert federation.peer("site-1").is_here


# --- sessions -------------------------------------------------------------------------


def test_a_session_that_brings_nothing_is_dead() -> None:
    short = config(session_timeout=0.6, heartbeat_interval=0.3, reconnect_timeout=0.3)

    def silent(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
        return hold(call, frame, raw) if isinstance(frame, f.Heartbeat) else raw

    with Federation(short) as federation:
        link = federation.link("site-1", dial=Dialing(silent))
        assert link.wait(WAIT)  # it greets again, but never says more
        assert "did not come back for" in str(link.error)


def test_a_lost_session_aborts_its_streams(federation: Federation) -> None:
    begun = threading.Event()

    def begin(assignment: Assignment) -> None:
        assignment.incoming().open(WAIT)
        begun.set()

    link = federation.link("site-1", begin)
    exchange = asked(federation)
    failed: Future[BaseException] = Future()

    def send() -> None:
        try:
            send_model(exchange.outgoing, pattern_model(SPEC))
        except StreamlinkError as error:
            failed.set_result(error)

    threading.Thread(target=send, daemon=True).start()
    assert begun.wait(WAIT)
    link.close("lunch")
    error = failed.result(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.SESSION_LOST
    assert "left: lunch" in str(error)
    with pytest.raises(StreamAborted, match="left: lunch"):
        exchange.wait_reply(WAIT)


def test_asking_a_client_that_has_left_is_an_error(federation: Federation) -> None:
    link = federation.link("site-1")
    peer = federation.peer("site-1")
    link.close()
    federation.wait_left("site-1")
    assert not peer.is_here
    with pytest.raises(StreamlinkError):
        peer.request("echo", SPEC, attempt=FIRST)


def test_a_closing_server_says_goodbye_and_its_clients_end() -> None:
    federation = Federation()
    links = [federation.link(f"site-{n}") for n in range(3)]
    federation.server.close("enough for today")
    assert all(link.wait(60) for link in links)
    assert all("left: enough for today" in str(link.error) for link in links)
    for link in links:
        link.close()


def test_a_dismissed_client_ends_alone(federation: Federation) -> None:
    links = [federation.link(f"site-{n}") for n in range(2)]
    federation.peer("site-0").dismiss("not today")
    assert links[0].wait(60)
    federation.wait_left("site-0")
    assert [peer.name for peer in federation.server.peers()] == ["site-1"]


def test_clients_that_do_not_come_are_counted(federation: Federation) -> None:
    federation.link("site-1")
    federation.peer("site-1")
    with pytest.raises(RoundError, match=r"1 of 3 clients came within 0.1 s \(site-1\)"):
        federation.server.wait_for_peers(3, 0.1)


def test_a_client_of_the_same_name_may_come_back(federation: Federation) -> None:
    for _ in range(5):
        link = federation.link("site-1", echo)
        exchange_models(asked(federation), pattern_model(SPEC), MemoryStore())
        link.close()
        federation.wait_left("site-1")
