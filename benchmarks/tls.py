"""One model, one stream, array to array, with TLS: streamlink beside plain gRPC with TLS.

Both use the same certificates, made for the run by ``streamlink certs``: the server shows one and
the client verifies it. What is compared is what ``bulk`` compares, so the same bound applies.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.arrays import GiB, Load
from benchmarks.bulk import AT_LEAST, STREAMLINK, is_met, ratios_to_peers
from benchmarks.peers import COLUMNS, PLAIN, PLAIN_TUNED, Peer, row, runs_json, runs_of
from benchmarks.stats import MIN_PAIRS, Result, interleave

__all__ = ["make_certificates", "run"]

PAIRS = 11  # a transfer with TLS keeps both cores busy, and whatever else runs shows

PEERS = (STREAMLINK, PLAIN, PLAIN_TUNED)


def run(quick: bool) -> Result:
    """Measure streamlink and plain gRPC in turn, both with TLS, and compare pair by pair."""
    with tempfile.TemporaryDirectory(prefix="streamlink-") as folder:
        make_certificates(folder)
        return compare_with_tls(
            Load(total_bytes=GiB if quick else 4 * GiB, certificates=folder),
            pairs=1 if quick else PAIRS,
        )


def make_certificates(folder: str) -> None:
    """Make a CA and a server's certificate for the loopback.

    Raises:
        RuntimeError: it did not work; says why, such as a package that is missing.
    """
    command = [sys.executable, "-m", "streamlink", "certs", folder, "--server", "127.0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"no certificates could be made: {done.stderr.strip()}")


def compare_with_tls(load: Load, pairs: int, peers: Sequence[Peer] = PEERS) -> Result:
    """Move ``load`` by each means in turn; fewer than ``MIN_PAIRS`` pairs judge nothing."""
    results = interleave(runs_of(list(peers), load), pairs=pairs)
    ratios = ratios_to_peers(results)
    shown = {name: f"{found}, {found.verdict}" for name, found in ratios.items()}
    return Result(
        name="tls",
        claim=f"one stream with TLS moves at least {AT_LEAST:.2f} x plain grpcio with TLS",
        columns=(*COLUMNS, "streamlink is"),
        rows=tuple((*row(name, runs), shown.get(name, "")) for name, runs in results.items()),
        facts={
            "load": replace(load, certificates="made for the run").as_json(),
            "runs": runs_json(results),
            "ratios": {name: list(found.ratios) for name, found in ratios.items()},
        },
        met=is_met(ratios) if pairs >= MIN_PAIRS else None,
    )
