"""A narrow line that loses nothing, with default settings: a model arrives, at little cost."""

from __future__ import annotations

from dataclasses import asdict

import streamlink
from benchmarks.models import GrowingStore, Layout
from benchmarks.passing import Passed, pass_model
from benchmarks.relay import Link
from benchmarks.stats import Result

__all__ = ["crawl", "overhead", "run"]

KIB, MB = 1 << 10, 10**6
BANDWIDTH = 200 * KIB
FULL, QUICK = Layout(3, 8 * MB), Layout(2, 400_000)
MOST_OVERHEAD = 1.02


def run(quick: bool) -> Result:
    """Send 24 MB at 200 KiB/s (quick: 0.8 MB)."""
    layout = QUICK if quick else FULL
    passed, wrong_bytes = crawl(layout, BANDWIDTH)
    stats = passed.sent.stats
    return Result(
        name="slow",
        claim=f"{layout.nbytes / MB:g} MB over {BANDWIDTH // KIB} KiB/s with default settings: "
        f"finishes, and the line carries, both ways, at most {MOST_OVERHEAD} × the payload",
        columns=("s", "÷ the line's time", "on the line ÷ payload", "calls made anew", "repairs"),
        rows=(
            (
                f"{passed.seconds:.1f}",
                f"{passed.seconds * BANDWIDTH / layout.nbytes:.2f}",
                f"{overhead(passed, layout):.4f}",
                str(stats.resumes),
                str(stats.repairs),
            ),
        ),
        facts={
            "layout": layout.as_json(),
            "bytes_per_second": BANDWIDTH,
            "line": asdict(passed.line),
            "seconds": passed.seconds,
            "resumes": stats.resumes,
            "resent_bytes": stats.resent_bytes,
            "wrong_bytes": wrong_bytes,
        },
        met=None if quick else overhead(passed, layout) <= MOST_OVERHEAD and not wrong_bytes,
    )


def crawl(layout: Layout, bandwidth: float) -> tuple[Passed, int]:
    """Send a model over a line that wide; returns also how many of its bytes were wrong."""
    store = GrowingStore(layout, 1.0)
    settings = streamlink.LinkConfig()
    passed = pass_model(layout.model(1.0), store, settings, link=Link(bandwidth=bandwidth))
    return passed, store.wrong_bytes


def overhead(passed: Passed, layout: Layout) -> float:
    """Return what the line has carried, both ways, over the payload."""
    return (passed.line.up_bytes + passed.line.down_bytes) / layout.nbytes
