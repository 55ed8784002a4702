"""A round in one traverse of the link: of clients that stream, and of clients with whole models.

A streaming client sends each range back as soon as it has it. One that needs the whole model takes
two traverses without ``duplex_bytes``. With it, and room for the next model at the clients, both
directions of a symmetric line are busy at once. One traverse is what a plain socket needs for the
same bytes over the same kind of line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlink
from benchmarks.jobs import Job, Ran, Site, run_job
from benchmarks.lines import Line, plain_seconds
from benchmarks.models import Layout
from benchmarks.parts import Facts, Parts, at_once
from benchmarks.stats import Result, summarize
from benchmarks.tables import report_progress
from benchmarks.worker import Port

__all__ = ["AT_MOST", "LINES", "is_met", "run", "where_of", "whole_client"]

MB, MIB = 10**6, 1 << 20
PAIRS = 3
PAIR_SECONDS = 130.0
DUPLEX_BYTES = 64 * MIB
LINES = (Line(50 * MB), Line(50 * MB, 0.010))
QUICK_LINE = Line(20 * MB)
AT_MOST = {"duplex": 1.15, "streaming": 1.1}  # of one traverse, for a steady round


@dataclass(frozen=True)
class Plan:
    """The job that runs with ``duplex_bytes`` and without."""

    layout: Layout
    clients: int
    rounds: int


FULL = Plan(Layout(64, 4 * MIB), clients=2, rounds=5)
# The rounds of one client go all the ways that those of two go; one of three is steady.
QUICK = Plan(Layout(8, MIB // 4), clients=1, rounds=3)


def run(quick: bool, part: Parts = at_once) -> Result:
    """Measure rounds of 256 MiB over 50 MB/s (quick: 2 MiB over 20 MB/s) with and without."""
    plan = QUICK if quick else FULL
    lines = [QUICK_LINE] if quick else list(LINES)
    found = {line: _measure(plan, line, 1 if quick else PAIRS, part) for line in lines}
    return Result(
        name="traverse",
        claim=f"a steady round takes at most {AT_MOST['streaming']:.2f} x one traverse of the link "
        f"with streaming clients, {AT_MOST['duplex']:.2f} x with whole-model ones and duplex_bytes",
        columns=(
            "line",
            "rounds",
            "round, s",
            "traverses",
            "p10..p90",
            "server, MiB",
            "peak_bytes, MiB",
        ),
        rows=tuple(row for line, measured in found.items() for row in _rows(line, *measured)),
        facts={
            "layout": plan.layout.as_json(),
            "lines": [_facts(line, *found[line]) for line in lines],
        },
        met=None if quick else all(is_met(*measured) for measured in found.values()),
    )


def is_met(plain: Sequence[float], runs: Mapping[str, Sequence[Ran]]) -> bool:
    """Tell whether the median steady rounds take little more than a plain traverse."""
    return all(
        summarize(traverses(plain, runs[name])).median <= most for name, most in AT_MOST.items()
    )


def traverses(plain: Sequence[float], runs: Sequence[Ran]) -> list[float]:
    """Return each run's median steady round in traverses of its own pair."""
    return [
        summarize(ran.steady_seconds).median / seconds
        for seconds, ran in zip(plain, runs, strict=True)
    ]


def _measure(
    plan: Plan, line: Line, pairs: int, part: Parts
) -> tuple[list[float], dict[str, list[Ran]]]:
    """Return the seconds of the plain traverses, and the jobs by kind, one of each pair."""
    where, once = where_of(line), partial(_pair, plan, line)
    found = [
        part(f"{where}, pair {number} of {pairs}", PAIR_SECONDS, once)
        for number in range(1, pairs + 1)
    ]
    jobs = {name: [Ran.from_json(each["jobs"][name]) for each in found]
            for name in found[0]["jobs"]}  # fmt: skip
    return [each["plain_seconds"] for each in found], jobs


def _pair(plan: Plan, line: Line) -> Facts:
    """Measure a plain traverse, and then a job of each kind: the line is the same for all."""
    plain = plain_seconds(plan.layout.nbytes, line)
    report_progress(f"  a plain socket: {plain:.2f} s")
    kinds: dict[str, Callable[[], Ran]] = {
        "duplex": lambda: _once(plan, line, DUPLEX_BYTES),
        "in turn": lambda: _once(plan, line, 0),
        "streaming": lambda: _streaming(plan, line),
    }
    jobs: Facts = {}
    for name, run_once in kinds.items():
        ran = run_once()
        jobs[name] = ran.as_json()
        report_progress(f"  {name}: {ran.seconds:.2f} s")
    return {"plain_seconds": plain, "jobs": jobs}


def _once(plan: Plan, line: Line, duplex_bytes: int) -> Ran:
    rules = {"min_clients": plan.clients, "num_rounds": plan.rounds, "duplex_bytes": duplex_bytes}
    facts = {"has_room": duplex_bytes > 0}
    sites = [
        Site(f"site-{number}", "benchmarks.traverse:whole_client", facts, line)
        for number in range(1, plan.clients + 1)
    ]
    trained = replace(plan.layout, trains_one=True)  # its work takes no time on the link
    return run_job(Job(trained, 1.0, plan.clients, rules), sites)


def _streaming(plan: Plan, line: Line) -> Ran:
    rules = {"min_clients": plan.clients, "num_rounds": plan.rounds}
    sites = [
        Site(f"site-{number}", "benchmarks.jobs:client", {"added": 1.0}, line)
        for number in range(1, plan.clients + 1)
    ]
    return run_job(Job(plan.layout, 1.0, plan.clients, rules), sites)


# --- what the processes do ----------------------------------------------------------------------


def whole_client(port: Port, address: str, name: str, has_room: bool) -> None:
    """Serve rounds with a whole executor whose training takes no time."""
    streamlink.tune_allocator()
    port.mark_base()
    executor = streamlink.WholeExecutor(_train, next_model="memory" if has_room else None)
    with streamlink.Client(address, name, executor) as here:
        port.tell("joined")
        here.run()


def _train(model: Any, task: streamlink.Task) -> None:
    for array in model.values():
        array[0] += 1  # the first element only: what is measured is the link


# --- the report ---------------------------------------------------------------------------------


def _rows(line: Line, plain: Sequence[float], runs: dict[str, list[Ran]]) -> list[tuple[str, ...]]:
    where = where_of(line)
    alone = f"{summarize(plain).median:.2f}"
    rows: list[tuple[str, ...]] = [(where, "a plain socket", alone, "1", "", "", "")]
    for name, found in runs.items():
        seen = summarize(traverses(plain, found))
        seconds = [one for ran in found for one in ran.steady_seconds]
        rows.append(
            (
                where,
                name,
                f"{summarize(seconds).median:.2f}",
                f"{seen.median:.2f}",
                f"{seen.low:.2f}..{seen.high:.2f}",
                f"{max(ran.server.over_base_bytes for ran in found) / MIB:.0f}",
                f"{found[-1].peak_bytes / MIB:.0f}",
            )
        )
    return rows


def where_of(line: Line) -> str:
    """Return how tables call a line."""
    return f"{line.bandwidth / MB:.0f} MB/s, {line.delay * 1000:.0f} ms"


def _facts(line: Line, plain: Sequence[float], runs: dict[str, list[Ran]]) -> dict[str, Any]:
    return {
        "name": where_of(line),
        "bytes_per_second": line.bandwidth,
        "delay_seconds": line.delay,
        "traverses": {
            name: summarize(traverses(plain, found)).median for name, found in runs.items()
        },
        "plain_seconds": list(plain),
        "runs": {name: [ran.as_json() for ran in found] for name, found in runs.items()},
    }
