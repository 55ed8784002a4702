"""What every carrier must do, as ``streamlink/transport/carriers.py`` says it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ConnectFailed, ProtocolError, StreamAborted
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt
from streamlink.model.interfaces import ModelSink
from streamlink.protocol.frames import Request
from streamlink.stores.memory import MemoryStore
from streamlink.transport.carriers import CallEnd, ClientCall, Readiness
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from streamlink.transport.wire import TransferWire
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of

SPEC = float_spec(50_001, 0, 3)
RequestReceived = Callable[[Session, Request], None]


class Line:
    """A hub and the clients that reach it over one kind of carrier. All end with it."""

    def __init__(
        self,
        listen: Callable[[LinkConfig, RequestReceived], Hub],
        dial: Callable[[Hub, str], Dialer],
    ) -> None:
        self.hub = listen(SMALL, lambda session, request: session.reply(request))
        self._dial = dial
        self._dialers: list[Dialer] = []

    def dialer(self, name: str = "site-1") -> Dialer:
        """Return a client that has not connected yet."""
        dialer = self._dial(self.hub, name)
        self._dialers.append(dialer)
        return dialer

    def joined(self, name: str = "site-1") -> tuple[Dialer, Session, Session]:
        """Return a client, its session, and the hub's view of that."""
        dialer = self.dialer(name)
        near = dialer.connect(lambda session, request: session.reply(request))
        (far,) = [each for each in self.hub.sessions if each.peer == name]
        return dialer, near, far

    def close(self) -> None:
        """End all."""
        for each in self._dialers:
            each.close()
        self.hub.close("the test is over", has_failed=True)


class Moving:
    """A model that goes from the hub to a client, each end in a thread of its own."""

    def __init__(self, line: Line, dialer: Dialer, near: Session, far: Session) -> None:
        number, self.store = line.hub.new_stream_id(), MemoryStore()
        self.outgoing = SendTransfer(
            far.config, SPEC, stream_id=number, peer_name="x", name="model", clock=running_time
        )
        self.incoming = ReceiveTransfer(
            near.config, stream_id=number, peer_name="hub", name="model", clock=running_time
        )
        self.goes_on, self.has_begun = threading.Event(), threading.Event()
        far.offer(pump_of(self.outgoing))
        line.hub.ticker.add(pump_of(self.outgoing))
        dialer.open_transfer(near, pump_of(self.incoming))
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._ends: list[Future[Receipt]] = []

    def start(self) -> None:
        """Begin; the receiver waits for ``goes_on`` with its first bytes."""
        self._ends = [
            self._pool.submit(send_model, self.outgoing, pattern_model(SPEC)),
            self._pool.submit(receive_model, self.incoming, lambda model: self._sink()),
        ]

    def _sink(self) -> ModelSink:
        self.has_begun.set()
        assert self.goes_on.wait(WAIT)
        return self.store.begin(SPEC)

    def finish(self) -> Receipt:
        """Let it go on; returns the sender's receipt, once all has arrived."""
        self.goes_on.set()
        sent, _ = (each.result(WAIT) for each in self._ends)
        self._pool.shutdown()
        assert content(self.store.open()) == content(pattern_model(SPEC))
        return sent


class ControlCarrierContract:
    """What a carrier of sessions must do. A subclass gives ``line``."""

    def test_a_client_is_greeted_under_its_name(self, line: Line) -> None:
        _, near, far = line.joined("site-7")
        assert (near.session_id, far.peer) == (far.session_id, "site-7")

    def test_both_ends_are_asked_and_answer(self, line: Line) -> None:
        _, near, far = line.joined()
        for session in (near, far):
            assert session.request("ping").result(WAIT).error == ""

    def test_a_session_goes_on_over_a_new_connection(self, line: Line) -> None:
        dialer, near, far = line.joined()
        dialer.carriers.control.renew()
        assert far.request("ping").result(WAIT).error == ""
        assert not near.closed.is_set()

    def test_a_call_that_the_hub_cuts_is_replaced(self, line: Line) -> None:
        _, near, far = line.joined()
        far.pump.cut()
        assert near.request("ping").result(WAIT).error == ""

    def test_who_is_refused_hears_why(self, line: Line) -> None:
        line.joined()
        with pytest.raises(StreamAborted, match="names must differ") as refused:
            line.dialer().connect(lambda session, request: None)
        assert refused.value.code is AbortCode.NAME_TAKEN

    def test_a_goodbye_arrives_before_the_call_ends(self, line: Line) -> None:
        _, near, far = line.joined()
        far.close("that was all")
        assert near.closed.wait(WAIT)
        assert "that was all" in str(near.error)

    def test_a_server_that_stopped_is_not_ready(self, line: Line) -> None:
        control = line.dialer().carriers.control
        line.hub.close()
        state = control.wait_ready(WAIT, is_final=lambda: True, cancel=CancelToken())
        assert state is Readiness.REFUSED
        state = control.wait_ready(0.0, is_final=lambda: False, cancel=CancelToken())
        assert state is Readiness.NOT_YET
        assert control.failure(1.0)

    def test_a_closed_carrier_waits_for_nothing(self, line: Line) -> None:
        control = line.dialer().carriers.control
        control.close()
        with pytest.raises(ConnectFailed):
            control.wait_ready(WAIT, is_final=lambda: False, cancel=CancelToken())


class DataCarrierContract:
    """What a carrier of streams must do. A subclass gives ``line``."""

    def test_a_model_arrives_whole(self, line: Line) -> None:
        moving = Moving(line, *line.joined())
        moving.start()
        assert moving.finish().stats.resumes == 0

    def test_several_streams_are_carried_at_once(self, line: Line) -> None:
        joined = line.joined()
        models = [Moving(line, *joined) for _ in range(3)]
        for each in models:
            each.start()
        assert all(each.has_begun.wait(WAIT) for each in models)
        for each in models:
            each.finish()

    def test_a_stream_goes_on_over_a_new_connection(self, line: Line) -> None:
        dialer, near, far = line.joined()
        moving = Moving(line, dialer, near, far)
        moving.start()
        assert moving.has_begun.wait(WAIT)
        dialer.carriers.data.renew()
        assert moving.finish().stats.resumes >= 1

    def test_a_call_that_the_hub_cuts_is_replaced(self, line: Line) -> None:
        moving = Moving(line, *line.joined())
        moving.start()
        assert moving.has_begun.wait(WAIT)
        pump_of(moving.outgoing).cut()
        assert moving.finish().stats.resumes >= 1

    def test_a_stream_that_was_not_offered_is_refused_in_words(self, line: Line) -> None:
        dialer, near, _ = line.joined()
        model = ReceiveTransfer(
            near.config, stream_id=99, peer_name="hub", name="model", clock=running_time
        )
        dialer.open_transfer(near, pump_of(model))
        with pytest.raises((StreamAborted, ProtocolError), match="was never offered"):
            model.open(WAIT)

    def test_an_abort_reaches_the_other_end_in_words(self, line: Line) -> None:
        moving = Moving(line, *line.joined())
        moving.outgoing.abort(AbortCode.CANCELLED, "nobody wants it")
        with pytest.raises(StreamAborted, match="nobody wants it"):
            moving.incoming.open(WAIT)

    def test_a_closed_carrier_carries_nothing(self, line: Line) -> None:
        dialer, near, _ = line.joined()
        model = ReceiveTransfer(
            near.config, stream_id=99, peer_name="hub", name="model", clock=running_time
        )
        dialer.carriers.data.close()
        call = ClientCall(pump_of(model), TransferWire(99))
        assert dialer.carriers.data.carry(call) is CallEnd.BROKEN

    def test_no_call_is_left_when_a_client_has_closed(self, line: Line) -> None:
        dialer, near, far = line.joined()
        moving = Moving(line, dialer, near, far)
        moving.start()
        moving.finish()
        near.close("done")
        dialer.close()
        until(lambda: pump_of(moving.outgoing).is_over)
