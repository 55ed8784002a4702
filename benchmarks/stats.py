"""Fair comparison and its presentation: interleaved runs, median ratio, spread, table, JSON.

Speeds on a shared machine drift by tens of percent within minutes, so two programs are compared
only by runs taken in turn (A B A B …), pair by pair. A difference smaller than the spread of its
own ratios is called none.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import psutil
from rich.console import Console

from benchmarks.tables import print_table

__all__ = [
    "MIN_PAIRS",
    "Comparison",
    "Result",
    "Summary",
    "compare",
    "environment",
    "interleave",
    "median_interval",
    "print_result",
    "summarize",
    "write_json",
]

MIN_PAIRS = 5
Verdict = Literal["faster", "slower", "no difference"]
T = TypeVar("T")


@dataclass(frozen=True)
class Summary:
    """Some values of one kind: their median, and the range from the 10th to the 90th percentile."""

    count: int
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Rates of ``subject`` over those of ``reference``, pair by pair, runs taken in turn."""

    subject: str
    reference: str
    ratios: tuple[float, ...]

    @property
    def summary(self) -> Summary:
        """Median ratio and its spread."""
        return summarize(self.ratios)

    @property
    def verdict(self) -> Verdict:
        """What may be said: nothing where the difference is smaller than the spread."""
        seen = self.summary
        difference = seen.median - 1.0
        if len(self.ratios) < MIN_PAIRS or abs(difference) <= seen.high - seen.low:
            return "no difference"
        return "faster" if difference > 0 else "slower"

    def __str__(self) -> str:
        seen = self.summary
        return f"{seen.median:.2f}x ({seen.low:.2f}..{seen.high:.2f})"


@dataclass(frozen=True)
class Result:
    """What one benchmark found.

    Attributes:
        name: the benchmark's name on the command line.
        claim: the sentence that it supports or refutes.
        columns: headings of its table. rows: its lines, as text.
        facts: everything measured, as JSON.
        met: whether the claim held; None where this run cannot tell (a quick run, a peer alone).
    """

    name: str
    claim: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: dict[str, Any] = field(default_factory=dict)
    met: bool | None = None


def interleave(
    runs: Mapping[str, Callable[[], T]], *, pairs: int = MIN_PAIRS
) -> dict[str, list[T]]:
    """Call every run once, in order, then all again, ``pairs`` times; return results by name."""
    results: dict[str, list[T]] = {name: [] for name in runs}
    for _ in range(pairs):
        for name, run in runs.items():
            results[name].append(run())
    return results


def summarize(values: Sequence[float]) -> Summary:
    """Return median and 10th..90th percentile (linear between values).

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("no values to summarize")
    low, median, high = np.quantile(np.asarray(values, dtype=np.float64), [0.1, 0.5, 0.9])
    return Summary(len(values), float(median), float(low), float(high))


def compare(
    subject: str, rates: Sequence[float], reference: str, reference_rates: Sequence[float]
) -> Comparison:
    """Compare rates of runs taken in turn; the n-th run of one is paired with that of the other.

    Raises:
        ValueError: the runs are not in pairs.
    """
    pairs = zip(rates, reference_rates, strict=True)
    return Comparison(subject, reference, tuple(ours / theirs for ours, theirs in pairs))


def median_interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 90 % confidence interval of the median, by the percentile bootstrap.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13. The seed is
    fixed, so the same ratios always give the same interval.
    """
    drawn = np.random.default_rng(0).choice(np.asarray(ratios), size=(2000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.05, 0.95])
    return float(low), float(high)


def print_result(result: Result, console: Console) -> None:
    """Print the claim, the table and whether the claim was met."""
    console.print(f"{result.name}: {result.claim}", style="italic", markup=False, highlight=False)
    print_table(console, result.columns, result.rows)
    words = {True: "claim met", False: "claim NOT met", None: "this run does not judge the claim"}
    console.print(words[result.met] + "\n")


def environment() -> dict[str, Any]:
    """Return commit, date, machine and versions, so that a figure can be traced to its origin."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "kernel": platform.release(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("grpcio", "numpy", "pyarrow")},
        },
    }


def write_json(path: Path, results: Sequence[Result]) -> None:
    """Write the environment and each result's facts; the file appears whole or not at all."""
    document = {
        **environment(),
        "results": {r.name: {"claim": r.claim, "met": r.met, **r.facts} for r in results},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def commit() -> str:
    """Return the commit this tree stands on, ``-dirty`` when tracked files differ from it."""
    head = _git("rev-parse", "HEAD")
    if head is None:
        return "unknown"
    # Neither untracked files count nor results: a benchmark's output would make the next one dirty.
    kept = ["--untracked-files=no", "--", ":(top)", ":(top,exclude)benchmarks/results"]
    changed = _git("status", "--porcelain", *kept)
    return head[:12] + ("-dirty" if changed else "")


def _git(*arguments: str) -> str | None:
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None  # no git here, or no commit yet: the figure says so instead of failing
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else "unknown"


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
