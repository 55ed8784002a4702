"""Updates that arrive from clients in lockstep, and the loop that combines them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from streamlink.clock import running_time
from streamlink.errors import StoreError, StreamAborted
from streamlink.link import Update
from streamlink.link.send_model import send_model
from streamlink.model.interfaces import ModelSink
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.gather import Gather, GatherRules
from streamlink.rounds.lockstep.source import LiveSource
from streamlink.rounds.resume import Answer
from streamlink.stores.memory import MemoryStore
from tests.support.joined_pumps import Transfer
from tests.support.models import pattern_model
from tests.support.peers import ODD, WAIT, Array, config, initial, trained

__all__ = ["Gathering", "updates"]


def updates(count: int) -> list[dict[str, Array]]:
    """Return what ``count`` clients would send for the model ``initial()``."""
    before = initial()
    return [
        {
            tensor.name: trained(number)(tensor, 0, before[tensor.name].reshape(-1)).reshape(
                tensor.shape
            )
            for tensor in ODD.tensors
        }
        for number in range(count)
    ]


class Gathering:
    """Clients that send their updates, joined in memory to a gather into ``store``."""

    def __init__(
        self, models: Sequence[dict[str, Array]], spec: ModelSpec = ODD, **limits: float
    ) -> None:
        self.store, self._stack = MemoryStore(), ExitStack()
        weight, metrics = limits.pop("weight", 1.0), limits.pop("loss", None)
        self._spec, self._limits = spec, limits
        self._metrics = {} if metrics is None else {"loss": metrics}
        self.terms: dict[str, Any] = {}
        self.make_source = LiveSource
        self.transfers = [
            self._stack.enter_context(
                Transfer(
                    MemoryStore(model).open().spec,
                    config(stream={"chunk_bytes": 4096 + n}),
                    update=Update(weight),
                )
            )
            for n, model in enumerate(models)
        ]
        self._models = models
        self._threads: list[threading.Thread] = []

    def send(self, number: int) -> None:
        """Let client ``number`` begin to send."""
        self.transfers[number].carrier.join()
        thread = threading.Thread(target=self._send, args=(number,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _send(self, number: int) -> None:
        with suppress(StreamAborted):  # the gather's side says why
            send_model(
                self.transfers[number].outgoing,
                MemoryStore(self._models[number]).open(),
                self._metrics,
            )

    def gather(
        self, part: ModelSpec | None = None, *, held_interval: float = 0.05, **rules: Any
    ) -> Gather:
        """Return the gather, ready to run."""
        contributors = [
            self.make_source(f"site-{n}", Answer(transfer.incoming), **self.terms)
            for n, transfer in enumerate(self.transfers)
        ]
        deadline = self._limits.get("deadline")
        return Gather(
            pattern_model(self._spec),
            part or self._spec,
            contributors,
            self.sink(),
            GatherRules(
                held_interval=held_interval,
                deadline=None if deadline is None else running_time() + deadline,
                train_timeout=deadline or 0.0,
                **rules,
                clock=running_time,
            ),
        )

    def sink(self) -> ModelSink:
        """Return where the new model goes."""
        return self.store.begin(self._spec)

    @property
    def has_new_model(self) -> bool:
        try:
            return bool(self.store.arrays)
        except StoreError:
            return False

    def close(self) -> None:
        self._stack.close()
        for thread in self._threads:
            thread.join(WAIT)
