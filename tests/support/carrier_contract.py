"""What every carrier must do, as ``streamlink/transport/carriers.py`` says it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

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
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import Attach, DataPort, Request
from streamlink.stores.memory import MemoryStore
from streamlink.transport.carriers import (
    CallEnd,
    ClientCall,
    DataCarrier,
    DataSession,
    ProvableCarrier,
    Readiness,
)
from streamlink.transport.dialer import Carriers, Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.session import Session
from streamlink.transport.wire import TransferWire
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of
from tests.support.scarce import no_threads

SPEC = float_spec(50_001, 0, 3)
RequestReceived = Callable[[Session, Request], None]


Listen = Callable[[LinkConfig, RequestReceived], Hub]


class Counted:
    """A data carrier, and the calls that it was given."""

    def __init__(self, carrier: DataCarrier, calls: list[ClientCall]) -> None:
        self._carrier, self._calls = carrier, calls
        self.renew, self.close = carrier.renew, carrier.close

    def carry(self, call: ClientCall) -> CallEnd:
        self._calls.append(call)
        return self._carrier.carry(call)


class CountedProvable(Counted):
    """The same for a carrier of streams alone."""

    def __init__(self, carrier: ProvableCarrier, calls: list[ClientCall]) -> None:
        super().__init__(carrier, calls)
        self.prove, self.where = carrier.prove, carrier.where


class Line:
    """A hub and the clients that reach it over one kind of carrier. All end with it."""

    def __init__(
        self,
        listen: Listen,
        dial: Callable[[Hub, str], Dialer],
        config: LinkConfig = SMALL,
    ) -> None:
        self.hub = listen(config, lambda session, request: session.reply(request))
        self._dial = dial
        self._dialers: list[Dialer] = []
        self.is_offering = False
        self._open_data: Callable[[DataSession], ProvableCarrier | None] | None = None
        self.offered: list[ProvableCarrier] = []
        self.offered_calls: list[ClientCall] = []
        self.fallback_calls: list[ClientCall] = []

    @classmethod
    def offering(
        cls,
        listen: Listen,
        carriers: Callable[[Hub], Carriers],
        open_data: Callable[[Hub, Sequence[DataPort], DataSession], ProvableCarrier | None],
        config: LinkConfig = SMALL,
    ) -> Line:
        """Return a line whose hub offers a carrier of streams alone: the one under test.

        A client falls back from it without an error, so the calls of both are counted.

        Args:
            listen: makes the hub; it offers the carrier.
            carriers: what a client uses for sessions, and for streams that fall back.
            open_data: makes the client's end of the carrier under test.
            config: settings of both ends.
        """

        def open_counted(
            hub: Hub, offered: Sequence[DataPort], session: DataSession
        ) -> ProvableCarrier | None:
            carrier = open_data(hub, offered, session)
            if carrier is None:
                return None
            line.offered.append(carrier)
            return CountedProvable(carrier, line.offered_calls)

        def dial(hub: Hub, name: str) -> Dialer:
            usual = carriers(hub)
            return Dialer(
                "the hub",
                config,
                Carriers(usual.control, Counted(usual.data, line.fallback_calls)),
                name=name,
                clock=running_time,
                open_data=lambda offered, session: open_counted(hub, offered, session),
                hold_seconds=WAIT,
            )

        line = cls(listen, dial, config)
        line.is_offering = True
        line._open_data = lambda session: open_data(line.hub, line.hub.data_ports, session)
        return line

    def check_no_fallback(self) -> None:
        """Fail unless every stream so far has gone over the carrier under test."""
        if self.is_offering:
            assert not self.fallback_calls, "streams went over the sessions' carrier instead"
            assert any(map(_has_moved, self.offered_calls)), "it carried nothing"

    def dialer(self, name: str = "site-1") -> Dialer:
        """Return a client that has not connected yet."""
        dialer = self._dial(self.hub, name)
        self._dialers.append(dialer)
        return dialer

    def joined(self, name: str = "site-1") -> tuple[Dialer, Session, Session]:
        """Return a client, its session, and the hub's view of that."""
        dialer = self.dialer(name)
        near = dialer.connect(lambda session, request: session.reply(request))
        (far,) = [each for each in self.hub.sessions if each.peer_name == name]
        return dialer, near, far

    def another(self, near: Session) -> ProvableCarrier:
        """Return one more carrier of streams alone for a session; the caller closes it."""
        assert self._open_data is not None, "only a line that offers such a carrier has more"
        key = self.hub.data_key(near.session_id)
        carrier = self._open_data(DataSession(near.session_id, self.hub.epoch, key))
        assert carrier is not None
        return carrier

    def close(self) -> None:
        """End all."""
        for each in self._dialers:
            each.close()
        self.hub.close("the test is over", has_failed=True)


def _has_moved(call: ClientCall) -> bool:
    # The pump tells of its latest call only, and a last one may follow that brings nothing new.
    pump = call.pump
    return pump.has_moved or (isinstance(pump, ReceivePump) and pump.stream.received > 0)


class HalfGated:
    """A model whose first half is read at once, and the other after ``gate``."""

    def __init__(self, model: ModelSource, gate: Callable[[], None]) -> None:
        self._model, self._gate, self.spec = model, gate, model.spec

    def read(self, offset: int, length: int) -> Payload:
        if offset >= self.spec.nbytes // 2:
            self._gate()
        return self._model.read(offset, length)

    def close(self) -> None:
        self._model.close()


class Moving:
    """A model that goes from the hub to a client, each end in a thread of its own."""

    def __init__(
        self, line: Line, dialer: Dialer, near: Session, far: Session, spec: ModelSpec = SPEC
    ) -> None:
        self._spec = spec
        number, self.store = line.hub.new_stream_id(), MemoryStore()
        self._line = line
        self.outgoing = SendTransfer(
            far.config, spec, stream_id=number, peer_name="x", name="model", clock=running_time
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
        """Begin; the sender waits for ``goes_on`` in the middle: by then, bytes have arrived."""
        model = HalfGated(pattern_model(self._spec), self._gate)
        self._ends = [
            self._pool.submit(send_model, self.outgoing, model),
            self._pool.submit(receive_model, self.incoming, lambda _: self.store.begin(self._spec)),
        ]

    def _gate(self) -> None:
        self.has_begun.set()
        assert self.goes_on.wait(WAIT)

    def finish(self) -> Receipt:
        """Let it go on; returns the sender's receipt, once all has arrived."""
        self.goes_on.set()
        sent, _ = (each.result(WAIT) for each in self._ends)
        self._pool.shutdown()
        assert content(self.store.open()) == content(pattern_model(self._spec))
        self._line.check_no_fallback()
        return sent


class ControlCarrierContract:
    """What a carrier of sessions must do. A subclass gives ``line``."""

    def test_a_client_is_greeted_under_its_name(self, line: Line) -> None:
        _, near, far = line.joined("site-7")
        assert (near.session_id, far.peer_name) == (far.session_id, "site-7")

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
        with pytest.raises(StreamAborted, match="names must be unique") as refused:
            line.dialer().connect(lambda session, request: None)
        assert refused.value.code is AbortCode.NAME_TAKEN

    def test_a_client_without_a_thread_for_a_session_opens_another_call(self, line: Line) -> None:
        dialer, near, far = line.joined()
        with no_threads("Thread", beside="carry-Session") as refused:
            dialer.carriers.control.renew()
            until(lambda: len(refused) > 0)
        assert far.request("ping").result(WAIT).error == ""
        assert not near.closed.is_set()

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
    """What a carrier of streams must do. A subclass gives ``line``.

    A carrier of streams alone needs ``Line.offering``, so that no stream falls back unseen.
    """

    def test_streams_have_no_other_way(self, line: Line) -> None:
        assert line.is_offering or not line.hub.data_ports, "they would go to the data port"

    def test_a_model_arrives_whole(self, line: Line) -> None:
        moving = Moving(line, *line.joined())
        moving.start()
        assert moving.finish().stats.resumes == 0

    def test_a_client_without_a_thread_for_a_stream_opens_another_call(self, line: Line) -> None:
        joined = line.joined()
        with no_threads("Thread", beside="carry-Transfer") as refused:
            moving = Moving(line, *joined)
            moving.start()
            until(lambda: len(refused) > 0)
        moving.finish()

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

    def test_a_call_that_its_client_gives_up_for_silence_ends_as_cut(self, line: Line) -> None:
        dialer, near, far = line.joined()
        number = line.hub.new_stream_id()
        facts: dict[str, Any] = {"stream_id": number, "name": "model", "clock": running_time}
        outgoing = SendTransfer(far.config, SPEC, peer_name="site-1", **facts)
        incoming = ReceiveTransfer(near.config, peer_name="hub", **facts)
        far.offer(pump_of(outgoing))
        carrier = line.offered[-1] if line.is_offering else dialer.carriers.data
        first = (Attach(near.session_id, number),)
        call = ClientCall(pump_of(incoming), TransferWire(number), first=first)
        ends = list[CallEnd]()
        carrying = threading.Thread(target=lambda: ends.append(carrier.carry(call)), daemon=True)
        carrying.start()
        until(lambda: pump_of(incoming).calls > 0 and pump_of(outgoing).calls > 0)

        def is_given_up() -> bool:
            pump_of(incoming).cut()  # again, for a lane that has come since
            return not carrying.is_alive()

        until(is_given_up)
        assert ends == [CallEnd.CUT]

    def test_a_call_takes_over_from_one_that_still_stands(self, line: Line) -> None:
        dialer, near, far = line.joined()
        moving = Moving(line, dialer, near, far)
        moving.start()
        assert moving.has_begun.wait(WAIT)
        # Another connection of the same client, as the hub sees it: the hub cuts the call before.
        number = moving.outgoing.stream_id
        # A carrier of streams alone makes one for each call, and they belong to its own session.
        rival = line.offered[-1] if line.is_offering else line.joined("site-2")[0].carriers.data
        other = ReceiveTransfer(
            near.config, stream_id=number, peer_name="hub", name="model", clock=running_time
        )
        first = (Attach(near.session_id, number),)
        call = ClientCall(pump_of(other), TransferWire(number), first=first)
        carrying = threading.Thread(target=rival.carry, args=(call,), daemon=True)
        carrying.start()
        # The client of the call that was cut opens the next one, which takes over again.
        until(lambda: moving.outgoing.stats.resumes >= 1)
        moving.finish()
        carrying.join(WAIT)
        assert not carrying.is_alive()

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
        line.check_no_fallback()

    def test_a_closed_carrier_carries_nothing(self, line: Line) -> None:
        dialer, near, _ = line.joined()
        model = ReceiveTransfer(
            near.config, stream_id=99, peer_name="hub", name="model", clock=running_time
        )
        dialer.carriers.data.close()
        call = ClientCall(pump_of(model), TransferWire(99))
        assert dialer.carriers.data.carry(call) is CallEnd.BROKEN

    def test_a_server_that_stopped_takes_no_stream(self, line: Line) -> None:
        dialer, near, _ = line.joined()
        if line.is_offering:
            assert line.offered[-1].prove(WAIT) == ""
        # Not the session's own, which its dialer closes at the end of the session.
        another = line.another(near) if line.is_offering else None
        line.hub.close()
        model = ReceiveTransfer(
            near.config, stream_id=99, peer_name="hub", name="model", clock=running_time
        )
        call = ClientCall(pump_of(model), TransferWire(99), first=(Attach(near.session_id, 99),))
        assert (another or dialer.carriers.data).carry(call) is CallEnd.BROKEN
        if another is not None:
            assert another.prove(1.0), "nobody listens there"
            another.close()

    def test_no_call_is_left_when_a_client_has_closed(self, line: Line) -> None:
        dialer, near, far = line.joined()
        moving = Moving(line, dialer, near, far)
        moving.start()
        moving.finish()
        near.close("done")
        dialer.close()
        until(lambda: pump_of(moving.outgoing).is_over)
