"""One model, one stream, array to array, with TLS: streamlink beside plain gRPC and bare sockets.

All use the same certificates, made for the run by ``streamlink certs``: the server shows one and
the client verifies it. What is compared is what ``bulk`` compares, so the same bound applies; the
bare sockets have no hash and no acks. The better of two counts: with the message size of all
others, and with the size that was fastest in the report of ``raw``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from benchmarks.arrays import GiB, Load
from benchmarks.bulk import AT_LEAST, STREAMLINK
from benchmarks.certificates import make_certificates
from benchmarks.fastest_socket import fastest
from benchmarks.peers import PLAIN, PLAIN_TUNED, Peer
from benchmarks.side_by_side import Claim, side_by_side
from benchmarks.stats import Comparison, Result

__all__ = ["PEERS", "RAW", "compare_with_tls", "is_met", "run"]

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
            peers=(*PEERS, fastest(RAW.name)),
        )


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
    least = [(name, AT_LEAST) for name in ratios if name == PLAIN.name]
    least += [(name, AT_LEAST_RAW) for name in ratios if name.startswith(RAW.name)]
    return all(ratios[name].summary.median >= bound for name, bound in least)
