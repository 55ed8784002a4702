"""Second line: the server's aggregation and model work on ranges, and hold windows.

Both are components of a FLARE job. Results of clients stay where they arrived (the job's spool),
the mean is computed range by range into a directory of safetensors, and the next round's model is
sent from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnableKey, make_model_learnable
from nvflare.app_common.abstract.model_persistor import ModelPersistor
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.workflows.base_fedavg import (
    _aggregate_fl_model_metrics as mean_of_metrics,
)
from nvflare.app_common.workflows.base_fedavg import (
    _get_num_steps_weight as steps_of,
)

from streamlink import ModelSource, copy_model
from streamlink.errors import CorruptStore, ModelError, StoreError
from streamlink.integrations.differences import with_differences
from streamlink.integrations.tensors import NUMPY, origin, stored, whole
from streamlink.rounds import AveragedModel
from streamlink.stores import SafetensorsSource, SafetensorsStore, open_model

__all__ = ["StoreAggregator", "StorePersistor"]


class StorePersistor(ModelPersistor):
    """Gives FLARE the global model as tensors that are read from a directory of safetensors.

    Args:
        model: path of the first model at the server: a directory or file of safetensors.
        kind: what clients get: ``"numpy"`` arrays or ``"torch"`` tensors.
        folder: where jobs keep their models, each under its id; by default beside ``model``. Not
            below FLARE's own results: these are packed in memory.
    """

    def __init__(self, model: str, kind: str = NUMPY, folder: str = "") -> None:
        super().__init__()
        self.model, self.kind, self.folder = model, kind, folder

    def store(self, fl_ctx: Any) -> SafetensorsStore:
        """Return where the job's model is kept."""
        return SafetensorsStore(Path(self.folder or f"{self.model}-jobs") / fl_ctx.get_job_id())

    def load_model(self, fl_ctx: Any) -> Any:
        """Open what the job has stored last, or the first model."""
        try:
            source: ModelSource = self.store(fl_ctx).open()
        except CorruptStore:
            raise  # the job would begin anew, and nobody would know
        except StoreError:  # nothing yet
            source = open_model(Path(self.model))
        return make_model_learnable(stored(source, self.kind), {})

    def save_model(self, model: Any, fl_ctx: Any) -> None:
        """Store a model that is in memory; what ``StoreAggregator`` made is stored already."""
        weights = model[ModelLearnableKey.WEIGHTS]
        if not isinstance(origin(weights), SafetensorsSource):
            copy_model(whole(weights), self.store(fl_ctx))


class StoreAggregator(ModelAggregator):
    """Averages the clients' models range by range into a directory of safetensors.

    Weights are the clients' steps, and metrics are averaged, by the functions of FLARE's FedAvg;
    the sum is in the order of the clients' names, so its bits do not depend on who was first.
    Differences, of all tensors or of some, are added to the model that they are for, in its dtypes.

    Args:
        persistor: id of the ``StorePersistor``.
        accept_non_finite: let NaN and infinity into the mean, as FLARE's own aggregation does;
            otherwise such an update fails the job, with an error that names its site.
    """

    def __init__(self, persistor: str = "persistor", accept_non_finite: bool = False) -> None:
        super().__init__()
        self.persistor, self.accept_non_finite = persistor, accept_non_finite
        self._models: dict[str, Any] = {}

    def accept_model(self, model: Any) -> None:
        """Keep a client's model, unread."""
        self._models[model.meta.get("client_name") or str(len(self._models))] = model

    def reset_stats(self) -> None:
        """Forget the models of the last round, which releases them."""
        self._models.clear()

    def aggregate_model(self) -> Any:
        """Average what was accepted, store it, and return it unread."""
        models = dict(self._models)
        weights = {name: steps_of(each) for name, each in models.items()}
        parts = {name: whole(model.params) for name, model in models.items()}
        persistor = self.fl_ctx.get_engine().get_component(self.persistor)
        mean: ModelSource = AveragedModel(parts, weights, accept_non_finite=self.accept_non_finite)
        if ParamsType.DIFF in (kinds := {model.params_type for model in models.values()}):
            if len(kinds) > 1:
                raise ModelError("there are differences from some sites, and models from others")
            base = persistor.load_model(self.fl_ctx)[ModelLearnableKey.WEIGHTS]
            mean = with_differences(whole(base), mean)
        store = persistor.store(self.fl_ctx)
        copy_model(mean, store)
        self.reset_stats()
        return FLModel(
            params_type=ParamsType.FULL,
            params=stored(store.open(), persistor.kind),
            metrics=mean_of_metrics(list(models.values())),
            meta={"nr_aggregated": len(models)},
        )
