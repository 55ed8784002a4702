"""What many sessions cost their server: threads, memory and descriptors, idle and beside models.

One server, and clients that are many to a process: those may use as many threads as they like, the
server's are counted. With TLS each client has a certificate of its own, and the server checks its
name. What the processes do is in ``session_bodies``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import psutil

from benchmarks.processes import Watching, Worker
from benchmarks.session_bodies import MEMORY_BYTES
from benchmarks.stats import Result

__all__ = ["Crowd", "Held", "Snapshot", "is_met", "measure", "run"]

KIB, MIB = 1 << 10, 1 << 20
MOST_THREADS, MOST_KIB = 64, 192
CLAIM = (
    f"a thousand sessions cost their server at most {MOST_THREADS} threads, and at most {MOST_KIB} "
    f"KiB of memory each beside its memory_bytes of {MEMORY_BYTES // MIB} MiB, while 16 move models"
)
_JOIN_SECONDS, _MOVE_SECONDS, _LEAVE_SECONDS = 540.0, 300.0, 120.0


@dataclass(frozen=True)
class Crowd:
    """Who comes, and what is done with them.

    Attributes:
        processes: of clients (count). each: sessions in each of them (count).
        moving: so many of all take models and send them back (count).
        model_bytes: the size of each model (bytes). models: how many each moves (count).
        has_tls: whether both ends show certificates.
        idle_seconds: how long nothing but questions and heartbeats moves.
    """

    processes: int = 4
    each: int = 250
    moving: int = 16
    model_bytes: int = 64 * MIB
    models: int = 3
    has_tls: bool = True
    idle_seconds: float = 30.0

    @property
    def names(self) -> list[list[str]]:
        """The names of the clients, by process."""
        return [
            [f"site-{process}-{number:03d}" for number in range(self.each)]
            for process in range(self.processes)
        ]

    @property
    def sessions(self) -> int:
        """All of them (count)."""
        return self.processes * self.each


@dataclass(frozen=True)
class Snapshot:
    """The server at one moment, or the most of each during a phase.

    Attributes:
        threads: of its process, with those that gRPC starts below Python (count).
        rss_bytes: resident memory (bytes). descriptors: open files and sockets (count).
    """

    threads: int
    rss_bytes: int
    descriptors: int


@dataclass(frozen=True)
class Held:
    """What holding a crowd has cost.

    Attributes:
        admitted: sessions that stood when all had come (count), after ``join_seconds``.
        base: the server before it listened.
        idle, moving: the most in each phase; ``named`` counts the threads by name, when idle.
        memory_bytes: what all models that move may take together, by the settings (bytes).
        answer_seconds: the longest that any client waited for a small answer, in each phase.
        leave_seconds: from the goodbye to all until the server had closed.
    """

    admitted: int
    join_seconds: float
    base: Snapshot
    idle: Snapshot
    moving: Snapshot
    named: dict[str, int]
    memory_bytes: int
    answer_seconds: dict[str, float]
    leave_seconds: float

    def session_kib(self, sessions: int) -> float:
        """Resident memory of an idle session (KiB)."""
        return (self.idle.rss_bytes - self.base.rss_bytes) / sessions / KIB


def run(quick: bool) -> Result:
    """Hold 1,000 sessions with mutual TLS (quick: 20 without)."""
    crowd = Crowd()
    if quick:
        crowd = Crowd(2, 10, 2, MIB, 1, has_tls=False, idle_seconds=1.0)
    held = measure(crowd)
    return Result(
        name="sessions",
        claim=CLAIM,
        columns=("when", "sessions", "threads", "over base, MiB", "KiB a session", "descriptors",
                 "longest answer, s"),
        rows=tuple(_rows(crowd, held)),
        facts={"crowd": asdict(crowd), "held": asdict(held)},
        met=None if quick else is_met(crowd, held),
    )  # fmt: skip


def measure(crowd: Crowd) -> Held:
    """Admit a crowd, hold it idle, let some move models, and let all leave.

    Raises:
        WorkerFailed: a process failed, a client was not admitted, or a model came back changed.
    """
    with ExitStack() as workers:
        folder = ""
        if crowd.has_tls:
            folder = workers.enter_context(tempfile.TemporaryDirectory(prefix="streamlink-"))
            _make_certificates(folder, [name for names in crowd.names for name in names])
        server = workers.enter_context(_server(crowd, folder))
        address = server.expect("listening")["address"]
        base = Snapshot(**server.expect("base_was"))
        clients = [
            workers.enter_context(_clients(crowd, folder, address, names)) for names in crowd.names
        ]
        admitted = server.expect("admitted", timeout_seconds=_JOIN_SECONDS)
        for each in clients:
            each.expect("joined", timeout_seconds=_JOIN_SECONDS)
        longest: dict[str, float] = {}
        with _phase("idle", clients, longest), _Most(server.pid) as idle:
            server.tell("rest", seconds=crowd.idle_seconds)
            named = server.expect("rested", timeout_seconds=_MOVE_SECONDS)["named"]
        with _phase("moving", clients, longest), _Most(server.pid) as moving:
            server.tell("move")
            server.expect("moved", timeout_seconds=_MOVE_SECONDS)
        server.tell("close")
        closed = server.expect("closed", timeout_seconds=_LEAVE_SECONDS)
        server.finish()
        for each in clients:
            each.tell("leave")
            each.finish(timeout_seconds=_LEAVE_SECONDS)
    return Held(
        admitted["sessions"], admitted["seconds"], base, idle.most, moving.most, named,
        MEMORY_BYTES, longest, closed["seconds"],
    )  # fmt: skip


def is_met(crowd: Crowd, held: Held) -> bool:
    """Return whether the claim holds."""
    least = held.base.rss_bytes + crowd.sessions * MOST_KIB * KIB
    return (
        held.admitted == crowd.sessions
        and max(held.idle.threads, held.moving.threads) <= MOST_THREADS
        and held.idle.rss_bytes <= least
        and held.moving.rss_bytes <= least + held.memory_bytes
    )


def _server(crowd: Crowd, folder: str) -> Worker:
    movers = [name for together in zip(*crowd.names, strict=True) for name in together]
    facts = {
        "sessions": crowd.sessions,
        "movers": movers[: crowd.moving],
        "model_bytes": crowd.model_bytes,
        "models": crowd.models,
        "certificates": folder,
    }
    return Worker("benchmarks.session_bodies:serve", facts, name="the server")


def _clients(crowd: Crowd, folder: str, address: str, names: list[str]) -> Worker:
    facts = {
        "address": address,
        "names": names,
        "certificates": folder,
    }
    return Worker("benchmarks.session_bodies:join", facts, name=f"the clients from {names[0]}")


@contextmanager
def _phase(name: str, clients: Sequence[Worker], longest: dict[str, float]) -> Iterator[None]:
    """Have clients ask small questions within the block, and note the longest wait."""
    for each in clients:
        each.tell("watch")
    yield
    for each in clients:
        each.tell("report")
    longest[name] = max(each.expect("report")["longest_seconds"] for each in clients)


class _Most(Watching):
    """Looks at a process for the most that it uses."""

    interval_seconds = 0.02

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.most = Snapshot(0, 0, 0)

    def _look(self) -> None:
        with self._process.oneshot():
            seen = Snapshot(
                self._process.num_threads(),
                self._process.memory_info().rss,
                self._process.num_fds(),
            )
        self.most = Snapshot(
            max(self.most.threads, seen.threads),
            max(self.most.rss_bytes, seen.rss_bytes),
            max(self.most.descriptors, seen.descriptors),
        )


def _rows(crowd: Crowd, held: Held) -> Iterator[tuple[str, ...]]:
    def row(when: str, seen: Snapshot, answer: str, kib: str = "") -> tuple[str, ...]:
        over = (seen.rss_bytes - held.base.rss_bytes) / MIB
        return (when, str(held.admitted), str(seen.threads), f"{over:.1f}", kib,
                str(seen.descriptors), answer)  # fmt: skip

    kib = f"{held.session_kib(crowd.sessions):.0f}"
    yield ("base", "0", str(held.base.threads), "", "", str(held.base.descriptors), "")
    yield row(
        f"idle, after {held.join_seconds:.1f} s",
        held.idle,
        f"{held.answer_seconds['idle']:.2f}",
        kib,
    )
    yield row(f"{crowd.moving} moving models", held.moving, f"{held.answer_seconds['moving']:.2f}")
    for name, count in sorted(held.named.items(), key=lambda each: -each[1])[:6]:
        yield (f"threads {name}", "", str(count), "", "", "", "")


def _make_certificates(folder: str, names: Sequence[str]) -> None:
    command = [sys.executable, "-m", "streamlink", "certs", folder, "--server", "127.0.0.1"]
    for name in names:
        command += ["--site", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"no certificates could be made: {done.stderr.strip()}")
