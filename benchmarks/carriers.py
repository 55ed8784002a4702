"""One stream, array to array, over each carrier of streamlink, beside what else moves such bytes.

All in turn in one run, so that the ratios hold on a machine whose speed changes. Raw TCP is the
best of three: with the message size of all others, with and without ``MSG_WAITALL``, and what was
fastest in the report of ``raw``. It has no hash and no acks, streamlink both.
"""

from __future__ import annotations

from typing import Any

from benchmarks.arrays import GiB, Load
from benchmarks.bulk import STREAMLINK, streamlink_receiver
from benchmarks.fastest_socket import fastest
from benchmarks.peers import FLIGHT, PLAIN_TUNED, Peer
from benchmarks.side_by_side import Claim, side_by_side
from benchmarks.stats import MIN_PAIRS, Comparison, Result
from benchmarks.worker import Port

__all__ = [
    "AT_LEAST",
    "OVER_GRPC",
    "OVER_TCP",
    "PEERS",
    "grpc_receiver",
    "is_met",
    "run",
    "tcp_receiver",
]

RAW = "raw TCP"
_SENDER = "benchmarks.peer_socket:sender"
_RAW_PEERS = (
    Peer(RAW, "benchmarks.peer_socket:receiver", _SENDER),
    Peer(f"{RAW}, MSG_WAITALL", "benchmarks.peer_socket:waiting_receiver", _SENDER),
)
OVER_TCP = Peer("streamlink, tcp", "benchmarks.carriers:tcp_receiver", STREAMLINK.sender, True)
OVER_GRPC = Peer("streamlink, grpc", "benchmarks.carriers:grpc_receiver", STREAMLINK.sender, True)
PEERS = (OVER_TCP, OVER_GRPC, *_RAW_PEERS, FLIGHT, PLAIN_TUNED)

AT_LEAST = {RAW: 0.75, FLIGHT.name: 1.5, PLAIN_TUNED.name: 1.2}
"""What streamlink over TCP reaches, as a multiple of each."""


def tcp_receiver(port: Port, load: dict[str, Any]) -> None:
    """Receive over TCP; see ``bulk.streamlink_receiver``."""
    streamlink_receiver(port, load, ("tcp://127.0.0.1:0",))


def grpc_receiver(port: Port, load: dict[str, Any]) -> None:
    """Receive over the connections of sessions; see ``bulk.streamlink_receiver``."""
    streamlink_receiver(port, load, ("none",))


def run(quick: bool) -> Result:
    """Measure all in turn: 4 GiB each (quick: 256 MiB, once)."""
    said = ", ".join(f"{least:g} x {name}" for name, least in AT_LEAST.items())
    words = f"one stream over TCP, hash and acks on, moves at least {said}"
    load = Load(total_bytes=GiB // 4 if quick else 4 * GiB)
    claim = Claim("carriers", words, OVER_TCP, is_met)
    peers = (*PEERS, fastest(RAW))
    return side_by_side(claim, peers, load, pairs=1 if quick else MIN_PAIRS)


def is_met(ratios: dict[str, Comparison]) -> bool:
    """Tell whether each bound is reached; that of raw TCP against the fastest."""
    raw = min(found.summary.median for name, found in ratios.items() if name.startswith(RAW))
    reached = {name: found.summary.median for name, found in ratios.items()} | {RAW: raw}
    return all(reached[name] >= least for name, least in AT_LEAST.items() if name in reached)
