"""Transfer calls over real gRPC: how many there may be, and what is said last on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Attempt
from streamlink.protocol.liveness import extra_grace_seconds
from streamlink.protocol.states import State
from streamlink.stores.memory import MemoryStore
from streamlink.transport.connect import dial, hub_at
from tests.support.dialing import Dialing, Once, lose
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, Federation, config, exchange_models
from tests.support.pumps import pump_of

SPEC = float_spec(50_001, 0, 3)
FIRST = Attempt("job", 0, 1)
MOST = SMALL.limits.max_streams
BESIDE = config(stream={"data_listen": "none"})


class Joined:
    """A server and a client with a session, and streams between them as a test wants them."""

    def __init__(self) -> None:
        # Without a data port: its connections name the session by what they prove.
        self.server = hub_at("127.0.0.1:0", BESIDE, clock=running_time).listen()
        self.client = dial(
            f"127.0.0.1:{self.server.port}", SMALL, name="site-1", clock=running_time
        )
        self.near = self.client.connect(lambda session, request: None)
        (self.far,) = self.server.sessions

    def offered(self, spec: ModelSpec = SPEC) -> SendTransfer:
        """Offer the client a model; nothing of it is sent yet."""
        number = self.server.new_stream_id()
        model = SendTransfer(
            self.far.config,
            spec,
            stream_id=number,
            peer_name="site-1",
            name="model",
            clock=running_time,
        )
        self.far.offer(pump_of(model))
        return model

    def opened(self, offered: SendTransfer) -> ReceiveTransfer:
        """Open what was offered, at the client."""
        number = pump_of(offered).stream.stream_id
        model = ReceiveTransfer(
            self.near.config, stream_id=number, peer_name="server", name="model", clock=running_time
        )
        self.client.open_transfer(self.near, pump_of(model))
        return model

    def close(self) -> None:
        self.near.close("the test is over")
        self.client.close()
        self.server.close()


@pytest.fixture
def joined() -> Iterator[Joined]:
    joined = Joined()
    yield joined
    joined.close()


def test_a_surplus_stream_of_a_session_is_refused_in_words(joined: Joined) -> None:
    models = [joined.opened(joined.offered()) for _ in range(MOST)]
    for model in models:
        assert pump_of(model).next(WAIT) is not None  # its call is there
    surplus = joined.opened(joined.offered())
    with pytest.raises(StreamAborted, match="site-1 has 32 transfer calls open") as refused:
        surplus.open(WAIT)
    assert refused.value.code is AbortCode.REFUSED
    assert not joined.near.closed.is_set()


def test_a_place_is_free_again_once_a_stream_has_ended(joined: Joined) -> None:
    few = float_spec(7)  # what counts are the streams
    for _ in range(2 * MOST):
        offered, store = joined.offered(few), MemoryStore()
        incoming = joined.opened(offered)
        sending = threading.Thread(target=send_model, args=(offered, pattern_model(few)))
        sending.start()
        receive_model(incoming, lambda model, store=store: store.begin(model.spec))  # type: ignore[misc]
        sending.join(WAIT)
        assert content(store.open()) == content(pattern_model(few))


def test_a_second_call_for_one_stream_takes_over_and_takes_no_place(joined: Joined) -> None:
    offered = joined.offered()
    for _ in range(MOST + 1):
        assert joined.far.carry(pump_of(offered).stream.stream_id, pump_of(offered), _ignore) > 0


def test_the_server_waits_longer_for_a_stream_than_the_client(joined: Joined) -> None:
    offered = joined.offered()
    incoming = joined.opened(offered)
    assert pump_of(incoming).next(WAIT) is not None  # its call is there
    timeouts = SMALL.timeouts
    assert pump_of(incoming).stream.grace_seconds == timeouts.reconnect_timeout
    longer = extra_grace_seconds(timeouts, timeouts.session_timeout)
    assert pump_of(offered).stream.grace_seconds == timeouts.reconnect_timeout + longer
    assert longer > 0


def _ignore() -> None:
    pass


@pytest.mark.parametrize("kind", [f.Open, f.Accept, f.Ack, f.Chunk, f.Finish, f.Commit])
def test_any_frame_may_be_the_last_of_a_call(kind: type[Any]) -> None:
    loss, store = Once(kind, lose), MemoryStore()
    with Federation() as federation:
        federation.link("site-1", dial=Dialing(loss))
        exchange = federation.peer("site-1").request("echo", SPEC, attempt=FIRST)
        exchange_models(exchange, pattern_model(SPEC), store)
    assert loss.done.is_set()
    assert content(store.open()) == content(pattern_model(SPEC))


def test_a_commit_that_was_lost_is_said_again_though_the_stream_was_withdrawn(
    joined: Joined,
) -> None:
    number = joined.server.new_stream_id()
    incoming = ReceiveTransfer(
        joined.far.config, stream_id=number, peer_name="site-1", name="update", clock=running_time
    )
    joined.far.offer(pump_of(incoming))
    outgoing = SendTransfer(
        joined.near.config,
        SPEC,
        stream_id=number,
        peer_name="server",
        name="update",
        clock=running_time,
    )
    joined.client.open_transfer(joined.near, pump_of(outgoing))
    store = MemoryStore()
    committed = pump_of(incoming).commit

    def commit(digest: str) -> None:
        pump_of(incoming).cut()  # before it can leave
        committed(digest)
        joined.far.withdraw(pump_of(incoming))

    pump_of(incoming).commit = commit  # type: ignore[method-assign]
    receiving = threading.Thread(
        target=receive_model, args=(incoming, lambda model: store.begin(model.spec))
    )
    receiving.start()
    send_model(outgoing, pattern_model(SPEC))
    receiving.join(WAIT)
    assert pump_of(outgoing).stream.state is State.DONE
    assert content(store.open()) == content(pattern_model(SPEC))


def test_what_ended_a_stream_while_it_had_no_call_is_told_on_the_next(joined: Joined) -> None:
    offered = joined.offered()
    incoming = joined.opened(offered)
    assert pump_of(incoming).next(WAIT) is not None
    pump_of(offered).cut()
    incoming.abort(AbortCode.STORE_FAILED, "the disk is full")
    with pytest.raises(StreamAborted, match="the disk is full"):
        send_model(offered, pattern_model(SPEC))


def test_a_stream_of_a_session_nobody_knows_is_refused(joined: Joined) -> None:
    offered = joined.offered()
    joined.near.session_id = "another"
    incoming = joined.opened(offered)
    with pytest.raises(StreamlinkError, match="does not know this session") as refused:
        incoming.open(WAIT)
    assert isinstance(refused.value, StreamAborted)
    assert refused.value.code is AbortCode.SESSION_LOST
