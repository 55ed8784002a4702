"""Runs of streamlink's own ways that tests make up."""

from __future__ import annotations

from benchmarks.links.cases import Case
from benchmarks.links.lines import LOOPBACK, parse_line
from benchmarks.links.payload import Kind, Payload
from benchmarks.links.plans import COMPUTED
from tests.benchmarks.links.cases import run_of

__all__ = ["ENCODED_RUNS", "LARGE_RUNS"]

MIB, GB = 1 << 20, 10**9


def _encoded(peer: str, kind: Kind) -> Case:
    return Case(peer, parse_line("100Mbit,50ms"), Payload(MIB, 4, kind))


ENCODED_RUNS = [
    run_of(_encoded("streamlink", "weights, F32"), 2.0, wire_bytes=MIB),
    run_of(_encoded("streamlink, planes", "weights, F32"), 1.0, wire_bytes=MIB * 4 // 5),
    run_of(_encoded("streamlink", "weights, BF16"), 2.0, wire_bytes=MIB),
]
LARGE_RUNS = [
    run_of(Case(COMPUTED, LOOPBACK, Payload(size * GB, 16, "computed")), size * each)
    for size, each in ((1, 1.0), (4, 1.05))
]
