"""Components of the measured job: they watch through FLARE's own events and change nothing."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.app_common.abstract.model import ModelLearnableKey, make_model_learnable
from nvflare.app_common.abstract.model_persistor import ModelPersistor
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.workflows.fedavg import FedAvg

from benchmarks.integrations import inside

LATE_SITE = "site-2"
TASK_SECONDS = 60


class ImpatientFedAvg(FedAvg):
    """FedAvg with a timeout of its tasks; FLARE's own default is to wait for ever."""

    def send_model(self, *arguments: Any, **options: Any) -> Any:
        return super().send_model(*arguments, **options, timeout=TASK_SECONDS)


def leave_unfetched() -> None:
    """Let this process keep its first reference until the server's first round is over."""
    from streamlink.integrations.nvflare.sides import SiteSide

    fetch = SiteSide.fetch

    def late(side: Any, *arguments: Any, **options: Any) -> Any:
        SiteSide.fetch = fetch  # type: ignore[method-assign]
        inside.mark("unfetched", side=LATE_SITE)
        inside.wait_for("round-0-is-over")
        inside.mark("fetched too late", side=LATE_SITE)
        return fetch(side, *arguments, **options)

    SiteSide.fetch = late  # type: ignore[method-assign,assignment]


class SiteProbe(FLComponent):
    """Times what a site spends in FLARE's calls that get a task and send its result."""

    def __init__(self) -> None:
        super().__init__()
        self._began_at = self._pulled = 0.0
        self._sending = ExitStack()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            site = fl_ctx.get_identity_name()
            inside.belong(site)
            inside.idle()
            if inside.facts()["failure"] == "unfetched" and site == LATE_SITE:
                leave_unfetched()
        elif event_type == EventType.BEFORE_PULL_TASK:
            self._began_at = time.monotonic()
        elif event_type == EventType.AFTER_PULL_TASK:
            self._pulled = time.monotonic() - self._began_at
        elif event_type == EventType.BEFORE_TASK_EXECUTION:
            inside.mark(
                "call", kind="receive", seconds=self._pulled
            )  # of polls only this had a task
        elif event_type == EventType.BEFORE_SEND_TASK_RESULT:
            self._sending.enter_context(inside.call("send"))
        elif event_type == EventType.AFTER_SEND_TASK_RESULT:
            self._sending.close()


class ServerProbe(FLComponent):
    """Times each round, from the model that is there to the next one that is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._round = ExitStack()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.START_RUN:
            inside.belong("server")
            inside.idle()
        elif event_type == AppEventType.ROUND_STARTED:
            number = fl_ctx.get_prop(AppConstants.CURRENT_ROUND)
            inside.mark("round began", number=number)
            self._round.enter_context(inside.round(number))
        elif event_type == AppEventType.AFTER_LEARNABLE_PERSIST:
            self._round.close()
        elif event_type == EventType.ABORT_TASK:
            inside.mark("aborted", task=str(fl_ctx.get_prop(FLContextKey.TASK_NAME)))
        elif event_type == EventType.END_RUN:
            inside.mark("run ended", objects=_objects_of(fl_ctx.get_engine().get_cell()))


def _objects_of(cell: Any) -> int:
    """Return how many objects the job's server still holds."""
    if inside.facts()["line"] == "bare":
        return 0
    from streamlink.integrations.nvflare.sides import ServerSide, side_of

    side = side_of(cell)
    return len(side.objects) if isinstance(side, ServerSide) else 0


class ArraysPersistor(ModelPersistor):
    """Makes the case's first model in memory, and keeps nothing: a disk would be measured, too."""

    def __init__(self, kind: str = "numpy") -> None:
        super().__init__()
        self.kind = kind

    def load_model(self, fl_ctx: Any) -> Any:
        model = inside.arrays()
        if self.kind == "torch":
            import torch

            model = {name: torch.from_numpy(array) for name, array in model.items()}
        return make_model_learnable(model, {})

    def save_model(self, model: Any, fl_ctx: Any) -> None:
        _verdict(model[ModelLearnableKey.WEIGHTS], fl_ctx)


def _verdict(weights: Mapping[str, Any], fl_ctx: Any) -> None:
    """After the last round, check each element against the closed form."""
    rounds = fl_ctx.get_prop(AppConstants.CURRENT_ROUND) + 1
    if rounds == inside.facts()["rounds"]:
        inside.check_all(weights, rounds)
