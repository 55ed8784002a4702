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
from streamlink.integrations.flower.records import SourceRecord, exchanged, record_of, source_of
from streamlink.rounds import AveragedModel

__all__ = ["StreamingFedAvg"]


class StreamingFedAvg(FedAvg):  # type: ignore[misc]  # untyped
    """``FedAvg`` that holds windows of models instead of models.

    Sampling, checks of the replies, weights and metrics are Flower's own; only the mean of the
    arrays is ours. It keeps their dtypes (Flower makes float64 of integers).

    Args:
        store: holds the model, such as ``streamlink.open_store("model")``; each round replaces it.
        accept_non_finite: let NaN and infinity into the mean, as Flower's own strategies do;
            otherwise such an update ends the run, with an error that names its node.
        options: those of ``FedAvg``.
    """

    def __init__(self, store: ModelStore, *, accept_non_finite: bool = False, **options: Any):
        super().__init__(**options)
        self._store, self._accepts = store, accept_non_finite

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
        loop = _Loop(self, record_of(self._store.open()))
        given = signature(super().start).bind(grid, loop.sizes, *args, **options)
        if (evaluate := given.arguments.get("evaluate_fn")) is not None:
            given.arguments["evaluate_fn"] = lambda n, arrays: evaluate(n, loop.known(arrays))
        result = super().start.__func__(loop, *given.args, **given.kwargs)
        result.arrays = loop.known(result.arrays)
        return result

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Average the arrays of the replies into the store; the metrics are aggregated by Flower.

        Raises:
            StreamlinkError: the models differ, one has NaN or infinity and these are not accepted,
                or the store cannot take the mean.
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
        copy_model(AveragedModel(sources, weights, accept_non_finite=self._accepts), self._store)
        return record_of(self._store.open()), metrics


class _Loop:
    """The strategy as Flower's loop sees it, with ``sizes`` in the place of the model.

    The loop passes the model on, and logs its size at the beginning and the end: for that it would
    serialize each array, and so hold two copies of the largest.
    """

    def __init__(self, strategy: StreamingFedAvg, arrays: SourceRecord) -> None:
        self._strategy = strategy
        self._keep(arrays)

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._strategy, name)
        gets_model = name.startswith("configure_")
        return (lambda n, arrays, *rest: own(n, self.known(arrays), *rest)) if gets_model else own

    __class__ = property(lambda self: type(self._strategy))  # whose name is logged

    def known(self, arrays: ArrayRecord) -> ArrayRecord:
        """Return what ``arrays`` stands for."""
        return self._arrays if arrays is self.sizes else arrays

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        arrays, metrics = self._strategy.aggregate_train(server_round, replies)
        # Else there is no mean, or a subclass has made its own.
        return (self._keep(arrays) if isinstance(arrays, SourceRecord) else arrays), metrics

    def _keep(self, arrays: SourceRecord) -> ArrayRecord:
        self._arrays, self.sizes = arrays, ArrayRecord()
        for name, array in arrays.items():
            sized = self.sizes[name] = Array("", (), "", b"")
            sized.data = range(array.tensor.nbytes)  # has a length, and takes no memory
        return self.sizes


def _emptied(reply: Message) -> Message:
    emptied, nothing = copy(reply), Array(np.empty(0, np.float32))
    if not reply.has_error():
        emptied.content = exchanged(reply.content, lambda r: ArrayRecord(dict.fromkeys(r, nothing)))
    return emptied
