"""A limit of 10 Mbit/s on a line of 100 Mbit/s: its share in any ten seconds, and the heartbeats.

``streamlink serve`` and ``streamlink fetch`` are processes, the line is a relay, and the bytes are
counted by the relay as it reads them: payloads, headers, control frames, both ports. What
heartbeats do without any limit is measured beside it. Over MPI there is no line of ours: there the
receiver counts payloads (``bwlimit_ranks``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

import streamlink
from benchmarks.closing import Closing
from benchmarks.mpi import mpiexec
from benchmarks.parts import Facts, Parts, at_once
from benchmarks.pipes import Direction
from benchmarks.processes import REPOSITORY
from benchmarks.relay import Link, Relay
from benchmarks.stats import Result
from benchmarks.tables import report_progress
from streamlink.stores import SafetensorsStore, as_model

__all__ = [
    "LEAST",
    "LIMIT",
    "MOST",
    "MOST_LATE",
    "SPAN",
    "Case",
    "Heard",
    "Ledger",
    "run",
    "shares",
    "write_model",
]

LINE, LIMIT = 12.5e6, 1.25e6  # bytes per second
SPAN = 10.0
FULL_SECONDS, QUICK_SECONDS = 32.0, 1.5
FREE_SECONDS = 16.0  # without a limit, on the whole line
LEAST, MOST = 0.95, 1.0
HEARTBEAT = 0.5
TICK = 0.2  # clocks are looked at so often, with a limit and without
MOST_LATE = 0.1
PATIENCE = 120.0
CASE_SECONDS = 36.0
LANES = 4
BULK = 0.02  # of all bytes: a connection that carries more of them than this carries the model


@dataclass
class Ledger:
    """What passed the line: when, on which connection, in which direction, how many bytes."""

    pieces: list[tuple[float, int, Direction, int]] = field(default_factory=list)

    def passing(self, connection: int, direction: Direction, piece: bytes) -> bytes:
        """See ``Tap``."""
        self.pieces.append((time.monotonic(), connection, direction, len(piece)))
        return piece

    def over(self, connection: int) -> None:
        """See ``Tap``."""

    @property
    def down(self) -> list[tuple[float, int]]:
        """When how many bytes came from the server, while the model moved."""
        first, last = self._moving
        return [
            (at, size) for at, _, way, size in self.pieces if way == "down" and first <= at <= last
        ]

    @property
    def heartbeat_gap(self) -> float:
        """The longest silence of the session's connection, in either direction (seconds)."""
        first, last = self._moving
        session = next(each for _, each, _, _ in self.pieces if each not in self._bulk)
        gaps = [0.0]
        for way in ("up", "down"):
            times = [
                at
                for at, each, of, _ in self.pieces
                if (each, of) == (session, way) and first <= at <= last
            ]
            gaps += [b - a for a, b in pairwise(times)]
        return max(gaps)

    @property
    def _moving(self) -> tuple[float, float]:
        """From when until when the model came."""
        bulk = self._bulk
        times = [at for at, each, way, _ in self.pieces if way == "down" and each in bulk]
        return times[0], times[-1]

    @property
    def _bulk(self) -> set[int]:
        """The connections that carry the model."""
        counts: Counter[int] = Counter()
        for _, connection, _, size in self.pieces:
            counts[connection] += size
        return {each for each, size in counts.items() if size > BULK * counts.total()}


@dataclass(frozen=True)
class Case:
    """Which carrier, which end is limited (neither: ``""``), over how many connections."""

    carrier: str
    limited: str
    lanes: int = 1

    def __str__(self) -> str:
        return f"{self.carrier}{f', {self.lanes} lanes' * (self.lanes > 1)}"

    @property
    def name(self) -> str:
        """What the folder of its model is called."""
        return f"{self.carrier}-{self.limited}-{self.lanes}"

    @property
    def limited_end(self) -> str:
        """What the limited end does."""
        return {"serve": "sends", "fetch": "receives"}.get(self.limited, "neither")


CASES = [
    *(Case(carrier, end) for carrier in ("tcp", "grpc") for end in ("serve", "fetch", "")),
    *(Case("tcp", end, LANES) for end in ("serve", "fetch", "")),
]
OVER_MPI = [Case("mpi", end) for end in ("serve", "fetch")]


@dataclass(frozen=True)
class Heard:
    """One case: what the line saw. Without a limit there is no share of it."""

    case: Case
    least: float
    most: float
    mean: float
    heartbeat_gap: float | None
    """None: no line of ours sees them."""

    def is_met(self, without: float | None) -> bool:
        """Whether share and heartbeats keep what is promised.

        Args:
            without: the longest gap of heartbeats where nothing is limited (seconds).
        """
        if not self.case.limited:
            return True
        late = self.late(without)
        has_share = self.least >= LEAST and self.most <= MOST
        return has_share and (late is None or late <= MOST_LATE)

    def late(self, without: float | None) -> float | None:
        """Return how late a heartbeat was at most (seconds); None: not measured, or no limit.

        Args:
            without: the longest gap of heartbeats where nothing is limited (seconds).
        """
        if self.heartbeat_gap is None or without is None or not self.case.limited:
            return None
        return self.heartbeat_gap - min(HEARTBEAT + TICK, without)

    @classmethod
    def from_json(cls, facts: Facts) -> Heard:
        """Return what ``asdict`` wrote."""
        return cls(**{**facts, "case": Case(**facts["case"])})

    def row(self) -> tuple[str, ...]:
        """Return it as a row of the table."""
        found = (self.least, self.most, self.mean)
        shown = [f"{share:.4f}" if self.case.limited else "-" for share in found]
        gap = "-" if self.heartbeat_gap is None else f"{self.heartbeat_gap:.3f}"
        return (str(self.case), self.case.limited_end, *shown, gap)


def run(quick: bool, part: Parts = at_once) -> Result:
    """Measure eleven cases of 32 s, or 16 s where nothing is limited (quick: four of 1.5 s)."""
    seconds = QUICK_SECONDS if quick else FULL_SECONDS
    cases = [each for each in CASES if each.lanes == 1 and each.limited] if quick else CASES
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "limited", int(seconds * LIMIT))
        if not quick:
            write_model(Path(folder) / "free", int(FREE_SECONDS * LINE))
        found = [_heard(each, part, partial(_case, Path(folder), each)) for each in cases]
    if not quick:
        found += _over_mpi(seconds, part)
    without = {str(each.case): each.heartbeat_gap for each in found if not each.case.limited}
    return Result(
        name="bwlimit",
        claim=f"a limit of 10 Mbit/s on a line of 100 Mbit/s: {LEAST} to {MOST} of it in any "
        f"{SPAN:g} s, and no heartbeat is more than {MOST_LATE} s later than without a limit, or "
        "than it is due",
        columns=("carrier", "limited end", "least", "most", "mean", "longest gap of heartbeats, s"),
        rows=tuple(each.row() for each in found),
        facts={
            "line_bytes_per_second": LINE,
            "limit_bytes_per_second": LIMIT,
            "heartbeat_interval": HEARTBEAT,
            "tick_seconds": TICK,
            "cases": [
                {
                    **asdict(each),
                    "name": f"{each.case}, {each.case.limited_end}",
                    "heartbeats_late": each.late(without.get(str(each.case))),
                }
                for each in found
            ],
        },
        met=None if quick else all(each.is_met(without.get(str(each.case))) for each in found),
    )


def write_model(folder: Path, nbytes: int) -> None:
    """Write a model of one tensor of random bytes, which no encoding makes smaller."""
    noise = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
    model = as_model({"noise": noise})
    streamlink.copy_model(model, SafetensorsStore(folder).begin(model.spec))


def shares(moved: Sequence[tuple[float, int]], rate: float, span: float) -> tuple[float, float]:
    """Return the least and the most of ``rate`` that any ``span`` seconds have of ``moved``."""
    most, least, total, last = 0.0, float("inf"), 0, 0
    for at, size in moved:
        if at + span > moved[-1][0]:
            break  # the model ends before the span does
        while moved[last][0] < at + span:
            total += moved[last][1]
            last += 1
        # A span that begins with a piece has the most; one that begins just behind it, the least.
        most = max(most, total)
        total -= size
        least = min(least, total)
    return least / (rate * span), most / (rate * span)


def _heard(case: Case, part: Parts, measure: Callable[[], Heard]) -> Heard:
    name = f"{case}, limited: {case.limited_end}"
    return Heard.from_json(part(name, CASE_SECONDS, lambda: asdict(measure())))


def _case(folder: Path, case: Case) -> Heard:
    ledger = Ledger()
    with _serving(folder / ("limited" if case.limited else "free"), case) as port:
        line = Link(bandwidth=LINE, delay=0.005)
        with Relay(
            "127.0.0.1", port, up=line, down=line, with_data_port=case.carrier == "tcp", tap=ledger
        ) as relay:
            words = ["fetch", f"127.0.0.1:{relay.port}", str(folder / case.name)]
            subprocess.run(
                _command(*words, "--control", "none", *_options(case, "fetch")),
                check=True,
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=PATIENCE,
            )
    moved = ledger.down
    least, most = shares(moved, LIMIT, min(SPAN, 0.6 * (moved[-1][0] - moved[0][0])))
    mean = sum(size for _, size in moved) / (moved[-1][0] - moved[0][0]) / LIMIT
    return Heard(case, least, most, mean, ledger.heartbeat_gap)


def _over_mpi(seconds: float, part: Parts) -> list[Heard]:
    """Return what is measured over MPI; nothing where there is none."""
    if (program := mpiexec()) is None:
        report_progress("bwlimit: not over MPI: there is no mpiexec with mpi4py")
        return []
    return [_heard(case, part, partial(_ranks, program, seconds, case)) for case in OVER_MPI]


def _ranks(program: str, seconds: float, case: Case) -> Heard:
    words = ["-n", "2", sys.executable, "-m", "benchmarks.bwlimit_ranks"]
    done = subprocess.run(
        [program, *words, case.limited, str(seconds)],
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
    )
    least, most, mean = json.loads(done.stdout.splitlines()[-1])
    return Heard(case, least, most, mean, None)


@contextmanager
def _serving(model: Path, case: Case) -> Iterator[int]:
    listen = "none" if case.carrier == "grpc" else "auto"
    words = ["serve", str(model), "--listen", "127.0.0.1:0", "--count", "1"]
    words += ["--control", "none", "--set", f"stream.data_listen={listen}"]
    process = subprocess.Popen(
        _command(*words, *_options(case, "serve")),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    with _Ended(process):
        assert process.stderr is not None
        for text in process.stderr:
            if "listening on" in text:
                yield int(text.partition("listening on ")[2].split()[0].rpartition(":")[2])
                return
        raise RuntimeError("streamlink serve did not listen")


class _Ended(Closing):
    """Ends a process, whatever its state."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE)


def _options(case: Case, end: str) -> list[str]:
    words = ["--set", f"timeouts.heartbeat_interval={HEARTBEAT}"]
    if case.lanes > 1:
        words += ["--set", f"stream.max_lanes={case.lanes}", "--set", f"stream.lanes={case.lanes}"]
    return [*words, "--bwlimit", "10Mbit"] if case.limited == end else words


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "streamlink", *words]
