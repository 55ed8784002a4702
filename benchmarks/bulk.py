"""One model, one stream, array to array: streamlink beside plain gRPC, Flight and bare TCP.

The claim is judged against plain grpcio as it comes, "doing the same": large arrays at both ends,
the same message size, no hash, no ack. streamlink's processes also tune their allocator, which
plain grpcio would profit from as well; that comparison stands in the table, so that nobody takes
the one for the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlink
from benchmarks.arrays import (
    Bytes,
    GiB,
    Load,
    digest,
    make_source,
    make_target,
    tune_allocator,
)
from benchmarks.peers import PEERS, PLAIN, Peer
from benchmarks.side_by_side import Claim, side_by_side
from benchmarks.stats import MIN_PAIRS, Comparison, Result
from benchmarks.worker import Port
from streamlink.stores import ArrayModel

__all__ = ["STREAMLINK", "is_met", "run", "streamlink_receiver", "streamlink_sender"]

AT_LEAST = 0.85  # of plain grpcio, same bytes, same machine

STREAMLINK = Peer(
    "streamlink",
    "benchmarks.bulk:streamlink_receiver",
    "benchmarks.bulk:streamlink_sender",
    tuned=True,
)


# ----- streamlink's own part: the same contract as every peer's two functions -----------------


def streamlink_receiver(
    port: Port, load: dict[str, Any], data_listen: tuple[str, ...] = ("auto",)
) -> None:
    """Serve on port 0 and receive one model into the target.

    Order of steps, as in ``peer_grpc.receiver``: ``Load.from_json``, imports and
    ``tune_allocator``, ``port.mark_base()``, target, ``port.tell("listening", address=…)``,
    transfer, ``port.tell("received", digest=digest(target))``. ``load.tensors`` says into how many
    equal tensors the bytes are cut (:func:`tensors_of`), ``data_listen`` is the setting.
    """
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    target = make_target(plan.total_bytes)
    config = link_config(plan, "certificate", "key")
    stream = config.stream.model_copy(update={"data_listen": data_listen})
    streamlink.receive(
        ArrayModel(tensors_of(target, plan.tensors)),
        config=config.model_copy(update={"stream": stream}),
        on_listening=lambda number: port.tell("listening", address=f"127.0.0.1:{number}"),
    )
    port.tell("received", digest=digest(target))


def streamlink_sender(port: Port, load: dict[str, Any], address: str) -> None:
    """Connect and send the source as one model; the clock stops at the receiver's commit.

    Order of steps, as in ``peer_grpc.sender``: ``Load.from_json``, imports and
    ``tune_allocator``, ``port.mark_base()``, source, connect, ``port.tell("ready")``,
    ``port.wait_for("go")``, timed transfer,
    ``port.tell("sent", seconds=…, digest=digest(source))``.
    """
    plan = Load.from_json(load)
    tune_allocator(plan)
    port.mark_base()
    source = make_source(plan.total_bytes)
    model = ArrayModel(tensors_of(source, plan.tensors))
    port.tell("ready")
    port.wait_for("go")
    receipt = streamlink.send(model, address, config=link_config(plan, "ca"))
    # From the offer to the commit; the peers' clocks do not hold their connecting either.
    port.tell("sent", seconds=receipt.seconds, digest=digest(source))


def tensors_of(memory: Bytes, tensors: int) -> dict[str, Bytes]:
    """Cut ``memory`` into named views of the same size; the last may be smaller."""
    size = -(-memory.size // tensors)
    return {
        f"tensor_{number:06d}": memory[number * size : (number + 1) * size]
        for number in range(tensors)
    }


def link_config(plan: Load, *files: str) -> streamlink.LinkConfig:
    """Return streamlink's defaults with the message size every peer uses.

    Args:
        plan: the load.
        files: settings of ``SecurityConfig`` that this end needs where there is TLS.
    """
    folder = Path(plan.certificates, "server")
    security = {name: folder / f"{name}.pem" for name in files} if plan.certificates else {}
    return streamlink.LinkConfig(
        stream=streamlink.StreamConfig(chunk_bytes=plan.message_bytes),
        security=streamlink.SecurityConfig.model_validate(security),
    )


# ----------------------------------------------------------------------------------------------


def run(quick: bool) -> Result:
    """Measure streamlink and all peers in turn, and compare pair by pair."""
    claim = Claim(
        "bulk", f"one stream moves at least {AT_LEAST:.2f} x plain grpcio", STREAMLINK, is_met
    )
    load = Load(total_bytes=GiB if quick else 4 * GiB)
    return side_by_side(claim, (STREAMLINK, *PEERS), load, pairs=1 if quick else MIN_PAIRS)


def is_met(ratios: dict[str, Comparison]) -> bool:
    """Tell whether the median reaches the bound against plain grpcio as it comes."""
    return ratios[PLAIN.name].summary.median >= AT_LEAST
