"""Rounds with a client that cheats beside two that do not: those finish, with the right mean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamlink.model.digest import digest_of
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from streamlink.transport.messages import encode_spec
from tests.support.hostile import HostileClient, Line
from tests.support.jobs import Job
from tests.support.machines import KiB
from tests.support.models import content
from tests.support.peers import WAIT, Array, assert_same, config, initial, mean_of

SPEC = ModelSpec((TensorSpec("w", "F32", (701,)), TensorSpec("n", "I64", (3,))))
ARRAYS: dict[str, Array] = initial(SPEC)
RAW = content(MemoryStore(ARRAYS).open())
DIGEST = digest_of(MemoryStore(ARRAYS).open())
ODD_NAMES = ("../../../etc/x", "a/b", "..", "é" * 63 + "?*", "~" * 128)
LINK = config(open_timeout=WAIT, reconnect_timeout=0.5, call_timeout=WAIT)


@dataclass
class Cheat:
    """A client that was asked for an update, and the call that would carry it."""

    hostile: HostileClient
    session: Line
    session_id: str
    request: f.Request

    def take(self) -> None:
        """Receive the model, as a client would that keeps to the protocol."""
        line = self.hostile.attached(self.session_id, self.request.sends)
        line.hear(f.Open)
        line.say(f.Accept(0, len(RAW), 4 * KiB))
        digest = line.hear(f.Finish).digest
        line.say(f.Ack(len(RAW), len(RAW), len(RAW), len(RAW)), f.Commit(digest))

    def line(self) -> Line:
        return self.hostile.attached(self.session_id, self.request.returns)

    def update(
        self, raw: bytes = RAW, digest: str = DIGEST, metrics: Any = None, **changes: Any
    ) -> None:
        """Send an update, whole, as a client would that keeps to the protocol."""
        line = self.line()
        line.say(self.an_open(**changes)).hear(f.Accept)
        line.say(f.Chunk(0, 0, (memoryview(raw),)), f.Finish(len(raw), digest, metrics or {}))

    def an_open(self, **changes: Any) -> f.Open:
        fields: dict[str, Any] = {"attempt": self.request.attempt, "total_bytes": len(RAW)}
        fields |= {"spec_digest": SPEC.digest, "spec_pages": 1, "chunk_bytes": 4 * KiB}
        return f.Open(self.request.returns, **{**fields, **changes})


def another_model(cheat: Cheat) -> None:
    line = cheat.line()
    line.say(cheat.an_open(spec_digest=b"another")).hear(f.Accept)
    line.say(f.SpecPage(0, encode_spec([("w", "F32", (707,))], 1 << 20)[0]))


def twice_at_once(cheat: Cheat) -> None:
    for line in (cheat.line(), cheat.line()):
        line.say(cheat.an_open(), f.Chunk(0, 0, (memoryview(RAW),)))
    try:
        line.hear(f.Accept)  # unless it was the first of them that came last
    finally:
        cheat.session.end()  # nobody waits for the rest


def replays(cheat: Cheat) -> None:
    asked = cheat.request.attempt
    cheat.update(attempt=f.Attempt(asked.job, asked.round, asked.attempt - 1))


def weighing(weight: float) -> Callable[[Cheat], None]:
    return lambda cheat: cheat.update(update=f.Update(weight))


def gone(cheat: Cheat) -> None:
    cheat.update(raw=RAW[:1000])
    cheat.session.end()


def failing(cheat: Cheat) -> None:
    reason = "\x1b[2J\r\nforged: all is well\u202e" + "x" * 4000
    cheat.session.say(f.Reply(cheat.request.request_id, error=reason, traceback=reason))


CHEATS: dict[str, Callable[[Cheat], None]] = {
    "another model": another_model,
    "a weight that is no number": weighing(float("nan")),
    "a weight beyond all others": weighing(1e300),
    "metrics that are no numbers": lambda cheat: cheat.update(metrics={"loss": float("nan")}),
    "a digest of something else": lambda cheat: cheat.update(digest="\x1b[2J\nforged"),
    "the attempt before": replays,
    "two calls at once": twice_at_once,
    "half of it": gone,
    "a failure with a forged reason": failing,
}


class Cheating:
    """Answers every request to a client of that name with ``cheat``, until it is closed."""

    def __init__(self, address: str, name: str, cheat: Callable[[Cheat], None]) -> None:
        self.hostile = HostileClient(address)
        self.session, self._welcome = self.hostile.greeted(name, session_timeout=30.0)
        self._cheat = cheat
        self.asked = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(AssertionError):  # the server has ended the call, or said no more
            while True:
                request = self.session.hear(f.Request)
                self.asked += 1
                arguments = self.hostile, self.session, self._welcome.session_id, request
                with suppress(AssertionError):
                    cheat = Cheat(*arguments)
                    cheat.take()
                    self._cheat(cheat)

    def close(self) -> None:
        self.session.say(f.Goodbye("over"))
        self._thread.join(WAIT)
        self.hostile.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(gather: str) -> Job:
        extras = {"spool": tmp_path / "spool"} if gather == "spool" else {}
        rules: dict[str, Any] = {
            "gather": gather,
            "max_attempts": 5,
            "wait_time_after_min_received": 0.0,
        }
        jobs.append(Job(LINK, arrays=dict(ARRAYS), extras=extras, **rules))
        return jobs[-1]

    yield make
    for job in jobs:
        job.__exit__()


@pytest.mark.product
@pytest.mark.parametrize("gather", ["lockstep", "spool"])
@pytest.mark.parametrize("what", CHEATS)
def test_two_clients_finish_their_round_beside_one_that_cheats(
    what: str, gather: str, make: Callable[..., Job]
) -> None:
    job = make(gather)
    cheating = Cheating(job.federation.address, "evil", CHEATS[what])
    try:
        job.site(0), job.site(1)
        job.start(3)
        report = job.report()
    finally:
        cheating.close()
    assert cheating.asked
    assert sorted(report.weights) == ["site-0", "site-1"]
    assert report.metrics == {}
    assert_same(job.store.arrays, mean_of(ARRAYS, {0: 1.0, 1: 1.0}))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_never_becomes_a_path_of_the_spool(
    name: str, make: Callable[..., Job], tmp_path: Path
) -> None:
    job = make("spool")
    seen: set[str] = set()

    def cheat(cheat: Cheat) -> None:
        seen.update(each.name for each in tmp_path.rglob("*"))
        cheat.update()
        cheat.session.say(f.Reply(cheat.request.request_id))

    cheating = Cheating(job.federation.address, name, cheat)
    try:
        job.site(0)
        job.start(2)
        report = job.report()
    finally:
        cheating.close()
    seen |= {each.name for each in tmp_path.rglob("*")}
    assert sorted(report.weights) == sorted(["site-0", name])
    assert "spool" in seen
    assert not [each for each in seen if name in each and name != ".."]
    assert {each.name for each in tmp_path.iterdir()} <= {"spool"}
