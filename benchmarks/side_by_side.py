"""One stream of streamlink beside other means, in turn in one run: ratios pair by pair, a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.arrays import Load
from benchmarks.peers import COLUMNS, Peer, Run, row, runs_json, runs_of
from benchmarks.stats import MIN_PAIRS, Comparison, Result, compare, interleave

__all__ = ["Claim", "ratios_to", "side_by_side"]


@dataclass(frozen=True)
class Claim:
    """What is claimed, and how it is judged.

    Attributes:
        name: of the report.
        words: the claim.
        ours: the peer that it is about.
        is_met: judges the ratios of ``ours`` to the others, by their names.
    """

    name: str
    words: str
    ours: Peer
    is_met: Callable[[dict[str, Comparison]], bool]


def side_by_side(claim: Claim, peers: Sequence[Peer], load: Load, pairs: int) -> Result:
    """Move ``load`` by each means in turn; fewer than ``MIN_PAIRS`` pairs judge nothing."""
    present = [peer for peer in peers if not peer.missing]
    skipped = [peer.missing for peer in peers if peer.missing]
    results = interleave(runs_of(present, load), pairs=pairs)
    ratios = ratios_to(claim.ours, results)
    shown = {name: f"{found}, {found.verdict}" for name, found in ratios.items()}
    return Result(
        name=claim.name,
        claim=claim.words,
        columns=(*COLUMNS, f"{claim.ours.name} is"),
        rows=tuple((*row(name, runs), shown.get(name, "")) for name, runs in results.items())
        + tuple((words, "", "", "", "", "") for words in skipped),
        facts={
            "load": (
                replace(load, certificates="made for the run") if load.certificates else load
            ).as_json(),
            "runs": runs_json(results),
            "ratios": {name: list(found.ratios) for name, found in ratios.items()},
            "skipped": skipped,
        },
        met=claim.is_met(ratios) if pairs >= MIN_PAIRS else None,
    )


def ratios_to(ours: Peer, results: dict[str, list[Run]]) -> dict[str, Comparison]:
    """Return the rate of ``ours`` over that of each other peer, pair by pair, by their names."""
    rates = [run.rate for run in results[ours.name]]
    return {
        name: compare(ours.name, rates, name, [run.rate for run in runs])
        for name, runs in results.items()
        if name != ours.name
    }
