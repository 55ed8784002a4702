"""Runs that tests make up."""

from __future__ import annotations

from typing import Any

from benchmarks.links.cases import Accuracy, Case, Moment, Run, Side
from benchmarks.links.lines import parse_line
from benchmarks.links.payload import Payload

__all__ = ["case_of", "run_of"]

MIB = 1 << 20


def case_of(
    peer: str = "streamlink", line: str = "loopback", mib: int = 8, arrays: int = 1
) -> Case:
    return Case(peer, parse_line(line), Payload(mib * MIB, arrays))


def run_of(case: Case | None = None, seconds: float = 2.0, **more: Any) -> Run:
    sides = {role: Side(50 * MIB, 20 * MIB, 0.5, (Moment(0.0, 0), Moment(1.0, 20 * MIB)))
             for role in ("send", "receive")}  # fmt: skip
    found: dict[str, Any] = {
        "seconds": seconds,
        "startup_seconds": 1.0,
        "wire_bytes": 9 * MIB,
        "sides": sides,
        "accuracy": Accuracy(0.02, 0.001, 99e6, 5.0, 98e6),
        "commit": "abc",
        "at": "2026-11-26T00:00:00+00:00",
        "machine": {"cores": 2, "cpu": "a cpu", "memory_bytes": 24 * 10**9},
    }
    return Run(case or case_of(), **{**found, **more})
