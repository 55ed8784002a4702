"""Rounds of processes, one client of which is behind a line that fails in one direction, or ages.

A hole has to be as long as the deadlines it outlives, so these tests take seconds; they wait for
what the server's log says, and for no time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pytest

from streamlink.model.spec import ModelSpec, TensorSpec
from tests.support.forked import Fork
from tests.support.peers import WAIT, assert_same, initial, mean_of
from tests.support.processes import fact
from tests.support.relay import Relay, Step
from tests.support.round_processes import LINK, Job

pytestmark = pytest.mark.processes

FOUR = ModelSpec(tuple(TensorSpec(f"t{n}", "F32", (1 << 16,)) for n in range(4)))
"""Of 1 MiB: so far more than the windows that neither direction can end alone."""

Way = Literal["up", "down"]
NEAR, FAR = 0, 1
SILENCE, RECONNECT = 4.0, 2.5
"""So long that a busy machine lets the near client, which keeps the same deadlines, be heard."""

TIMEOUTS = {
    "heartbeat_interval": 0.2,
    "session_timeout": SILENCE,
    "reconnect_timeout": RECONNECT,
    "rejoin_timeout": 0.0,
}
SHORT: dict[str, Any] = {**LINK, "timeouts": TIMEOUTS}
COMES_BACK = {**LINK, "timeouts": {**TIMEOUTS, "rejoin_timeout": 60.0}}
WINDOW = SHORT["stream"]["window_bytes"]
RESETS_AFTER = (300_000, 600_000, 900_000)
"""After so many bytes of both updates together: fewer than one of them has."""

LONG = 60.0
"""A grace time that a busy machine does not use up (seconds)."""


class Relayed(Job):
    """A job whose log is read, and whose clients ``far`` come through a relay.

    With ``tcp`` as ``carrier`` the relay forwards the data port, too, so their models travel over
    TCP; with ``grpc`` they travel beside the sessions.
    """

    def __init__(
        self,
        folder: Path,
        *,
        carrier: str,
        far: tuple[int, ...] = (FAR,),
        far_link: Any = LINK,
        **facts: Any,
    ) -> None:
        self._far, self._far_link = far, far_link
        self._has_data_port = carrier == "tcp"
        self.relay: Relay | None = None
        self._log = folder / "server.log"
        super().__init__(folder, model=FOUR, log=self._log, min_clients=1, **facts)

    def client(self, number: int, fate: str = "", **facts: Any) -> Fork:
        """Start a client, through the relay where it is a far one."""
        if number in self._far:
            facts |= {"port": self.line.port, "link": self._far_link}
        return super().client(number, fate, **facts)

    @property
    def line(self) -> Relay:
        """The relay; begun when the first client needs it."""
        if self.relay is None:
            self.relay = Relay("127.0.0.1", self._port, with_data_port=self._has_data_port)
        return self.relay

    def said(self, event: str, **facts: object) -> list[Mapping[str, Any]]:
        """Return what the server's log has of an event so far."""
        whole = self._log.read_text().rpartition("\n")[0] if self._log.exists() else ""
        lines = [json.loads(line) for line in whole.splitlines()]
        return [one for one in lines if {"event": event, **facts}.items() <= one.items()]

    def says(self, event: str, **facts: object) -> Mapping[str, Any]:
        """Wait until the server's log has an event, and return it."""
        until = time.monotonic() + WAIT
        while not (found := self.said(event, **facts)):
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.02)
        return found[0]

    def struck(self, way: Way) -> None:
        """In the middle of its update, let nothing come through in one direction any more."""
        self.reached(FAR)
        self.line.black_hole(way)
        self.go_on(FAR)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if self.relay is not None:
            self.relay.close()


def a_job(
    folder: Path, gather: str, *, carrier: str, grace: float, link: Mapping[str, Any]
) -> Relayed:
    """Two clients; the far one waits in the middle of its update."""
    return Relayed(
        folder,
        carrier=carrier,
        gather=gather,
        fates={NEAR: "", FAR: "wait@t2"},
        wait_time_after_min_received=grace,
        link=SHORT,
        far_link=link,
    )


def assert_named_in_time(job: Relayed) -> None:
    """The log has named the far client alone, and the time it was given was what was set."""
    lost = job.says("session lost", peer="site-1")
    given = re.search(r"for up to ([0-9.]+) s", lost["message"])
    assert given
    assert RECONNECT <= float(given[1]) <= RECONNECT * 4 / 3 + 0.1
    job.says("session ended", peer="site-1")
    assert not job.said("session ended", peer="site-0")


def assert_mean_of(job: Relayed, *numbers: int) -> None:
    assert fact(job.server, "digest")
    assert_same(job.model(), mean_of(initial(FOUR), dict.fromkeys(numbers, 1.0)))


# --- one direction only -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "gather", "carrier"),
    [
        ("up", "lockstep", "grpc"),
        ("up", "lockstep", "tcp"),
        ("down", "lockstep", "tcp"),
        ("down", "spool", "grpc"),
    ],
)
def test_a_line_that_stays_silent_one_way_costs_the_round_that_client_alone(
    way: Way, gather: str, carrier: str, tmp_path: Path
) -> None:
    # Through a spool it would be left out as late before it is missed, were the grace time shorter.
    grace = 0.2 if gather == "lockstep" else SILENCE + 2 * RECONNECT
    with a_job(tmp_path, gather, carrier=carrier, grace=grace, link=SHORT) as job:
        job.struck(way)
        assert_named_in_time(job)
        report = fact(job.server, "contributors")
        assert report["contributors"] == ["site-0"]
        assert list(report["failures"]) == ["site-1"]
        assert report["attempt"] == (2 if gather == "lockstep" else 1)
        assert "server 127.0.0.1" in fact(job.clients[FAR], "ended")
        assert fact(job.clients[NEAR], "seen") >= FOUR.nbytes
        assert_mean_of(job, NEAR)


@pytest.mark.parametrize(
    ("way", "gather", "carrier"), [("down", "lockstep", "grpc"), ("up", "spool", "tcp")]
)
def test_a_line_that_heals_after_its_client_was_missed_costs_nothing_but_time(
    way: Way, gather: str, carrier: str, tmp_path: Path
) -> None:
    with a_job(tmp_path, gather, carrier=carrier, grace=LONG, link=COMES_BACK) as job:
        job.struck(way)
        assert_named_in_time(job)
        job.line.resume()
        job.line.reset()  # a connection that has lost bytes is of no use to anybody
        report = fact(job.server, "contributors")
        assert report["contributors"] == ["site-0", "site-1"]
        assert report["failures"] == {}
        if gather == "lockstep":  # through a spool each time a client is asked counts
            assert report["attempt"] == 1
        assert fact(job.clients[NEAR], "seen") == FOUR.nbytes  # it was asked for nothing again
        assert_mean_of(job, NEAR, FAR)


# --- a proxy that ends long streams -----------------------------------------------------------


@pytest.mark.parametrize(
    ("gather", "carrier"), [("lockstep", "tcp"), ("lockstep", "grpc"), ("spool", "grpc")]
)
def test_a_proxy_that_ends_long_streams_costs_a_round_resumes_only(
    gather: str, carrier: str, tmp_path: Path
) -> None:
    rules: dict[str, Any] = {"carrier": carrier, "gather": gather}
    rules |= {"fates": {NEAR: "wait@t0", FAR: "wait@t0"}}
    patient = {**LINK, "timeouts": {**TIMEOUTS, "session_timeout": LONG, "reconnect_timeout": LONG}}
    rules |= {"link": patient, "far_link": patient}
    with Relayed(tmp_path, far=(NEAR, FAR), wait_time_after_min_received=LONG, **rules) as job:
        for number in (NEAR, FAR):
            job.reached(number)
        job.line.play(
            [Step(action=Relay.reset, after_bytes=n, direction="up") for n in RESETS_AFTER]
        )
        for number in (NEAR, FAR):
            job.go_on(number)
        report = fact(job.server, "contributors")
        assert report["contributors"] == ["site-0", "site-1"]
        assert (report["attempt"], report["failures"]) == (1, {})
        wire = fact(job.server, "digest")["wire"]
        assert_same(job.model(), mean_of(initial(FOUR), {NEAR: 1.0, FAR: 1.0}))
        for client in job.clients.values():
            assert fact(client, "seen") == FOUR.nbytes
        transfers = job.said("transfer done")
    resumes = {(one["peer"], one["direction"]): one["resumes"] for one in transfers}
    assert len(resumes) == 4
    assert min(resumes.values()) >= 1
    again = sum(resumes.values()) * WINDOW
    assert sum(wire) < 1.05 * 4 * FOUR.nbytes + again
