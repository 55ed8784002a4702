"""Runs one case: a line, two processes in the peer's environment, and what they used."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.integrations.environments import BrokenEnvironment, NoEnvironment, build
from benchmarks.integrations.sides import processes_of
from benchmarks.links import trees
from benchmarks.links.cases import Accuracy, Case, Run, Side
from benchmarks.links.lines import Passed
from benchmarks.links.peers import Peer, found
from benchmarks.links.places import Place, opened
from benchmarks.links.watching import Looks
from benchmarks.processes import REPOSITORY, Worker, WorkerFailed
from benchmarks.stats import commit, environment

__all__ = ["NotInstalled", "TimedOut", "limit_seconds", "measure", "python_of", "version_of"]

START_SECONDS = 300.0
"""How long processes may take to start, on a busy machine (seconds)."""
SLOWEST_BYTES_PER_SECOND = 20e6
"""A peer may be slower than the line, but not than this."""
SLOWER = 4.0
"""How many times as long as its line needs a peer may take."""
MIB = 1 << 20
CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


class NotInstalled(OSError):
    """This machine has not the program that a peer is; the text names it."""


class TimedOut(WorkerFailed):
    """A transfer did not end in the time that it has; another run would take as long."""


def limit_seconds(case: Case) -> float:
    """Return how long a transfer may take: four times what the line allows, and a minute.

    What the machine itself may need comes on top; see ``SLOWEST_BYTES_PER_SECOND``.
    """
    nbytes = case.payload.size_bytes
    return 60.0 + SLOWER * case.line.seconds(nbytes) + nbytes / SLOWEST_BYTES_PER_SECOND


def measure(
    case: Case,
    accuracy: Accuracy | None = None,
    tell: Callable[[str], object] = lambda _: None,
    limit: Callable[[Case], float] = limit_seconds,
) -> Run:
    """Run a case once. What fails is in the run's ``error``: the others go on.

    Args:
        case: what is run.
        accuracy: of its line, as measured before.
        tell: called with a sentence where an environment has to be built.
        limit: returns how long the transfer may take (seconds).
    """
    run = Run(case, accuracy=accuracy, commit=_facts()["commit"], machine=_facts()["machine"])
    run.at = datetime.now(UTC).isoformat(timespec="seconds")
    peer, variant = found()[case.peer]
    try:
        if missing := peer.missing():
            raise NotInstalled(missing)
        run.facts["version"] = version_of(peer)
        _Running(run, peer, variant, python_of(peer, tell), limit(case)).go()
    except (OSError, ValueError, WorkerFailed, NoEnvironment, BrokenEnvironment) as error:
        run.error = f"{type(error).__name__}: {error}"
    return run


def python_of(peer: Peer, tell: Callable[[str], object] = lambda _: None) -> Path:
    """Return the interpreter of a peer's environment; build that if it is not there.

    Raises:
        NoEnvironment: no index here has it.
        BrokenEnvironment: it cannot be built.
    """
    if peer.environment is None:
        return Path(sys.executable)
    return build(peer.module.rpartition(".")[2], tell, peer.environment)


def version_of(peer: Peer) -> str:
    """Return the package that is measured, as it is pinned, or what the program says of itself."""
    return peer.version() if peer.environment is None else peer.environment.framework


def _congestion_control() -> str:
    """Return the kernel's default in the namespace of this thread; empty: it does not say."""
    try:
        return CONGESTION_CONTROL.read_text("ascii").strip()
    except OSError:
        return ""


@lru_cache
def _facts() -> dict[str, Any]:
    """Return commit and machine; they are those of the start of the series."""
    return {**environment(), "commit": commit()}


@dataclass
class _Running:
    """One run while it lasts."""

    run: Run
    peer: Peer
    variant: str
    python: Path
    limit_seconds: float
    name: str = field(default_factory=lambda: f"links-{uuid.uuid4()}")
    """By which all processes of the run are known; see ``sides.processes_of``."""

    def go(self) -> None:
        """Run it; what is seen goes into ``run``."""
        began_at = time.monotonic()
        dials = "receive" if self.peer.listens == "send" else "send"
        with ExitStack() as stack:
            # Before the processes, so removed after them: each is killed if it does not end.
            made = tempfile.TemporaryDirectory(
                prefix="streamlink-links-", ignore_cleanup_errors=True
            )
            folder = Path(stack.enter_context(made))
            stack.callback(_end_all, self.name)
            place = stack.enter_context(opened(self.run.case.line))
            with place.near():
                self.run.line["congestion_control"] = _congestion_control()
            with place.far():
                far = self._worker(self.peer.listens, place.host, 0, folder)
            ends: dict[str, Worker] = {self.peer.listens: stack.enter_context(far)}
            number = int(far.expect("listening", timeout_seconds=START_SECONDS)["number"])
            host, reached = place.reach(number, has_data_port=self.peer.has_data_port)
            with place.near():
                near = self._worker(dials, host, reached, folder)
            ends[dials] = stack.enter_context(near)
            near.expect("ready", timeout_seconds=START_SECONDS)
            self.run.startup_seconds = time.monotonic() - began_at
            self._transfer(place, ends, near)
            self.run.line |= place.finish()

    def _worker(self, role: str, host: str, number: int, folder: Path) -> Worker:
        own = folder / role
        own.mkdir()
        payload = self.run.case.payload.as_json()
        facts: dict[str, Any] = {"module": self.peer.module, "role": role, "payload": payload}
        facts |= {"host": host, "number": number, "variant": self.variant, "folder": str(own)}
        return Worker(
            "benchmarks.links.ends:run",
            facts,
            name=f"{self.run.case.peer}, {role}",
            python=self.python,
            env={"PYTHONPATH": str(REPOSITORY), "STREAMLINK_CASE": self.name},
        )

    def _transfer(self, place: Place, ends: Mapping[str, Worker], near: Worker) -> None:
        before, cpu = place.passed(), _cpu(ends)
        with Looks({role: end.pid for role, end in ends.items()}) as looks:
            near.tell("go")
            started_at = near.expect("started")["at"]
            ended = self._ended(place, ends, before)
        used = {role: after - cpu[role] for role, after in _cpu(ends).items()}
        connecting = max(each.get("connecting_seconds", 0.0) for each in ended.values())
        self.run.startup_seconds += connecting
        self.run.seconds = max(each["at"] for each in ended.values()) - started_at - connecting
        self.run.wire_bytes = _between(before, place.passed())
        for role, end in ends.items():
            base = end.base_rss_bytes
            peak = looks.peak(role)
            if looks.most_processes == 1:  # then the kernel knows, between two looks, too
                peak = max(peak, ended[role]["peak_rss_bytes"])
            moments = looks.moments(role, started_at, base)
            self.run.sides[role] = Side(base, peak - base, used[role], moments)
        known = {"at", "peak_rss_bytes", "connecting_seconds"}
        self.run.facts |= {
            role: more for role, each in ended.items() if (more := _without(each, known))
        }
        self._verify(ends)

    def _ended(
        self, place: Place, ends: Mapping[str, Worker], before: Passed | None
    ) -> dict[str, dict[str, Any]]:
        """Wait for both ends, together no longer than the limit.

        Raises:
            TimedOut: one has not ended; says how far it came, where that is counted.
        """
        limit = self.limit_seconds
        give_up_at = time.monotonic() + limit
        ended: dict[str, dict[str, Any]] = {}
        for role, end in ends.items():
            left = max(0.0, give_up_at - time.monotonic())
            try:
                ended[role] = end.expect("finished", timeout_seconds=left)
            except WorkerFailed as error:
                if time.monotonic() < give_up_at:
                    raise  # it has failed, and was not too slow
                moved = _between(before, place.passed())
                what = f"the {role} end has not ended in {limit:.0f} s"
                raise TimedOut(f"{what}; {_how_far(moved, self.run.case)}") from error
        return ended

    def _verify(self, ends: Mapping[str, Worker]) -> None:
        for end in ends.values():
            end.tell("verify")
        digests = {role: end.expect("verified")["digest"] for role, end in ends.items()}
        for end in ends.values():
            end.tell("end")
        if len(set(digests.values())) != 1:
            raise WorkerFailed(f"{self.run.case}: the far end has another model: {digests}")


def _end_all(name: str) -> None:
    """End what a framework has started and not ended."""
    for pid in processes_of(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _cpu(ends: Mapping[str, Worker]) -> dict[str, float]:
    return {role: trees.cpu_seconds(trees.members(end.pid)) for role, end in ends.items()}


def _between(before: Passed | None, after: Passed | None) -> int | None:
    return None if before is None or after is None else after.both - before.both


def _how_far(moved: int | None, case: Case) -> str:
    if moved is None:
        return "how far it came is not known"
    size = case.payload.size_bytes
    return (
        f"{moved / MIB:.1f} MiB had entered the line by then, "
        f"{moved / size:.0%} of a model of {size / MIB:g} MiB"
    )


def _without(facts: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in names}
