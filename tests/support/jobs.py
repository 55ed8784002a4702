"""A job for tests: a federation in one process, a store, and rounds that run in a thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Self

from streamlink.config import LinkConfig, RoundConfig
from streamlink.errors import RoundError
from streamlink.executors.streaming import StreamingExecutor
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.report import RoundReport
from streamlink.stores.memory import MemoryStore
from tests.support.peers import (
    SMALL,
    WAIT,
    Array,
    Federation,
    Gate,
    Site,
    assert_same,
    executor,
    initial,
    mean_of,
)


class Job:
    """A federation, a store, and rounds that run in a thread."""

    def __init__(
        self,
        link: LinkConfig = SMALL,
        *,
        arrays: dict[str, Array] | None = None,
        extras: Mapping[str, Any] | None = None,
        federation: Federation | None = None,
        **rules: Any,
    ) -> None:
        self.federation = federation or Federation(link)
        self.store = MemoryStore(initial() if arrays is None else arrays)
        self.extras = dict(extras or {})
        """What else ``ScatterAndGather`` is given."""
        self.rules = RoundConfig.model_validate({"num_rounds": 1, "min_clients": 2, **rules})
        self.done: Future[list[RoundReport]] = Future()
        self.at_end: list[threading.Event] = []
        """What is set at the end, so that a client that waits can leave."""

    def site(self, number: int, executor_: object = None, weight: float = 1.0) -> Site:
        return self.federation.client(
            f"site-{number}",
            executor_ or executor(number, weight),  # type: ignore[arg-type]
        )

    def gated(self, number: int, tensor: str = "bf16") -> tuple[Gate, Site]:
        gate = Gate(number, tensor)
        self.at_end.append(gate.opens)
        return gate, self.site(number, StreamingExecutor(gate))

    def start(self, clients: int) -> None:
        self.federation.server.wait_for_peers(clients, WAIT)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            server, extras = self.federation.server, self.extras
            job = ScatterAndGather(server, self.store, self.rules, job="test", **extras)
            self.done.set_result(job.run())
        except BaseException as error:
            self.done.set_exception(error)

    def report(self) -> RoundReport:
        (report,) = self.reports()
        return report

    def reports(self) -> list[RoundReport]:
        return self.done.result(WAIT)

    def failure(self) -> RoundError:
        error = self.done.exception(WAIT)
        assert isinstance(error, RoundError), error
        return error

    def assert_mean_of(self, *numbers: int) -> None:
        assert_same(self.store.arrays, mean_of(initial(), dict.fromkeys(numbers, 1.0)))

    def assert_unchanged(self) -> None:
        assert_same(self.store.arrays, initial())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for event in self.at_end:
            event.set()
        self.federation.__exit__(None, None, None)
