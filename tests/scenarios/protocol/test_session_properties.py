"""Two session machines over calls that break anywhere: every request is answered exactly once."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import StreamlinkError
from streamlink.protocol.events import (
    Failed,
    ReplyReceived,
    RequestCancelled,
    RequestFailed,
    RequestReceived,
)
from streamlink.protocol.frames import Frame
from streamlink.protocol.requests import MAX_KEPT
from streamlink.protocol.session import SessionMachine
from streamlink.protocol.states import SessionState
from tests.support.examples import examples
from tests.support.machines import SMALL, a_hello, events
from tests.support.strategies import faults
from tests.support.virtual_line import Fault, Kind
from tests.support.virtual_session import SessionScript, VirtualSession

STEP = 0.1
STEPS = st.sampled_from(
    ["ask", "ask back", "answer", "answer back", "report", "give up", "carry", "carry one", "cut"]
)


class Ends:
    """A client and a server, what is on its way between them, and what their owners know."""

    def __init__(self) -> None:
        self.now = 0.0
        self.client = SessionMachine(SMALL, peer_name="server", hello=a_hello())
        self.server = SessionMachine(SMALL, peer_name="client")
        self.ways: dict[SessionMachine, deque[Frame]] = {
            self.client: deque(),
            self.server: deque(),
        }
        self.to_answer: dict[SessionMachine, list[int]] = {self.client: [], self.server: []}
        self.asked: dict[SessionMachine, Counter[int]] = {}
        self.answered: dict[SessionMachine, Counter[int]] = {}
        self.given_up: dict[SessionMachine, set[int]] = {}
        for end in self.ways:
            self.asked[end], self.answered[end] = Counter(), Counter()
            self.given_up[end] = set()
            end.attach(now=0.0)
        self.carry()
        self.server.welcome("id", "epoch", now=0.0)
        self.carry()

    def other(self, end: SessionMachine) -> SessionMachine:
        return self.server if end is self.client else self.client

    def ask(self, end: SessionMachine) -> None:
        self.asked[end][end.request("work", now=self.now)] += 1

    def answer(self, end: SessionMachine) -> None:
        if self.to_answer[end]:
            number = self.to_answer[end].pop(0)
            end.reply(number, metadata={"n": str(number)})

    def report(self, end: SessionMachine) -> None:
        for number in self.to_answer[end]:
            end.report_progress(number, int(self.now / STEP))

    def give_up(self, end: SessionMachine) -> None:
        still_open = sorted(set(self.asked[end]) - set(self.answered[end]) - self.given_up[end])
        if still_open:
            end.cancel(still_open[-1], "over")
            self.given_up[end].add(still_open[-1])

    def cut(self) -> None:
        for end, way in self.ways.items():
            way.clear()
            end.detach(now=self.now)
        for end in self.ways:
            end.attach(now=self.now)

    def carry(self, most: int = 1 << 30) -> None:
        """Deliver up to so many frames each way, again and again while anything moves."""
        has_moved = True
        while has_moved:
            has_moved = False
            for end, way in self.ways.items():
                way.extend(end.frames_to_send(now=self.now))
                for _ in range(min(most, len(way))):
                    self.other(end).receive(way.popleft(), now=self.now)
                    has_moved = most > 1
            for end in self.ways:
                self.heed(end)

    def heed(self, end: SessionMachine) -> None:
        for event in events(end):
            match event:
                case RequestReceived(request):
                    assert request.request_id not in self.to_answer[end]
                    self.to_answer[end].append(request.request_id)
                case ReplyReceived(reply):
                    assert reply.metadata == {"n": str(reply.request_id)}
                    self.answered[end][reply.request_id] += 1
                case RequestCancelled(number, _) if number in self.to_answer[end]:
                    self.to_answer[end].remove(number)
                case Failed(error) | RequestFailed(_, error):
                    raise error

    def do(self, step: str) -> None:
        self.now += STEP
        match step:
            case "ask":
                self.ask(self.server)
            case "ask back":
                self.ask(self.client)
            case "answer":
                self.answer(self.client)
            case "answer back":
                self.answer(self.server)
            case "report":
                self.report(self.client)
            case "give up":
                self.give_up(self.server)
            case "carry":
                self.carry()
            case "carry one":
                self.carry(1)
            case "cut":
                self.cut()


@given(st.lists(STEPS, max_size=MAX_KEPT))
def test_every_request_is_answered_exactly_once_wherever_calls_break(steps: list[str]) -> None:
    ends = Ends()
    for step in steps:
        ends.do(step)
    ends.carry()
    for end in ends.ways:
        while ends.to_answer[end]:
            ends.answer(end)
    ends.carry()
    for end in ends.ways:
        assert end.state is SessionState.READY
        wanted = set(ends.asked[end]) - ends.given_up[end]
        assert ends.answered[end] == Counter(wanted)


@given(st.lists(st.sampled_from(["ask", "report", "give up", "answer"]), max_size=500))
def test_nothing_piles_up_while_a_session_is_away(steps: list[str]) -> None:
    ends = Ends()
    for _ in range(3):
        ends.do("ask")
    ends.carry()
    for end in ends.ways:
        end.detach(now=ends.now)
    for step in steps:
        ends.do(step)
        assert not any(end._outbox for end in ends.ways)
    for end in ends.ways:
        assert len(end._open_requests._cancelled) <= MAX_KEPT
        assert len(end._served._replies) <= MAX_KEPT
        assert len(end._served._unreported) <= 3


# --- over a line that breaks in every way --------------------------------------------------------

TIMEOUTS = SMALL.timeouts
AFTER = TIMEOUTS.session_timeout + 4 / 3 * TIMEOUTS.reconnect_timeout + 15.0
"""So long after the last fault every session has gone on, or has ended at both ends (seconds): its
silence, the longest patience, and a few tries."""

scripts = st.builds(
    SessionScript,
    latency=st.floats(0.0, 0.5),
    jitter=st.lists(st.floats(0.0, 0.3), max_size=3).map(tuple),
    faults=faults("client", "server"),
    damaged=st.frozensets(st.integers(1, 60), max_size=5),
    asks=st.lists(st.floats(0.0, 100.0), max_size=6).map(tuple),
    work_seconds=st.floats(0.0, 20.0),
    pause_seconds=st.floats(0.05, 2.0),
)


@given(scripts)
@examples(150)
def test_whatever_the_line_does_a_session_goes_on_or_ends_in_time_at_both_ends(
    script: SessionScript,
) -> None:
    session = VirtualSession(SMALL, script)
    last = max([100.0, *(fault.until for fault in script.faults)])
    session.run(until=last + AFTER + script.work_seconds)
    ends = (session.client, session.server)
    for _ in script.damaged:  # each may have cost a call just before we stopped
        if any(end.is_disconnected for end in ends):
            session.run(until=session.now + AFTER)
    if any(end.is_closed for end in ends):
        assert all(end.is_closed for end in ends)
        assert all(isinstance(end.error, StreamlinkError) for end in ends)
        apart = abs(session.closed_at["client"] - session.closed_at["server"])
        assert apart <= AFTER + max([0.0, *(fault.seconds for fault in script.faults)])
    else:
        assert [end.state for end in ends] == [SessionState.READY] * 2
        assert session.answered + session.given_up == Counter(range(1, session.asked + 1))
    assert max(session.done.values(), default=1) == 1
    assert max(session.answered.values(), default=1) == 1


@pytest.mark.parametrize("side", ["client", "server", ""])
@pytest.mark.parametrize("kind", [Kind.STALL, Kind.HOLE, Kind.CUT])
def test_a_session_outlives_a_fault_that_is_short(kind: Kind, side: str) -> None:
    fault = Fault(kind, at=10.0, seconds=20.0, side=side)
    script = SessionScript(faults=(fault,), asks=(5.0, 15.0, 40.0), work_seconds=7.0)
    session = VirtualSession(SMALL, script)
    session.run(until=120.0)
    assert session.client.error is session.server.error is None
    assert session.answered == Counter([1, 2, 3])


@pytest.mark.parametrize("side", ["client", "server", ""])
@pytest.mark.parametrize("kind", [Kind.STALL, Kind.HOLE])
def test_a_session_on_a_line_that_stays_silent_ends_at_both_ends_in_time(
    kind: Kind, side: str
) -> None:
    session = VirtualSession(SMALL, SessionScript(faults=(Fault(kind, 10.0, 1e6, side),)))
    session.run(until=1e5)
    silence, away = TIMEOUTS.session_timeout, TIMEOUTS.reconnect_timeout
    for at in session.closed_at.values():
        assert at <= 10.0 + 2 * silence + away * 4 / 3 + 1.0
    assert set(session.closed_at) == {"client", "server"}
