"""Raw sockets over loopback, array to array: the rates that streamlink is compared with.

Each size of buffer, with and without ``MSG_WAITALL``, without TLS and with it; the best median of
each kind is the reference. Flight and plain grpcio with the tuned allocator run in the same turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.arrays import GiB, KiB, Load, MiB
from benchmarks.certificates import make_certificates
from benchmarks.peers import COLUMNS, FLIGHT, PLAIN_TUNED, Peer, Run, measure, row, runs_json
from benchmarks.stats import MIN_PAIRS, Result, interleave, summarize
from benchmarks.tables import report_progress

__all__ = ["SIZES", "Way", "best_by_kind", "compared", "run", "ways"]

SIZES = (256 * KiB, 512 * KiB, MiB, 2 * MiB, 4 * MiB)
RAW, RAW_TLS = "raw TCP", "raw TLS"

_SENDER = "benchmarks.peer_socket:sender"
_RECEIVERS = {
    "": "benchmarks.peer_socket:receiver",
    ", MSG_WAITALL": "benchmarks.peer_socket:waiting_receiver",
}


@dataclass(frozen=True)
class Way:
    """One way to move the bytes.

    Attributes:
        kind: ways of one kind compete for being its reference.
    """

    kind: str
    peer: Peer
    certificates: str = ""

    def measure(self, load: Load) -> Run:
        """Move the load once."""
        return measure(self.peer, replace(load, certificates=self.certificates))


def run(quick: bool) -> Result:
    """Measure all ways in turn (quick: once, with few bytes)."""
    load = Load(total_bytes=GiB // 4 if quick else 4 * GiB)
    pairs = 1 if quick else MIN_PAIRS
    with tempfile.TemporaryDirectory(prefix="streamlink-") as folder:
        try:
            make_certificates(folder)
        except RuntimeError as error:
            return compared(load, ways(""), pairs, [f"TLS skipped: {error}"])
        return compared(load, ways(folder), pairs, [])


def ways(certificates: str, sizes: Sequence[int] = SIZES) -> list[Way]:
    """Return all ways; those with TLS only where there is a folder of certificates."""
    found = [
        Way(RAW, Peer(f"{RAW}, {_named(size)}{words}", body, _SENDER, message_bytes=size))
        for words, body in _RECEIVERS.items()
        for size in sizes
    ]
    found += [Way(peer.name, peer) for peer in (FLIGHT, PLAIN_TUNED)]
    if certificates:
        body = _RECEIVERS[""]  # ``ssl`` takes no flags
        found += [
            Way(
                RAW_TLS,
                Peer(f"{RAW_TLS}, {_named(size)}", body, _SENDER, message_bytes=size),
                certificates,
            )
            for size in sizes
        ]
        grpc = replace(PLAIN_TUNED, name=f"{PLAIN_TUNED.name}, TLS")
        found.append(Way(grpc.name, grpc, certificates))
    return found


def compared(load: Load, used: Sequence[Way], pairs: int, skipped: Sequence[str]) -> Result:
    """Run every way in turn, ``pairs`` times."""
    present = {way.peer.name: way for way in used if not way.peer.missing}
    missing = [*skipped, *(way.peer.missing for way in used if way.peer.missing)]

    def of(way: Way) -> Callable[[], Run]:
        def once() -> Run:
            seen = way.measure(load)
            report_progress(f"{way.peer.name}: {seen.rate / 1e9:.2f} GB/s")
            return seen

        return once

    results = interleave({name: of(way) for name, way in present.items()}, pairs=pairs)
    best = best_by_kind({name: way.kind for name, way in present.items()}, results)
    return Result(
        name="raw",
        claim="none; what bare sockets reach over loopback, array to array, no hash, and others",
        columns=(*COLUMNS, ""),
        rows=tuple(
            (*row(name, runs), "best" * (name == best[RAW] or name == best.get(RAW_TLS)))
            for name, runs in results.items()
        )
        + tuple((words, "", "", "", "", "") for words in missing),
        facts={
            "load": load.as_json(),
            "best": best,
            "ciphers": sorted({run.how for runs in results.values() for run in runs if run.how}),
            "runs": runs_json(results),
            "skipped": missing,
        },
    )


def best_by_kind(kinds: Mapping[str, str], results: Mapping[str, Sequence[Run]]) -> dict[str, str]:
    """Return, for each kind, the name of the way with the best median rate."""
    medians = {name: summarize([run.rate for run in results[name]]).median for name in kinds}
    best: dict[str, str] = {}
    for name in sorted(medians, key=medians.__getitem__):
        best[kinds[name]] = name  # the fastest of its kind comes last
    return best


def _named(nbytes: int) -> str:
    return f"{nbytes // KiB} KiB"
