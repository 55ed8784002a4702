"""A hub, a client, and streams between them over several connections, each through a proxy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from benchmarks.closing import Closing
from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer import Receipt
from streamlink.model.interfaces import ModelSink
from streamlink.protocol.stats import StreamStats
from streamlink.stores.memory import MemoryStore
from streamlink.transport.carriers import DataSession
from streamlink.transport.connect import data_carrier_to
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.memory import MemoryNetwork
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump
from streamlink.transport.tcp.listener import TcpListener
from tests.support.carrier_contract import HalfGated
from tests.support.lane_proxy import LaneProxy, Line
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, config, until
from tests.support.pumps import pump_of

__all__ = ["SPEC", "LaneLab", "Moved", "with_lanes"]

SPEC = float_spec(400_001, 0, 3)
Carry = Callable[[SendPump | ReceivePump, int], None]
"""``carry(pump, stream_id)`` has the client's end of a stream carried from now on."""


def with_lanes(
    lanes: int, *, most: int = 4, call_timeout: float = 20.0, **stream: Any
) -> LinkConfig:
    """Return small settings for so many connections; 0: as many as make a stream faster."""
    return config(stream={"lanes": lanes, "max_lanes": most, **stream}, call_timeout=call_timeout)


class LaneLab(Closing):
    """Both ends in this process. All end with it.

    Args:
        dialing: settings of the client.
        listening: settings of the server; None: the same.
    """

    def __init__(self, dialing: LinkConfig, listening: LinkConfig | None = None) -> None:
        network = MemoryNetwork(running_time)
        self.config = dialing
        self.hub = Hub(
            listening or dialing,
            [network.listen],
            data=[DataOffer("tcp", lambda hub: TcpListener("127.0.0.1:0", hub))],
            clock=running_time,
        ).listen()
        self.where = ("127.0.0.1", self.hub.data_ports[0].port)
        self._stack = ExitStack()
        self.proxy = self._stack.enter_context(LaneProxy(self.where[1]))
        self.dialer = Dialer(
            "memory",
            dialing,
            network.carriers(),
            name="site-1",
            clock=running_time,
            open_data=lambda offered, session: data_carrier_to(
                "127.0.0.1:1",
                [replace(each, port=self.proxy.port) for each in offered],
                session,
                dialing,
                running_time,
            ),
            hold_seconds=WAIT,
        )
        self.near = self.dialer.connect(lambda session, request: None)
        (self.far,) = self.hub.sessions
        self.session = DataSession(
            self.near.session_id, self.hub.epoch, self.hub.data_key(self.near.session_id)
        )

    def close(self) -> None:
        """End it."""
        self.dialer.close()
        self.hub.close(has_failed=True)
        self._stack.close()

    def move(
        self, direction: str, *, sink_waits: bool = False, carry: Carry | None = None
    ) -> Moved:
        """Begin to move a model ``up``, to the hub, or ``down``; its second half is held back.

        Args:
            direction: up or down.
            sink_waits: its sink takes nothing until then, either.
            carry: carries the client's end; None: the dialer does.
        """
        carry = carry or (lambda pump, _: self.dialer.open_transfer(self.near, pump))
        return Moved(self, is_up=direction == "up", sink_waits=sink_waits, carry=carry)


class _Gated:
    """A sink that takes its first byte after ``gate``, and lends nothing."""

    def __init__(self, sink: ModelSink, gate: Callable[[], None]) -> None:
        self._sink, self._gate, self.spec = sink, gate, sink.spec
        self.commit, self.discard = sink.commit, sink.discard

    def write(self, offset: int, payload: memoryview) -> None:
        self._gate()
        self._sink.write(offset, payload)


class Moved:
    """One model on its way; ``go_on`` releases its second half."""

    def __init__(self, lab: LaneLab, *, is_up: bool, sink_waits: bool, carry: Carry) -> None:
        number, self._lab, self._is_up = lab.hub.new_stream_id(), lab, is_up
        source, target = (lab.near, lab.far) if is_up else (lab.far, lab.near)
        facts: dict[str, Any] = {"stream_id": number, "name": "model", "clock": running_time}
        self.outgoing = SendTransfer(source.config, SPEC, peer_name="its receiver", **facts)
        self.incoming = ReceiveTransfer(target.config, peer_name="its sender", **facts)
        self.stream_id = number
        self._pumps = pump_of(self.outgoing), pump_of(self.incoming)
        near, far = self._pumps if is_up else reversed(self._pumps)
        lab.far.offer(far)
        lab.hub.ticker.add(far)
        self._first = len(lab.proxy.lines)
        carry(near, number)
        self._gate, self._store = threading.Event(), MemoryStore()
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._ends: list[Future[Receipt]] = [
            self._pool.submit(
                send_model, self.outgoing, HalfGated(pattern_model(SPEC), self._wait_gate)
            ),
            self._pool.submit(receive_model, self.incoming, lambda _: self._sink(sink_waits)),
        ]

    def _sink(self, waits: bool) -> ModelSink:
        sink = self._store.begin(SPEC)
        return _Gated(sink, self._wait_gate) if waits else sink

    def _wait_gate(self) -> None:
        assert self._gate.wait(WAIT)

    @property
    def pumps(self) -> tuple[SendPump, ReceivePump]:
        """What drives its two ends."""
        return self._pumps

    @property
    def near_pump(self) -> SendPump | ReceivePump:
        """What drives the client's end."""
        return self._pumps[0] if self._is_up else self._pumps[1]

    @property
    def lines(self) -> list[Line]:
        """The connections that it has had, in the order in which they came."""
        return self._lab.proxy.lines[self._first :]

    def wait_lanes(self, count: int) -> list[Line]:
        """Wait until so many connections carry it at both ends."""
        until(lambda: all(pump.calls == count for pump in self._pumps))
        # Not those that were given up meanwhile, as a busy machine may have it.
        return [each for each in self.lines if each.is_live][-count:]

    def payload(self, line: Line) -> int:
        """Return how many bytes a connection has brought in the direction of the model."""
        return line.up if self._is_up else line.down

    def go_on(self) -> None:
        """Release the second half."""
        self._gate.set()

    def finish(self) -> StreamStats:
        """Let it arrive; returns what its sender measured."""
        self.go_on()
        sent, _ = (each.result(WAIT) for each in self._ends)
        self._pool.shutdown()
        assert content(self._store.open()) == content(pattern_model(SPEC))
        return sent.stats
