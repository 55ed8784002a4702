"""What a client reaches its server with, made so that a test sees and changes what goes through.

``ClientLink(..., dial=Dialing(...))`` goes over real gRPC; each message of its calls, both ways, is
shown to the test before it goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Attempt
from streamlink.transport.carriers import CallEnd, ClientCall, Readiness
from streamlink.transport.connect import carriers_to
from streamlink.transport.dialer import Carriers, Dialer
from streamlink.transport.session import Session
from streamlink.transport.traffic import Traffic
from streamlink.transport.wire import SessionWire, TransferWire, Wire
from tests.support.peers import WAIT
from tests.support.pumps import pump_of

Act = Callable[["TappedCall", f.Frame, bytes], bytes]
"""Sees a frame and its message, on either way of a call, and returns the message that goes on."""


class Lost(Exception):
    """A message is lost, and its call with it."""


class Once:
    """Does something to the first message that carries a frame of ``kind``."""

    def __init__(self, kind: type[Any], act: Act) -> None:
        self.done = threading.Event()
        self._kind, self._act = kind, act

    def __call__(self, call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
        if not isinstance(frame, self._kind) or self.done.is_set():
            return raw
        self.done.set()
        return self._act(call, frame, raw)


def lose(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
    """Break the call; the message is lost."""
    raise Lost


def hold(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
    """Let nothing through until somebody gives the call up."""
    assert call.is_cut.wait(WAIT)
    raise Lost


def unchanged(call: TappedCall, frame: f.Frame, raw: bytes) -> bytes:
    """Let everything through."""
    return raw


class TappedCall(ClientCall):
    """A call whose messages ``act`` sees."""

    def __init__(self, call: ClientCall, act: Act) -> None:
        super().__init__(call.pump, call.wire, first=call.first)
        self.is_cut = threading.Event()
        self._call, self._act = call, act
        self._cut: Callable[[], None] = lambda: None

    def attach(self, cut: Callable[[], None], carrier: str = "", *, is_lane: bool = False) -> int:
        """See ``ClientCall``."""

        def cut_here() -> None:
            self.is_cut.set()
            cut()

        self._cut = cut_here
        return self._call.attach(cut_here, carrier, is_lane=is_lane)

    def outgoing(self, number: int) -> Iterator[bytes]:
        """See ``ClientCall``."""
        frames = chain(self.first, self.pump.outgoing(number))
        return self._tapped((frame, self.wire.encode(frame)) for frame in frames)

    def read(self, raws: Iterable[bytes], number: int) -> bool:
        """See ``ClientCall``."""
        own = self._own_wire()
        return self._call.read(self._tapped((own.decode(raw), raw) for raw in raws), number)

    def _own_wire(self) -> Wire:
        """Return what reads the messages that come, beside the call's own."""
        match self.first:
            case (f.Attach(stream_id=stream_id),):
                return TransferWire(stream_id)
        return SessionWire()

    def _tapped(self, messages: Iterable[tuple[f.Frame, bytes]]) -> Iterator[bytes]:
        for frame, raw in messages:
            try:
                yield self._act(self, frame, raw)
            except Lost:
                self._cut()
                return


class TappedCarrier:
    """A client's carrier whose messages ``act`` sees; see ``ControlCarrier``."""

    def __init__(self, carrier: Any, act: Act) -> None:
        self._carrier, self._act = carrier, act

    def carry(self, call: ClientCall) -> CallEnd:
        end: CallEnd = self._carrier.carry(TappedCall(call, self._act))
        return end

    def renew(self) -> None:
        self._carrier.renew()

    def close(self) -> None:
        self._carrier.close()

    def wait_ready(
        self, seconds: float, *, is_final: Callable[[], bool], cancel: CancelToken
    ) -> Readiness:
        ready: Readiness = self._carrier.wait_ready(seconds, is_final=is_final, cancel=cancel)
        return ready

    def failure(self, seconds: float) -> str:
        return str(self._carrier.failure(seconds))


class Dialing:
    """Makes one client's dialer, and notes what that is told.

    Args:
        act: sees each message, and may change it.
        change: is given each request, and returns what the client takes it for.
        carriers: what its calls go over; by default those to the address.
    """

    def __init__(
        self,
        act: Act = unchanged,
        *,
        change: Callable[[f.Request], f.Request] = lambda request: request,
        carriers: Callable[[LinkConfig], Carriers] | None = None,
    ) -> None:
        self.act, self.change, self.carriers = act, change, carriers
        self.dialer: Dialer
        self.sessions: list[Session] = []
        self.requests: list[f.Request] = []
        self.tries = threading.Semaphore(0)
        """Released each time that it connects."""
        self.fault: BaseException | None = None
        """What connecting raises."""

    def __call__(
        self,
        address: str,
        config: LinkConfig,
        *,
        clock: Clock,
        name: str,
        traffic: Traffic | None = None,
        cancel: CancelToken | None = None,
    ) -> Dialer:
        own = self.carriers
        carriers = own(config) if own else carriers_to(address, config, clock=clock)
        tapped = Carriers(*(TappedCarrier(each, self.act) for each in carriers))
        self.dialer = _Watched(
            address, config, tapped, name=name, clock=clock, traffic=traffic, cancel=cancel, by=self
        )
        return self.dialer

    def answer(self, spec: ModelSpec, attempt: Attempt) -> SendTransfer:
        """Open the stream that the last request wants back, for whatever ``attempt``."""
        session, request = self.sessions[-1], self.requests[-1]
        model = SendTransfer(
            session.config,
            spec,
            stream_id=request.returns,
            peer_name=session.peer_name,
            name="an answer",
            attempt=attempt,
            clock=session.clock,
        )
        self.dialer.open_transfer(session, pump_of(model))
        return model


class _Watched(Dialer):
    def __init__(self, *given: Any, by: Dialing, **named: Any) -> None:
        super().__init__(*given, **named)
        self._by = by

    def connect(
        self, on_request: Callable[[Session, f.Request], None], *rest: Any, **named: Any
    ) -> Session:
        by = self._by

        def changed(session: Session, request: f.Request) -> None:
            by.requests.append(request)
            on_request(session, by.change(request))

        by.tries.release()
        if by.fault is not None:
            raise by.fault
        session = super().connect(changed, *rest, **named)
        by.sessions.append(session)
        return session
