"""One model, one stream, array to array, with TLS: streamlink beside plain gRPC and bare sockets.

All use the same certificates, made for the run by ``streamlink certs``: the server shows one and
the client verifies it. What is compared is what ``bulk`` compares, so the same bound applies; the
bare sockets have no hash and no acks.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.arrays import GiB, Load
from benchmarks.bulk import AT_LEAST, STREAMLINK
from benchmarks.peers import PLAIN, PLAIN_TUNED, Peer
from benchmarks.side_by_side import Claim, side_by_side
from benchmarks.stats import Comparison, Result

__all__ = ["RAW", "compare_with_tls", "is_met", "make_certificates", "run"]

AT_LEAST_RAW = 0.8  # of a bare socket with TLS

PAIRS = 11  # a transfer with TLS keeps both cores busy, and whatever else runs shows

RAW = Peer("raw TLS", "benchmarks.peer_socket:receiver", "benchmarks.peer_socket:sender")
PEERS = (STREAMLINK, PLAIN, PLAIN_TUNED, RAW)


def run(quick: bool) -> Result:
    """Measure streamlink and the others in turn, all with TLS, and compare pair by pair."""
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
    claim = Claim(
        "tls",
        f"one stream with TLS moves at least {AT_LEAST:g} x plain grpcio with TLS, and "
        f"{AT_LEAST_RAW:g} x a bare socket with TLS",
        STREAMLINK,
        is_met,
    )
    return side_by_side(claim, peers, load, pairs)


def is_met(ratios: dict[str, Comparison]) -> bool:
    """Tell whether the median ratio to each measured peer reaches its bound."""
    least = {PLAIN.name: AT_LEAST, RAW.name: AT_LEAST_RAW}
    return all(ratios[name].summary.median >= least[name] for name in least if name in ratios)
