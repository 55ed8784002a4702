"""The numbers to reach of the two-site job: an exact model, and memory within what is stated."""

from __future__ import annotations

from collections.abc import Sequence

import streamlink
from benchmarks.links.failures import standing
from benchmarks.links.goals import MORE_MEMORY_BYTES, Goal, commits_of
from benchmarks.links.sites.cases import CLIENTS, SERVER, SiteRun

__all__ = ["limit_bytes", "site_goals"]

MIB = 1 << 20
STREAMS, MORE_CHUNKS = 2, 4
"""What a streaming client holds: for each direction a window, and chunks on their way."""


def limit_bytes(run: SiteRun, name: str) -> int:
    """Return what a process may hold over its base (bytes).

    The server's is its own computation. A client with a whole executor holds the model once, with
    duplex the next one, too; one that streams holds two windows, and if the probe proposes the
    default, what they may grow by together. Each has 64 MiB beside that.
    """
    if name == SERVER:
        return run.peak_bytes
    variant, settings = run.case.variant, run.probed[name].settings
    if variant.executor == "streaming":
        chunks = MORE_CHUNKS * settings["stream.chunk_bytes"]
        default = streamlink.StreamConfig()
        window = settings.get("stream.window_bytes", default.window_bytes)
        grown = 0 if "stream.window_bytes" in settings else default.long_bytes
        return int(STREAMS * (window + chunks) + grown) + MORE_MEMORY_BYTES
    return run.case.nbytes * (1 + variant.duplex) + MORE_MEMORY_BYTES


def site_goals(runs: Sequence[SiteRun]) -> list[Goal]:
    """Return the numbers to reach, with what the runs say of them."""
    left = standing(runs)
    good, commit = [run for run in left if not run.error], commits_of(left)
    wrong = Goal("runs that failed, or whose model is not exact", f"two sites, {len(left)} runs",
                 0.0, float(len(left) - len(good)) if left else None, is_most=True,
                 commit=commit)  # fmt: skip
    return [wrong, *(_memory(good, name) for name in (SERVER, *CLIENTS))]


def _memory(good: Sequence[SiteRun], name: str) -> Goal:
    """Return the run in which the process came nearest to its limit, or farthest above it."""
    what = f"peak over base ÷ what is stated, {name}{' client' if name in CLIENTS else ''}"
    if not good:
        return Goal(what, "two sites", 1.0, None, is_most=True)
    worst = max(good, key=lambda run: _share(run, name))
    peak = f"{worst.used[name].over_base_bytes / MIB:.0f} of {limit_bytes(worst, name) / MIB:.0f}"
    where = f"two sites, the worst of {len(good)}: {worst.case.variant}; {peak} MiB"
    return Goal(what, where, 1.0, _share(worst, name), is_most=True, commit=worst.commit)


def _share(run: SiteRun, name: str) -> float:
    return run.used[name].over_base_bytes / limit_bytes(run, name)
