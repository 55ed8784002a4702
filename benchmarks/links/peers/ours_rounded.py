"""streamlink in a lossy format: the model of one round, from the server to its client.

Lossy formats are for rounds, so a round is what is run here: the client gets the whole model and
sends one number back. What counts is the time until the client has the model.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.links.ends import End
from benchmarks.links.payload import Arrays, digest
from benchmarks.links.peers import Peer
from benchmarks.links.peers.ours import link_config
from benchmarks.links.rounded import ROUNDED

PEER = Peer(
    {name: f"streamlink, {name}" for name in ROUNDED},
    listens="send",
    order=12,
    has_data_port=True,
    is_own=True,
    caveat="a round: the time is the client's, which has the rounded model in the end",
    module=__name__,
)

SMALL = "step"  # what the client sends back, so that only the model's way counts
ELEMENT = np.zeros(1, np.float32)


def send(end: End) -> None:
    """Be the server of one round with this model."""
    import streamlink
    from streamlink.stores import MemoryStore

    streamlink.tune_allocator()
    end.base()
    model = end.source()
    rules = streamlink.RoundConfig(min_clients=1, num_rounds=1, part=(SMALL,))
    config = link_config(end, lossy_down=(f"*={end.variant}",))
    with streamlink.Server(f"{end.host}:0", config) as server:
        store = MemoryStore({**model, SMALL: ELEMENT})
        job = streamlink.ScatterAndGather(server, store, rules, job="links")
        end.listening(server.port)
        job.run()
    # The round's end, with an update and a commit, would be another thing than the others' end.
    end.finished_elsewhere(0.0, lambda: digest(_rounded(model, end.variant)))


def receive(end: End) -> None:
    """Be the client, whose work is to note when it has the model."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    model: Arrays = end.target()
    arrived: list[float] = []

    def train(received: Any, task: streamlink.Task) -> None:
        arrived.append(time.monotonic())

    executor = streamlink.WholeExecutor(train, {**model, SMALL: ELEMENT.copy()})
    end.wait_for_go()
    began_at = time.monotonic()
    with streamlink.Client(end.address, "far", executor, link_config(end)) as here:
        connecting = time.monotonic() - began_at
        here.run()
    end.finished_elsewhere(arrived[0], lambda: digest(model), connecting_seconds=connecting)


def _rounded(model: Arrays, encoding: str) -> Arrays:
    return {name: ROUNDED[encoding](each) for name, each in model.items()}
