"""The server of an experiment: rounds of streamlink, or rounds by hand in the other versions."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import streamlink as sl
from streamlink.profiling.heap.capture import Capture
from streamlink.profiling.heap.experiment import Experiment, Order
from streamlink.profiling.heap.messages import Message, pack, unpack
from streamlink.profiling.heap.variants import Variant, variant
from streamlink.stores import Array, ArrayModel, MemoryStore

__all__ = ["LOAD", "TRAIN", "link_config", "serve"]

LOAD, TRAIN = "load", "train"
_WAIT_SECONDS = 300.0


def serve(order: Order, capture: Capture, begun: Callable[[str], object]) -> None:
    """Run the rounds of the job.

    Args:
        order: what to do.
        capture: gets the rounds.
        begun: called with the address once the server listens.

    Raises:
        StreamlinkError: a client failed, or the model cannot be read or stored.
    """
    switches, experiment = variant(order.version), order.experiment
    assert order.start is not None
    if switches.is_streaming:
        sl.tune_allocator()
    with (
        TemporaryDirectory(prefix="model-", dir=order.run) as folder,
        sl.Server(order.address, link_config(experiment, switches)) as server,
    ):
        begun(server.address)
        if switches.is_streaming:
            _stream(order, capture, server, Path(folder) / "model")
        else:
            by_hand = _Rounds(experiment, switches, server, order.start)
            capture.model_bytes = by_hand.model_bytes
            by_hand.run(capture)


def link_config(
    experiment: Experiment, switches: Variant, *, is_client: bool = False
) -> sl.LinkConfig:
    """Return the settings of one end."""
    own = experiment.client_chunk_bytes if is_client else None
    chunk = switches.chunk_bytes or own or experiment.chunk_bytes
    stream: dict[str, Any] = {}
    if chunk is not None:
        stream = {"chunk_bytes": chunk, "min_chunk_bytes": min(chunk, 64 << 10)}
        stream["window_bytes"] = switches.window_bytes or max(16 << 20, 2 * chunk)
        stream["initial_window_bytes"] = min(stream["window_bytes"], 1 << 20)
    grpc: dict[str, Any] = {"max_clients": max(16, experiment.clients)}
    if experiment.max_message_bytes is not None:
        grpc["max_message_bytes"] = experiment.max_message_bytes
    return sl.LinkConfig.model_validate({"stream": stream, "grpc": grpc})


def _stream(order: Order, capture: Capture, server: sl.Server, folder: Path) -> None:
    """Run rounds as a user of streamlink does: the model is on the disk."""
    assert order.start is not None
    shutil.copytree(order.start, folder)
    with closing(sl.open_model(folder)) as model:
        capture.model_bytes = model.spec.nbytes
    rules = sl.RoundConfig(
        min_clients=order.experiment.clients,
        num_rounds=order.experiment.rounds,
        wait_for_clients_seconds=_WAIT_SECONDS,
        weights="equal",
    )
    job = sl.ScatterAndGather(server, folder, rules)
    job.wait_for_clients()
    last = rules.num_rounds - 1
    for number in range(rules.num_rounds):
        began = time.monotonic()
        job.run_round(number, is_last=number == last)
        capture.done(number, time.monotonic() - began)
    capture.digest = sl.digest_of(folder)


class _Rounds:
    """Rounds that gather the updates whole: each model is sent, then each update is asked for."""

    def __init__(
        self, experiment: Experiment, switches: Variant, server: sl.Server, start: Path
    ) -> None:
        self._experiment, self._switches, self._server = experiment, switches, server
        self._model = _loaded(start)
        self._requests: list[Message] = []  # what a handler holds until its answer was sent
        self._replies: list[Message] = []
        self._step: Any = None

    @property
    def model_bytes(self) -> int:
        """The size of the model (bytes)."""
        return sum(each.nbytes for each in self._model.values())

    def run(self, capture: Capture) -> None:
        """Run all rounds, and send the final model."""
        peers = self._server.wait_for_peers(self._experiment.clients, _WAIT_SECONDS)
        for number in range(self._experiment.rounds):
            began = time.monotonic()
            self._send(peers)
            self._average(self._gather(peers))
            capture.done(number, time.monotonic() - began)
        self._send(peers)
        capture.digest = sl.digest_of(ArrayModel(self._model))

    def _send(self, peers: Any) -> None:
        kind = {"chunking": self._switches.chunking, "optimize": self._switches.carrier}
        shared = self._model
        if not self._switches.server:  # what is given out is a copy
            shared = {name: each.copy() for name, each in self._model.items()}
        # Each client's answer is serialized for itself, and all are held at the same time.
        messages = [pack(shared, **kind) for _ in peers]
        _results([p.ask(LOAD, m.arrays) for p, m in zip(peers, messages, strict=True)])
        self._requests.clear()

    def _gather(self, peers: Any) -> dict[str, Message]:
        stores = [MemoryStore() for _ in peers]
        asked = [peer.ask(TRAIN, into=store) for peer, store in zip(peers, stores, strict=True)]
        _results(asked)
        kind = {"chunking": self._switches.chunking, "optimize": self._switches.carrier}
        return {peer.name: unpack(stores.pop(0).arrays, **kind) for peer in peers}

    def _average(self, updates: dict[str, Message]) -> None:
        """Replace the model by the mean of the updates, which is the same bits in all versions."""
        sources = {name: ArrayModel(each.arrays) for name, each in updates.items()}
        mean = sl.rounds.AveragedModel(sources)
        if self._switches.server:
            sl.copy_model(mean, ArrayModel(self._model))
            return
        step = {name: np.zeros_like(each) for name, each in self._model.items()}
        sl.copy_model(mean, ArrayModel(step))
        self._step = step
        self._model = {name: each.copy() for name, each in step.items()}
        self._requests = list(updates.values())


def _loaded(start: Path) -> dict[str, Array]:
    store = MemoryStore()
    with closing(sl.open_model(start)) as model:
        sl.copy_model(model, store)
    return dict(store.arrays)


def _results(exchanges: list[Any]) -> None:
    """Wait for all; the first that fails ends the job."""
    wait(exchanges, return_when="FIRST_EXCEPTION")
    for each in exchanges:
        if each.done():
            each.result()
    for each in exchanges:
        each.result()
