"""What the processes of the two-site job do: the server, a client, a probe, and who answers it."""

from __future__ import annotations

import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

import streamlink
from benchmarks.links.sites.cases import CLIENTS, Way
from benchmarks.worker import Port
from streamlink.probing import ProbeLine, measure, propose
from streamlink.stores import SafetensorsStore

__all__ = ["answer", "client", "probe", "serve"]

HOST = "127.0.0.1"
JOIN_SECONDS = 300.0

# --- the probe ----------------------------------------------------------------------------------


def answer(port: Port) -> None:
    """Be a server with default settings, which answers probes until this process is ended."""
    streamlink.tune_allocator()
    with streamlink.Server(f"{HOST}:0") as server:
        port.tell("listening", number=server.port)
        port.wait_for("end")


def probe(port: Port, address: str, seconds: float, most: int) -> None:
    """Probe the server at ``address``, and tell what was found and what is proposed."""
    streamlink.tune_allocator()
    with ProbeLine(address) as line:
        measured = measure(line, address=address, seconds=seconds, most=most)
    choices = propose(measured)
    port.tell(
        "probed",
        down=measured.down.rate,
        up=measured.up.rate,
        round_trip=measured.idle.median,
        seconds=measured.seconds,
        nbytes=measured.nbytes,
        settings={each.name: each.value for each in choices if each.is_set},
        reasons={each.name: each.reason for each in choices},
    )


# --- the job ------------------------------------------------------------------------------------


def serve(port: Port, folder: str, settings: dict[str, Any], rules: dict[str, Any]) -> None:
    """Run the rounds when both clients are there and the word is given.

    Args:
        port: to whoever started this process.
        folder: has the model, in ``model``, and room for updates, in ``spool``.
        settings: of the link, by section.
        rules: of the rounds.
    """
    streamlink.tune_allocator()
    port.mark_base()
    done_at: list[float] = [0.0]
    plan = streamlink.RoundConfig(**rules)
    spool = Path(folder, "spool") if plan.gather == "spool" else None

    def on_event(event: streamlink.RoundEvent) -> None:
        if event.kind is streamlink.rounds.EventKind.ROUND_DONE:
            done_at.append(time.monotonic())

    config = streamlink.LinkConfig.model_validate(settings)
    with streamlink.Server(f"{HOST}:0", config) as server:
        store = SafetensorsStore(Path(folder, "model"))
        job = streamlink.ScatterAndGather(
            server, store, plan, job="two sites", spool=spool, on_event=on_event
        )
        port.tell("listening", number=server.port)
        server.wait_for_peers(len(CLIENTS), JOIN_SECONDS)
        port.tell("ready")
        port.wait_for("go")
        done_at[0] = time.monotonic()
        reports = job.run()
        peak_bytes = job.peak_bytes(len(CLIENTS))
    port.tell(
        "ran",
        at=done_at[0],
        round_seconds=[later - sooner for sooner, later in pairwise(done_at)],
        clients=[sorted(report.weights) for report in reports],
        peak_bytes=peak_bytes,
    )


def client(
    port: Port,
    address: str,
    name: str,
    settings: dict[str, Any],
    kind: Literal["whole", "streaming"],
    added: float,
    has_room: bool,
) -> None:
    """Add a small number to every element, round after round, as the clients of FLARE's notes do.

    Args:
        port: to whoever started this process.
        address: of the near end of this client's line.
        name: of this client.
        settings: of the link, by section.
        kind: of the executor.
        added: the number.
        has_room: whether the next model may come while this one's update still goes.
    """
    streamlink.tune_allocator()
    port.mark_base()
    ways: list[Way] = []

    def note(facts: streamlink.TransferFacts) -> None:
        if facts.attempt is not None and facts.outcome == "done":
            direction: Literal["down", "up"] = "down" if facts.direction == "received" else "up"
            ways.append(
                Way(name, direction, facts.attempt.round, facts.seconds, facts.lasted_seconds,
                    facts.bytes, facts.wire_bytes)
            )  # fmt: skip

    config = streamlink.LinkConfig.model_validate(settings)
    executor = _executor(kind, np.float32(added), has_room)
    with streamlink.Client(address, name, executor, config, on_transfer=note) as here:
        port.tell("joined")
        here.run()
    port.tell("left", ways=[asdict(each) for each in ways])


def _executor(kind: str, added: np.float32, has_room: bool) -> streamlink.Executor:
    if kind == "streaming":
        return streamlink.StreamingExecutor(lambda tensor, start, values: values + added)

    def train(model: Any, task: streamlink.Task) -> None:
        for array in model.values():
            array += added

    return streamlink.WholeExecutor(train, next_model="memory" if has_room else None)
