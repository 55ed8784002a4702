"""A limit of 10 Mbit/s on a line of 100 Mbit/s: its share in any ten seconds, and the heartbeats.

``streamlink serve`` and ``streamlink fetch`` are processes, the line is a relay, and the bytes are
counted by the relay as it reads them: payloads, headers, control frames, both ports.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from benchmarks.closing import Closing
from benchmarks.pipes import Direction
from benchmarks.relay import Link, Relay
from benchmarks.stats import Result

__all__ = ["Heard", "Ledger", "run", "shares"]

LINE, LIMIT = 12.5e6, 1.25e6  # bytes per second
SPAN = 10.0
FULL_SECONDS, QUICK_SECONDS = 32.0, 1.5
LEAST, MOST = 0.95, 1.0
HEARTBEAT = 0.5
TICK = 0.2  # clocks are looked at so often, with a limit and without
MOST_LATE = 0.1
PATIENCE = 120.0

CASES = [(carrier, end) for carrier in ("tcp", "grpc") for end in ("serve", "fetch")]


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
        bulk = self._bulk
        times = [
            at for at, connection, way, _ in self.pieces if (connection, way) == (bulk, "down")
        ]
        return [
            (at, size)
            for at, _, way, size in self.pieces
            if way == "down" and times[0] <= at <= times[-1]
        ]

    @property
    def heartbeat_gap(self) -> float:
        """The longest silence of the session's connection, in either direction (seconds)."""
        moved = self.down
        bulk, first, last = self._bulk, moved[0][0], moved[-1][0]
        session = next(each for _, each, _, _ in self.pieces if each != bulk)
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
    def _bulk(self) -> int:
        counts: Counter[int] = Counter()
        for _, connection, _, size in self.pieces:
            counts[connection] += size
        return counts.most_common(1)[0][0]


@dataclass(frozen=True)
class Heard:
    """One case: what the line saw."""

    carrier: str
    limited: str
    least: float
    most: float
    mean: float
    heartbeat_gap: float

    @property
    def is_met(self) -> bool:
        """Whether share and heartbeats keep what is promised."""
        is_on_time = self.heartbeat_gap <= HEARTBEAT + TICK + MOST_LATE
        return self.least >= LEAST and self.most <= MOST and is_on_time


def run(quick: bool) -> Result:
    """Measure four cases of 32 s (quick: 1.5 s)."""
    seconds = QUICK_SECONDS if quick else FULL_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        model.mkdir()
        noise = np.random.default_rng(0).integers(0, 256, int(seconds * LIMIT), dtype=np.uint8)
        save_file({"noise": noise}, model / "model.safetensors")
        found = [_case(Path(folder), *case) for case in CASES]
    return Result(
        name="bwlimit",
        claim=f"a limit of 10 Mbit/s on a line of 100 Mbit/s: {LEAST} to {MOST} of it in any "
        f"{SPAN:g} s, and a heartbeat is at most {MOST_LATE} s late",
        columns=("carrier", "limited end", "least", "most", "mean", "longest gap of heartbeats, s"),
        rows=tuple(
            (
                each.carrier,
                "sends" if each.limited == "serve" else "receives",
                *(f"{share:.4f}" for share in (each.least, each.most, each.mean)),
                f"{each.heartbeat_gap:.3f}",
            )
            for each in found
        ),
        facts={
            "line_bytes_per_second": LINE,
            "limit_bytes_per_second": LIMIT,
            "heartbeat_interval": HEARTBEAT,
            "tick_seconds": TICK,
            "cases": [vars(each) for each in found],
        },
        met=None if quick else all(each.is_met for each in found),
    )


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


def _case(folder: Path, carrier: str, limited: str) -> Heard:
    ledger = Ledger()
    target = folder / f"{carrier}-{limited}"
    with _serving(folder, carrier, limited == "serve") as port:
        line = Link(bandwidth=LINE, delay=0.005)
        with Relay(
            "127.0.0.1", port, up=line, down=line, with_data_port=carrier == "tcp", tap=ledger
        ) as relay:
            words = ["fetch", f"127.0.0.1:{relay.port}", str(target)]
            subprocess.run(
                _command(*words, *_options(limited == "fetch")),
                check=True,
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=PATIENCE,
            )
    moved = ledger.down
    least, most = shares(moved, LIMIT, min(SPAN, 0.6 * (moved[-1][0] - moved[0][0])))
    mean = sum(size for _, size in moved) / (moved[-1][0] - moved[0][0]) / LIMIT
    return Heard(carrier, limited, least, most, mean, ledger.heartbeat_gap)


@contextmanager
def _serving(folder: Path, carrier: str, is_limited: bool) -> Iterator[int]:
    listen = "auto" if carrier == "tcp" else "none"
    words = ["serve", str(folder / "model"), "--listen", "127.0.0.1:0", "--count", "1"]
    words += ["--control", "none", "--set", f"stream.data_listen={listen}"]
    process = subprocess.Popen(
        _command(*words, *_options(is_limited)),
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


def _options(is_limited: bool) -> list[str]:
    words = ["--set", f"timeouts.heartbeat_interval={HEARTBEAT}"]
    return [*words, "--bwlimit", "10Mbit"] if is_limited else words


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "streamlink", *words]
