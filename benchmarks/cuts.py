"""The connections of one transfer are reset again and again, at random places of its bytes.

Every reset takes all connections at both ends: the session's, too, unless the model has a carrier
of its own (``--carrier tcp``), whose connections alone are reset then, all of them where it has
several (``--lanes``). What was sent twice, and what the process kept of it all, is counted. The
model comes from nowhere and goes to a disk.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import streamlink
from benchmarks.models import GrowingStore, Layout
from benchmarks.passing import Left, Passed, left_behind, pass_model
from benchmarks.relay import Relay, Step
from benchmarks.stats import Result
from streamlink.stores import SafetensorsStore

__all__ = ["cut", "faults_of", "places", "run", "with_lanes"]

MB, MIB = 10**6, 1 << 20
CUTS, SEED = 100, 1
FULL, QUICK = Layout(64, 4_000 * MB // 64), Layout(8, 4 * MB)
SETTINGS = streamlink.LinkConfig()


def run(quick: bool, carrier: str = "grpc", lanes: int = 0) -> Result:
    """Send 4 GB and cut 100 times (quick: 32 MB, 5 times)."""
    layout, cuts = (QUICK, 5) if quick else (FULL, CUTS)
    with tempfile.TemporaryDirectory() as folder:
        at = places(layout.nbytes, cuts, SEED)
        passed, left, is_equal = cut(
            layout, at, Path(folder), with_lanes(SETTINGS, lanes), carrier=carrier
        )
    window = SETTINGS.stream.window_bytes
    faults = faults_of(passed, left, is_equal, cuts * window)
    if passed.line.up_bytes < layout.nbytes // 2:
        faults.append(f"{carrier} has carried the smaller part of it")
    stats = passed.sent.stats
    return Result(
        name="cuts",
        claim=f"{layout.nbytes / MB:.0f} MB over connections ({named(carrier, lanes)}), "
        f"reset {cuts} times: equal, at most one window sent again for each cut, nothing left over",
        columns=("resets", "calls made anew", "sent again, MiB", "÷ window and cut", "s", "faults"),
        rows=(
            (
                str(passed.line.resets),  # of connections: a cut takes all there are
                str(stats.resumes),
                f"{stats.resent_bytes / MIB:.1f}",
                f"{stats.resent_bytes / (cuts * window):.2f}",
                f"{passed.seconds:.1f}",
                "; ".join(faults) or "none",
            ),
        ),
        facts={
            "layout": layout.as_json(),
            "seed": SEED,
            "carrier": carrier,
            "lanes": lanes,
            "window_bytes": window,
            "line": asdict(passed.line),
            "resumes": stats.resumes,
            "resent_bytes": stats.resent_bytes,
            "seconds": passed.seconds,
            "left": asdict(left),
            "faults": faults,
        },
        met=None if quick else not faults,
    )


def with_lanes(config: streamlink.LinkConfig, lanes: int) -> streamlink.LinkConfig:
    """Return ``config`` with so many connections for each stream; 0: as it is."""
    if not lanes:
        return config
    most = max(lanes, config.stream.max_lanes)
    stream = config.stream.model_copy(update={"lanes": lanes, "max_lanes": most})
    return config.model_copy(update={"stream": stream})


def named(carrier: str, lanes: int) -> str:
    """Return how reports name them."""
    return f"{carrier}, {lanes} lanes" if lanes else carrier


def places(nbytes: int, cuts: int, seed: int) -> list[int]:
    """Return where the line is cut: bytes it has carried by then, in order."""
    return sorted(random.Random(seed).sample(range(nbytes), cuts))


def cut(
    layout: Layout,
    at: Sequence[int],
    folder: Path,
    config: streamlink.LinkConfig = SETTINGS,
    *,
    carrier: str = "grpc",
) -> tuple[Passed, Left, bool]:
    """Send a model to ``folder`` and cut the line at those places.

    Returns:
        What the transfer was, what it left behind, and whether the model is there, whole and alone.
    """
    first = Layout(1, 4_000)  # gRPC keeps for good what it opens the first time
    pass_model(first.model(1.0), GrowingStore(first, 1.0), config, carrier=carrier)
    store = SafetensorsStore(folder / "model")
    with left_behind() as left:
        passed = pass_model(
            layout.model(1.0), store, config, begin=lambda relay: _cut(relay, at), carrier=carrier
        )
    stored = store.open()
    is_equal = streamlink.digest_of(stored) == streamlink.digest_of(layout.model(1.0))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    is_alone = size < layout.nbytes + 4 * MIB  # headers, and no half of anything
    return passed, left(), is_equal and is_alone


def faults_of(passed: Passed, left: Left, is_equal: bool, most_resent: int) -> list[str]:
    """Return what the claim says and is not so."""
    sent = passed.sent
    found = {
        "the model differs, or has something beside it": not is_equal,
        "the ends' digests differ": sent.digest != passed.received.digest,
        "too much was sent again": sent.stats.resent_bytes > most_resent,
        f"{left.threads} threads are left": left.threads > 0,
        f"{left.descriptors} descriptors are left": left.descriptors > 0,
    }
    return [what for what, is_so in found.items() if is_so]


def _cut(relay: Relay, at: Sequence[int]) -> None:
    relay.play([Step(action=Relay.reset, after_bytes=one, direction="up") for one in at])
