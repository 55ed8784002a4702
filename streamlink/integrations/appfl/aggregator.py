"""The second line: an aggregator that averages range by range into a store."""

from __future__ import annotations

from typing import Any

from streamlink import ModelSource, copy_model, open_store
from streamlink.errors import CorruptStore, StoreError
from streamlink.integrations.torch_models import Tensors
from streamlink.rounds import AveragedModel
from streamlink.stores import as_model

__all__ = ["StreamlinkAggregator"]

_GLOBAL = "(the global model)"  # where clients have their names, in the errors of the mean


class StreamlinkAggregator:
    """Averages range by range into a store, so that the server holds windows and no model.

    In APPFL's configuration: ``aggregator_path`` names a file that imports this class,
    ``aggregator: StreamlinkAggregator``, and in ``aggregator_kwargs``

    - ``store``: the global model's directory; where it is empty, APPFL's own model is stored there;
    - ``client_weights_mode``: ``equal`` or ``sample_size``, as for ``FedAvgAggregator``;
    - ``alpha``: with an asynchronous scheduler, how far the global model moves towards a local one,
      times the client's share, as for ``FedAsyncAggregator`` (0.9; whatever its staleness). The
      share is that of its samples, or one of ``num_clients``, which APPFL fills in;
    - ``accept_non_finite``: let NaN and infinity into the mean, as APPFL's own aggregators do
      (False: such an update fails its round, with an error that names its client).

    Raises:
        ValueError: a setting is missing, or asks for what this does not do.
    """

    def __init__(
        self, model: Any = None, aggregator_configs: Any = None, logger: Any = None
    ) -> None:
        configs = dict(aggregator_configs or {})
        if "store" not in configs:
            raise ValueError("aggregator_kwargs.store is missing: the directory of the model")
        if configs.get("staleness_fn", "constant") != "constant":
            raise ValueError("staleness_fn: StreamlinkAggregator knows 'constant' only")
        if configs.get("gradient_based", False):
            raise ValueError("send_gradient: StreamlinkAggregator averages models, not gradients; "
                             "leave it out of train_configs")  # fmt: skip
        self._store = open_store(configs["store"])
        self._by_samples = configs.get("client_weights_mode", "equal") == "sample_size"
        self._accepts = bool(configs.get("accept_non_finite", False))
        self._alpha = float(configs.get("alpha", 0.9))
        self._clients = int(configs.get("num_clients", 1))
        self._samples: dict[str, float] = {}
        self.model, self.logger = model, logger

    def set_client_sample_size(self, client_id: int | str, sample_size: int) -> None:
        """Note how many samples a client has."""
        self._samples[str(client_id)] = sample_size

    def get_parameters(self, **_: Any) -> Tensors:
        """Return the global model as it is now, also while a later one replaces it."""
        try:
            return Tensors(self._store.open())
        except StoreError as error:
            if self.model is None or isinstance(error, CorruptStore):
                raise
        copy_model(self.model, self._store)
        return self.get_parameters()

    def aggregate(self, *models: Any, **_: Any) -> Tensors:
        """Average the clients' models, or one client's and the global one, into the store."""
        if len(models) == 2:  # an asynchronous scheduler: client, model
            client, model = models
            sources = {_GLOBAL: self.get_parameters(), str(client): _as_source(model)}
            step = self._alpha * self._share(str(client))
            weights = {_GLOBAL: 1.0 - step, str(client): step}
        else:
            sources = {str(client): _as_source(model) for client, model in models[0].items()}
            weights = {name: self._samples.get(name, 1.0) if self._by_samples else 1.0
                       for name in sources}  # fmt: skip
        copy_model(AveragedModel(sources, weights, accept_non_finite=self._accepts), self._store)
        return Tensors(self._store.open())

    def _share(self, client: str) -> float:
        if self._by_samples and client in self._samples:
            return self._samples[client] / sum(self._samples.values())
        return 1.0 / self._clients


def _as_source(model: Any) -> ModelSource:
    return model if isinstance(model, ModelSource) else as_model(model)
