"""``StreamingFedAvg``: Flower's FedAvg with its model in a store, averaged range by range."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from inspect import signature
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message
from flwr.serverapp.strategy import FedAvg

from streamlink import ModelStore, copy_model
from streamlink.integrations.flower.records import exchanged, record_of, source_of
from streamlink.rounds import AveragedModel

__all__ = ["StreamingFedAvg"]


class StreamingFedAvg(FedAvg):  # type: ignore[misc]  # untyped
    """``FedAvg`` that holds windows of models instead of models.

    Sampling, checks of the replies, weights and metrics are Flower's own; only the mean of the
    arrays is ours. It keeps their dtypes (Flower makes float64 of integers), and refuses NaN.

    Args:
        store: holds the model, such as ``streamlink.open_store("model")``; each round replaces it.
        options: those of ``FedAvg``.
    """

    def __init__(self, store: ModelStore, **options: Any) -> None:
        super().__init__(**options)
        self._store = store

    def start(self, grid: Any, initial_arrays: Any = None, *args: Any, **options: Any) -> Any:
        """Start, as Flower's strategies do.

        Args:
            grid: a ``StreamlinkGrid``.
            initial_arrays: an ``ArrayRecord``, copied to the store first; None: begin with the
                model that is there.
            args: those of Flower's ``start``, in its order.
            options: the same, by name.
        """
        if initial_arrays is not None:
            copy_model(source_of(initial_arrays), self._store)
        # Flower would serialize each array of the first model, to log its size.
        given = signature(super().start).bind(grid, ArrayRecord(), *args, **options)
        if (evaluate := given.arguments.get("evaluate_fn")) is not None:
            given.arguments["evaluate_fn"] = lambda n, arrays: evaluate(n, self._known(arrays))
        return super().start(*given.args, **given.kwargs)

    def configure_train(self, server_round: int, arrays: ArrayRecord, *rest: Any) -> Any:
        """Configure the next round of training, as Flower does."""
        return super().configure_train(server_round, self._known(arrays), *rest)

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, *rest: Any) -> Any:
        """Configure the next round of evaluation, as Flower does."""
        return super().configure_evaluate(server_round, self._known(arrays), *rest)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Average the arrays of the replies into the store; the metrics are aggregated by Flower.

        Raises:
            StreamlinkError: the models differ, one has NaN, or the store cannot take the mean.
        """
        replies = list(replies)
        # Flower checks, logs and weighs them as always, with arrays that have no elements.
        none, metrics = super().aggregate_train(server_round, [_emptied(each) for each in replies])
        if none is None:
            return None, metrics
        good = {str(r.metadata.src_node_id): r.content for r in replies if not r.has_error()}
        # Flower has checked that there is one of each.
        sources = {n: source_of(next(iter(c.array_records.values()))) for n, c in good.items()}
        metrics_of = {n: next(iter(c.metric_records.values())) for n, c in good.items()}
        weights = {n: float(each[self.weighted_by_key]) for n, each in metrics_of.items()}
        copy_model(AveragedModel(sources, weights), self._store)
        return self._known(ArrayRecord()), metrics

    def _known(self, arrays: ArrayRecord) -> ArrayRecord:
        return arrays if len(arrays) else record_of(self._store.open())


def _emptied(reply: Message) -> Message:
    if reply.has_error():
        return reply
    emptied = copy(reply)
    nothing = Array(np.empty(0, np.float32))
    emptied.content = exchanged(reply.content, lambda r: ArrayRecord(dict.fromkeys(r, nothing)))
    return emptied
