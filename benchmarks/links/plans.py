"""What is measured: which peers move which models over which lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from benchmarks.links.cases import Case
from benchmarks.links.lines import LOOPBACK, Line, parse_line
from benchmarks.links.payload import Kind, Payload

__all__ = ["COMPUTED", "ENCODED", "LARGE_SIZES", "LINK_LOADS", "NOT_FOR", "OURS", "RAW", "REPEATS",
           "SHAPES", "SLOW", "Plan", "What", "crossed", "encoded_cases", "large_plan", "plan_of",
           "small_plan"]  # fmt: skip

MIB, GB = 1 << 20, 10**9
RAW, OURS, COMPUTED = "raw socket", "streamlink", "streamlink, computed model"
AUTO = "streamlink, auto"
ENCODED: dict[Kind, tuple[str, ...]] = {
    "weights, F32": (
        OURS,
        "streamlink, zstd",
        "streamlink, planes",
        AUTO,
        "streamlink, bf16",
        "streamlink, fp16",
        "streamlink, int8",
    ),
    "weights, BF16": (OURS, "streamlink, zstd", "streamlink, planes", AUTO, "streamlink, int8"),
}
"""Which encodings are measured with which weights; the first one is without."""
NOT_FOR: dict[Kind, tuple[str, ...]] = {"weights, BF16": ("bf16", "fp16")}
"""Which encodings do not apply: these round to two bytes, which the elements have already."""
SHAPES = (64, 1)
MOST_SECONDS = 120 * 60.0

SLOW = "200KiB"
PEER_LOADS = (
    ("loopback", 1024),
    ("100Mbit,50ms", 256),
    ("200Mbit,100ms,loss=0.1%", 512),
    ("1Gbit,200ms", 1024),
    (SLOW, 24),
)
"""Each line with the size of the model (MiB)."""
LINK_LOADS = (
    # Each takes half a minute at least, at the rate of the line.
    *((f"100Mbit{delay}", 384) for delay in ("", ",50ms", ",200ms")),
    *((f"1Gbit{delay}", 3712) for delay in ("", ",50ms", ",200ms")),
    (SLOW, 24),
)
SIZES = (1, 4, 16, 64, 256, 1024)
"""Of models over loopback, for the time against the size (MiB)."""
LARGE_SIZES = (1, 4, 16, 64, 128)
"""Of models that are computed (GB), also over loopback."""
REPEATS = 5
"""Runs of each repeated case in a turn (count)."""


class What(StrEnum):
    """Which plan."""

    links = "links"
    peers = "peers"


@dataclass(frozen=True)
class Plan:
    """Cases that are run in turn, ``runs`` times each.

    Attributes:
        repeated: those that are run ``REPEATS`` times in each turn.
        accuracy_seconds: how long each line is measured first.
        most_seconds: where the plan would take longer, further runs of cases that were run already
            are left out; the same command does them later.
        stop_seconds: nothing is begun that would not end within so long; the same command does it
            later.
    """

    cases: tuple[Case, ...]
    runs: int = 3
    accuracy_seconds: float = 10.0
    most_seconds: float = MOST_SECONDS
    stop_seconds: float = inf
    repeated: frozenset[Case] = frozenset()

    def in_turn(self, case: Case) -> int:
        """Return how often a case is run in each turn: once, where there is one turn only."""
        return REPEATS if self.runs > 1 and case in self.repeated else 1

    @property
    def run_count(self) -> int:
        """How many runs that is."""
        return self.runs * sum(map(self.in_turn, self.cases))

    def until(self, seconds: float) -> Plan:
        """Return the plan for one that has so long: together with others, until a deadline."""
        return replace(self, most_seconds=min(self.most_seconds, seconds), stop_seconds=seconds)


def plan_of(what: What, peers: Sequence[str]) -> Plan:
    """Return what is measured for the record.

    Args:
        what: which of both plans.
        peers: all that are compared, in the tables' order.
    """
    if what is What.peers:
        return Plan(tuple(crossed(peers, PEER_LOADS, SHAPES)))
    lines = crossed((RAW, OURS), LINK_LOADS, (64,))
    sizes = crossed((RAW, OURS), [(LOOPBACK.name, size) for size in SIZES], (1,))
    return Plan((*sizes, *lines, *encoded_cases("100Mbit,50ms", 128)))


def large_plan(small: bool = False) -> Plan:
    """Return streamlink with models of 1 to 128 GB, which are computed, over loopback.

    Five turns, and the two smallest five times in each: their runs are short, and differ most.

    Args:
        small: models of a thousandth of that.
    """
    nbytes = (size * (GB // 1000 if small else GB) for size in LARGE_SIZES)
    cases = tuple(Case(COMPUTED, LOOPBACK, Payload(each, 16, "computed")) for each in nbytes)
    if small:
        return Plan(cases, 1, 0.5)
    return Plan(cases, 5, repeated=frozenset(cases[:2]))


def encoded_cases(line: str, mebibytes: int) -> list[Case]:
    """Return streamlink with each encoding, and models that resemble trained weights."""
    return [Case(peer, parse_line(line), Payload(mebibytes * MIB, 64, kind))
            for kind, peers in ENCODED.items() for peer in peers]  # fmt: skip


def small_plan(what: What, peers: Sequence[str]) -> Plan:
    """Return every path of the plan once, in two minutes on a machine that is not busy."""
    lossy = "20Mbit,20ms,loss=0.1%"
    loads = [("loopback", 8), ("50Mbit,20ms", 4), (lossy, 2), ("400KiB", 0.5)]
    if what is What.links:
        cases = [*crossed((RAW, OURS), loads, (4, 1)), *encoded_cases("50Mbit,20ms", 1)]
        return Plan(tuple(cases), 1, 0.5)
    # The frameworks take long to start: they do that at once, on the slow line.
    cases = [*crossed((RAW, OURS), loads[:3], (4,)), *crossed(peers, loads[3:], (4,))]
    return Plan(tuple(cases), 1, 0.5)


def crossed(
    peers: Iterable[str], loads: Iterable[tuple[str, float]], shapes: Sequence[int]
) -> list[Case]:
    """Return each peer with each line and shape; those of one line and shape are neighbours."""
    named = list(peers)
    found: list[Case] = []
    for text, mebibytes in loads:
        line: Line = parse_line(text)
        for arrays in shapes:
            payload = Payload(int(mebibytes * MIB), arrays)
            found += [Case(peer, line, payload) for peer in named]
    return found
