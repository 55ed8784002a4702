"""A whole job on virtual time: a server, its clients and its rounds, in memory and in threads.

Everything waits through one ``VirtualClock``, so hours of waiting take no time, and a test can say
to the second when something happens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig, RoundConfig
from streamlink.executors.executor import Executor, serve
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.server import Server
from streamlink.model.computed import RangeFunction
from streamlink.model.spec import TensorSpec
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.report import RoundReport
from streamlink.stores.memory import MemoryStore
from streamlink.timers import start_timer
from streamlink.transport.carriers import CallEnd, ClientCall, Readiness
from streamlink.transport.connect import carriers_to
from streamlink.transport.dialer import Carriers, Dialer
from streamlink.transport.traffic import TrafficCounter
from tests.support.peers import SMALL, WAIT, Array, assert_same, initial, mean_of, trained
from tests.support.virtual_clock import VirtualClock

__all__ = ["Cable", "VirtualJob", "acting_at"]

_names = itertools.count(1)

Serve = Callable[[Assignment], None]


class Cable:
    """A client's connections to its server, which can be pulled and mended."""

    def __init__(self) -> None:
        self.is_pulled = False
        self._carriers: list[_Plugged] = []

    def __call__(
        self,
        address: str,
        config: LinkConfig,
        *,
        clock: Clock,
        name: str,
        traffic: TrafficCounter | None = None,
        cancel: CancelToken | None = None,
    ) -> Dialer:
        """Return a dialer over this cable; see ``Dial``."""
        carriers = carriers_to(address, config, clock=clock)
        self._carriers = [_Plugged(each, self, clock) for each in carriers]
        return Dialer(
            address,
            config,
            Carriers(*self._carriers),
            name=name,
            clock=clock,
            traffic=traffic,
            cancel=cancel,
        )

    def pull(self) -> None:
        """End every call, and let none begin."""
        self.is_pulled = True
        for each in self._carriers:
            each.renew()

    def mend(self) -> None:
        """Let calls begin again."""
        self.is_pulled = False


class _Plugged:
    """A carrier over a cable; see ``ControlCarrier``."""

    def __init__(self, carrier: Any, cable: Cable, clock: Clock) -> None:
        self._carrier, self._cable, self._clock = carrier, cable, clock
        self.renew, self.close = carrier.renew, carrier.close

    def carry(self, call: ClientCall) -> CallEnd:
        if self._cable.is_pulled:
            return CallEnd.BROKEN
        end: CallEnd = self._carrier.carry(call)
        return end

    def wait_ready(
        self, seconds: float, *, is_final: Callable[[], bool], cancel: CancelToken
    ) -> Readiness:
        if self._cable.is_pulled:
            self._clock.wait(self._clock.event(), seconds)
            return Readiness.NOT_YET
        state: Readiness = self._carrier.wait_ready(seconds, is_final=is_final, cancel=cancel)
        return state

    def failure(self, seconds: float) -> str:
        return "the cable is pulled" if self._cable.is_pulled else ""


def acting_at(number: int, act: Callable[[], object], tensor: str = "bf16") -> RangeFunction:
    """Return the work of client ``number``, which calls ``act`` once, at ``tensor``."""
    work, to_do = trained(number), [act]

    def function(spec: TensorSpec, start: int, values: Array) -> Array:
        if spec.name == tensor and to_do:
            to_do.pop()()
        return work(spec, start, values)

    return function


class VirtualJob:
    """One job; everything of it runs within its ``with`` block, where time passes by itself.

    Args:
        link: settings of both ends.
        spool: where updates are stored; None: in lockstep.
        arrays: the model; by default one of every kind of element.
        rules: settings of the rounds.
    """

    def __init__(
        self,
        link: LinkConfig = SMALL,
        *,
        spool: Path | None = None,
        arrays: dict[str, Array] | None = None,
        **rules: Any,
    ) -> None:
        self.clock = VirtualClock()
        self.began_at = self.clock.now
        self.store = MemoryStore(initial() if arrays is None else arrays)
        self.on_event: Callable[[RoundEvent], object] = lambda _: None
        self.events: list[tuple[float, EventKind, str]] = []
        """What happened: after how many seconds, what, and whose."""
        self._link, self._spool = link, spool
        self._address = f"memory://virtual-{next(_names)}"
        given = {"num_rounds": 1, "gather": "spool" if spool else "lockstep", **rules}
        self._rules = RoundConfig.model_validate(given)
        self._joined = 0
        self._end = ExitStack()

    def site(
        self,
        number: int,
        work: RangeFunction | Executor | None = None,
        *,
        serving: Serve | None = None,
        cable: Cable | None = None,
    ) -> ClientLink:
        """Join client ``number``.

        Args:
            number: what its update depends on.
            work: done to each range, or an executor; by default ``trained``.
            serving: does the whole task instead.
            cable: its connection.
        """
        chosen = work or trained(number)
        executor = StreamingExecutor(chosen) if callable(chosen) else chosen

        def do(assignment: Assignment) -> None:
            serve(executor, assignment)

        client = ClientLink(
            self._address,
            name=f"site-{number}",
            serve=serving or do,
            config=self._link,
            clock=self.clock,
            dial=cable or Cable(),
        )
        self._end.callback(client.close)
        self._joined += 1
        return client.start()

    def slow(self, number: int, seconds: float) -> Serve:
        """Return the work of a client that trains for so long, and reports that it lives."""

        def serving(assignment: Assignment) -> None:
            model, got = assignment.incoming(), MemoryStore()
            receive_model(model, lambda model: got.begin(model.spec))
            with assignment.alive():
                self.sleep(seconds)
            answer = assignment.outgoing(model.spec)
            send_model(answer, MemoryStore(mean_of(got.arrays, {number: 1.0})).open())
            assignment.reply()
            assignment.close(model, answer)

        return serving

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        self.clock.wait(self.clock.event(), seconds)

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Call ``act`` after so many virtual seconds."""
        self._end.callback(start_timer(self.clock, seconds, act).cancel)

    def run(self) -> RoundReport:
        """Run the round in this thread, once the server knows of every client."""
        (report,) = self.reports()
        return report

    def reports(self) -> list[RoundReport]:
        """Run all rounds in this thread, once the server knows of every client."""
        self.server.wait_for_peers(self._joined, WAIT)
        job = ScatterAndGather(
            self.server, self.store, self._rules, spool=self._spool, on_event=self._note
        )
        return job.run()

    @property
    def seconds(self) -> float:
        """How much time has passed."""
        return self.clock.now - self.began_at

    def when(self, what: EventKind, peer: str = "") -> float:
        """Return after how many seconds something happened for the first time."""
        return min(at for at, *which in self.events if which == [what, peer])

    def assert_mean_of(self, *numbers: int) -> None:
        assert_same(self.store.arrays, mean_of(initial(), dict.fromkeys(numbers, 1.0)))

    def assert_unchanged(self) -> None:
        assert_same(self.store.arrays, initial())

    def _note(self, event: RoundEvent) -> None:
        self.events.append((self.seconds, event.kind, event.peer_name))
        self.on_event(event)

    def __enter__(self) -> Self:
        self._end.enter_context(self.clock.running())
        self.server = Server(self._address, self._link, clock=self.clock).listen()
        over = RuntimeError("the test is over")  # no goodbye: a client that is gone answers none
        self._end.callback(self.server.__exit__, RuntimeError, over, None)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()
