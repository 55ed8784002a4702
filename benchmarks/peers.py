"""What streamlink is compared with: the same bytes, array to array, by other means.

A peer is a pair of worker functions, ``receiver`` and ``sender``. The receiver owns the target and
tells its address; the sender owns the source, and its clock runs from the first byte offered, on a
connection that stands, until the receiver has said that everything lies in the target. Equal
digests of source and target are demanded of every run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.arrays import GiB, Load
from benchmarks.processes import Usage, Worker, WorkerFailed
from benchmarks.stats import MIN_PAIRS, Result, interleave, summarize

__all__ = ["PEERS", "PLAIN", "PLAIN_TUNED", "Peer", "Run", "measure", "run", "runs_of"]


@dataclass(frozen=True)
class Peer:
    """A way to move the bytes: worker functions as ``"module:function"``, and how it differs.

    Attributes:
        tuned: whether its processes keep freed buffers (``Load.tuned``).
        needs: a module it cannot do without, or ``""``.
        message_bytes: of one call or message, in place of the load's; 0: those of the load.
    """

    name: str
    receiver: str
    sender: str
    tuned: bool = False
    needs: str = ""
    message_bytes: int = 0

    @property
    def missing(self) -> str:
        """Why this peer cannot run here, in words; ``""`` where it can."""
        if self.needs and importlib.util.find_spec(self.needs.partition(".")[0]) is None:
            return f"{self.name} skipped: {self.needs} is not installed"
        return ""


@dataclass(frozen=True)
class Run:
    """One transfer of ``total_bytes``: how long it took and what both processes used.

    Attributes:
        how: what the ends agreed on, such as a cipher, or ``""``.
    """

    total_bytes: int
    seconds: float
    sender: Usage
    receiver: Usage
    how: str = ""

    @property
    def rate(self) -> float:
        """Payload per second (bytes/s), counted once."""
        return self.total_bytes / self.seconds

    @property
    def receiver_extra_bytes(self) -> int:
        """Receiver's peak over base and target array (bytes)."""
        return self.receiver.over_base_bytes - self.total_bytes

    @property
    def sender_extra_bytes(self) -> int:
        """Sender's peak over base and source array (bytes)."""
        return self.sender.over_base_bytes - self.total_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the run as a JSON object."""
        return {
            "seconds": self.seconds,
            "bytes_per_second": self.rate,
            "sender": self.sender.as_json(),
            "receiver": self.receiver.as_json(),
            "sender_extra_bytes": self.sender_extra_bytes,
            "receiver_extra_bytes": self.receiver_extra_bytes,
            **({"how": self.how} if self.how else {}),
        }


PLAIN = Peer("plain grpcio", "benchmarks.peer_grpc:receiver", "benchmarks.peer_grpc:sender")
PLAIN_TUNED = replace(PLAIN, name="plain grpcio, tuned allocator", tuned=True)
FLIGHT = Peer(
    "pyarrow.flight do_put",
    "benchmarks.peer_flight:receiver",
    "benchmarks.peer_flight:sender",
    needs="pyarrow.flight",
)
TCP = Peer("raw TCP", "benchmarks.peer_tcp:receiver", "benchmarks.peer_tcp:sender")
PEERS = (PLAIN, PLAIN_TUNED, FLIGHT, TCP)
AIO = tuple(
    Peer(f"grpc.aio server, {kind} handler", f"benchmarks.peer_aio:{kind}_receiver", PLAIN.sender)
    for kind in ("sync", "async")
)
"""What one event loop for all calls costs a stream: beside ``PLAIN``, in this program only."""


def measure(peer: Peer, load: Load) -> Run:
    """Move ``load.total_bytes`` once, between two fresh processes.

    Raises:
        WorkerFailed: a process failed, or the target is not what the source was.
    """
    load = replace(
        load,
        tuned=load.tuned or peer.tuned,
        message_bytes=peer.message_bytes or load.message_bytes,
    )
    facts = {"load": load.as_json()}
    with Worker(peer.receiver, facts, name=f"{peer.name} receiver") as receiver:
        address = receiver.expect("listening")["address"]
        with Worker(
            peer.sender, {**facts, "address": address}, name=f"{peer.name} sender"
        ) as sender:
            sender.expect("ready")
            sender.tell("go")
            sent = sender.expect("sent")
            received = receiver.expect("received")
            if sent["digest"] != received["digest"]:
                raise WorkerFailed(f"{peer.name}: the target is not what the source was")
            sender_usage, receiver_usage = sender.finish(), receiver.finish()
    return Run(load.total_bytes, sent["seconds"], sender_usage, receiver_usage, sent.get("how", ""))


def run(quick: bool) -> Result:
    """Measure the peers alone: what this machine gives without streamlink."""
    load = Load(total_bytes=GiB if quick else 4 * GiB)
    present = [peer for peer in (*PEERS, *AIO) if not peer.missing]
    results = interleave(runs_of(present, load), pairs=1 if quick else MIN_PAIRS)
    skipped = [peer.missing for peer in PEERS if peer.missing]
    return Result(
        name="peers",
        claim="none; what other means reach here, array to array over loopback",
        columns=COLUMNS,
        rows=tuple(row(name, runs) for name, runs in results.items())
        + tuple((words, "", "", "", "") for words in skipped),
        facts={"load": load.as_json(), "runs": runs_json(results), "skipped": skipped},
    )


COLUMNS = ("what", "GB/s, median", "p10..p90", "receiver extra MiB", "sender extra MiB")


def runs_of(peers: list[Peer], load: Load) -> dict[str, Callable[[], Run]]:
    """Return one callable per peer, by name, for :func:`benchmarks.stats.interleave`."""

    def once(peer: Peer) -> Callable[[], Run]:
        return lambda: measure(peer, load)

    return {peer.name: once(peer) for peer in peers}


def row(name: str, runs: list[Run]) -> tuple[str, ...]:
    """Return one line of the table for a peer's runs."""
    rates = summarize([run.rate / 1e9 for run in runs])
    extra = [max(r.receiver_extra_bytes for r in runs), max(r.sender_extra_bytes for r in runs)]
    return (
        name,
        f"{rates.median:.2f}",
        f"{rates.low:.2f}..{rates.high:.2f}",
        # The kernel counts resident pages in batches, so nothing can read as a little less.
        *(f"{max(0, nbytes) / (1 << 20):.0f}" for nbytes in extra),
    )


def runs_json(results: dict[str, list[Run]]) -> dict[str, Any]:
    """Return all runs by peer as JSON."""
    return {name: [run.as_json() for run in runs] for name, runs in results.items()}
