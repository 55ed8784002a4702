"""Two session machines on one virtual line: a client that calls again, and a server that answers.

No thread, no socket, no clock: time moves to whatever happens next.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

from streamlink.config import LinkConfig
from streamlink.errors import CommunicationTimeout
from streamlink.protocol.events import ReplyReceived, RequestFailed, RequestReceived
from streamlink.protocol.frames import Frame, Hello, Request
from streamlink.protocol.session import SessionMachine
from tests.support.machines import a_hello
from tests.support.virtual_line import Fault, VirtualLine

FRAME_BYTES = 64
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SessionScript:
    """What happens, all of it decided beforehand. Times in seconds."""

    latency: float = 0.01
    jitter: tuple[float, ...] = ()
    faults: tuple[Fault, ...] = ()
    damaged: frozenset[int] = frozenset()
    """Frames that arrive damaged, counted over all calls: the call is given up."""
    asks: tuple[float, ...] = ()
    """When the server asks the client."""
    work_seconds: float = 1.0
    pause_seconds: float = 0.5
    """Between the client's tries to make a new call."""


class VirtualSession:
    """Carries a client's and a server's session under a ``SessionScript``."""

    def __init__(self, config: LinkConfig, script: SessionScript) -> None:
        self.now = 0.0
        self.asked = 0
        self.done: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.given_up: Counter[int] = Counter()
        """Requests that stood still for ``communication_timeout``."""
        hello = a_hello(session_timeout=config.timeouts.session_timeout)
        assert isinstance(hello, Hello)
        self.client = SessionMachine(config, peer_name="server", hello=hello)
        self.server = SessionMachine(config, peer_name="client")
        self.closed_at: dict[str, float] = {}
        self._script = script
        self._line = VirtualLine(script.latency, script.jitter, faults=script.faults)
        self._on_the_way: list[tuple[float, int, int, str, Frame]] = []
        self._asks = sorted(script.asks)
        self._work: list[tuple[float, int]] = []
        self._call = 0
        self._carried_by = {"client": 0, "server": 0}
        self._said = self._heard = 0
        self._try_at: float | None = None
        self._greet()

    def run(self, until: float) -> None:
        """Let things happen until ``until``, or both have ended."""
        while self.now <= until and not (self.client.is_closed and self.server.is_closed):
            self._act()
            following = self._next_time()
            if following > until:
                return
            self.now = max(self.now, following)

    def _greet(self) -> None:
        """Begin on a line that works: what comes after that is the test."""
        for machine in (self.client, self.server):
            machine.attach(now=0.0)
        for frame in self.client.frames_to_send(now=0.0):
            self.server.receive(frame, now=0.0)
        self.server.welcome("id", "epoch", now=0.0)
        for frame in self.server.frames_to_send(now=0.0):
            self.client.receive(frame, now=0.0)
        while self.client.next_event() or self.server.next_event():
            pass

    # --- what is due now ----------------------------------------------------------------

    def _act(self) -> None:
        if (cut := self._line.cut_now(self.now)) is not None:
            self._lose(cut.side)
        self._arrive()
        for machine in (self.client, self.server):
            deadline = machine.next_deadline()
            if deadline is not None and deadline <= self.now + _ROUNDING:
                machine.handle_timer(now=max(self.now, deadline))
        self._call_again()
        self._ask_and_answer()
        for side in ("client", "server"):
            self._heed(side)
            self._send(side)
            if self._machine(side).is_closed:
                self.closed_at.setdefault(side, self.now)

    def _lose(self, only: str = "") -> None:
        """Let the call end, at one end or both; nothing of it arrives any more."""
        self._on_the_way.clear()
        for side in ("client", "server"):
            machine = self._machine(side)
            if only in ("", side) and machine.is_attached:
                machine.detach(now=self.now)
        self._call += 1

    def _call_again(self) -> None:
        client = self.client
        if client.is_closed or client.is_attached:
            return
        if self._try_at is None:
            self._try_at = self.now + self._script.pause_seconds
        self._try_at = self._line.open_at(self._try_at)
        if self.now >= self._try_at:
            self._call += 1
            self._carried_by["client"] = self._call
            self._try_at = None
            self._on_the_way.clear()
            self._line.new_call()
            client.attach(now=self.now)

    def _ask_and_answer(self) -> None:
        server, client = self.server, self.client
        while self._asks and self.now >= self._asks[0]:
            self._asks.pop(0)
            if not server.is_closed and (server.is_disconnected or self._is_ready(server)):
                server.request("work", now=self.now)
                self.asked += 1
        while self._work and self.now >= self._work[0][0]:
            _, number = heapq.heappop(self._work)
            if not client.is_closed:
                client.reply(number)
                self.done[number] += 1

    @staticmethod
    def _is_ready(machine: SessionMachine) -> bool:
        return machine.state.name == "READY"

    def _heed(self, side: str) -> None:
        machine = self._machine(side)
        while (event := machine.next_event()) is not None:
            match event:
                case RequestReceived(Request() as request):
                    due = (self.now + self._script.work_seconds, request.request_id)
                    heapq.heappush(self._work, due)
                case ReplyReceived(reply):
                    assert not reply.error
                    self.answered[reply.request_id] += 1
                case RequestFailed(number, error):
                    assert isinstance(error, CommunicationTimeout)
                    self.given_up[number] += 1

    # --- the line -----------------------------------------------------------------------

    def _send(self, side: str) -> None:
        machine, other = self._machine(side), "server" if side == "client" else "client"
        call = self._carried_by[side]
        if not machine.is_attached:
            return
        for frame in machine.frames_to_send(now=self.now):
            self._said += 1
            if call != self._call:
                continue  # a call that only this end takes for alive
            arrives = self._line.carry(side, FRAME_BYTES, now=self.now)
            if arrives is not None:
                heapq.heappush(self._on_the_way, (arrives, self._said, call, other, frame))

    def _arrive(self) -> None:
        while self._on_the_way and self._on_the_way[0][0] <= self.now:
            _, _, call, side, frame = heapq.heappop(self._on_the_way)
            self._heard += 1
            if self._heard in self._script.damaged:
                self._lose()
                return
            machine = self._machine(side)
            if side == "server" and call != self._carried_by[side]:
                self._carried_by[side] = call
                if machine.is_attached:
                    machine.detach(now=self.now)
                machine.attach(now=self.now)
            if machine.is_attached:
                machine.receive(frame, now=self.now)

    def _next_time(self) -> float:
        times = [entry[0] for entry in self._on_the_way[:1]]
        times += [self._line.next_time()]
        times += self._asks[:1] + [at for at, _ in self._work[:1]]
        if self._try_at is not None and not self.client.is_closed and not self.client.is_attached:
            times.append(self._try_at)
        for machine in (self.client, self.server):
            deadline = machine.next_deadline()
            times += [] if deadline is None else [deadline]
        return min(times)

    def _machine(self, side: str) -> SessionMachine:
        return self.client if side == "client" else self.server
