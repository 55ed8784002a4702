"""The public names, which ``streamlink`` itself has: from here they are imported all at once.

That takes about a second, so the package does it when the first of them is asked for (PEP 562).
"""

from typing import TYPE_CHECKING, Any

from streamlink.allocator import tune_allocator
from streamlink.cancel import CancelToken
from streamlink.config import (
    GrpcConfig,
    JobConfig,
    LimitsConfig,
    LinkConfig,
    RoundConfig,
    SecurityConfig,
    StreamConfig,
    TimeoutConfig,
    parse_size,
)
from streamlink.copying import copy_model, digest_of, receive, send
from streamlink.errors import StreamlinkError
from streamlink.executors.client import Client
from streamlink.executors.executor import Executor, Task, TaskOutcome, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.fleet import Fleet, Reporter
from streamlink.link import Attempt
from streamlink.link.client import Assignment
from streamlink.link.server import Server
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model.computed import GeneratedModel, RangeFunction, map_model
from streamlink.model.interfaces import ModelInPlace, ModelSink, ModelSource, ModelStore
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.operate.metrics import MetricsCollector, serve_metrics
from streamlink.progress import show_progress
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import Happening, RoundEvent
from streamlink.rounds.filters import ModelFacts, PerModel, on_floats
from streamlink.rounds.job_state import JobState
from streamlink.rounds.report import RoundReport, Standing
from streamlink.stores import (
    ArrayModel,
    CompressedStore,
    MemoryStore,
    SafetensorsStore,
    as_model,
    open_model,
    open_store,
)
from streamlink.stores.coercion import AnySource, AnyTarget

__all__ = [
    # settings
    "LinkConfig",
    "StreamConfig",
    "TimeoutConfig",
    "GrpcConfig",
    "SecurityConfig",
    "RoundConfig",
    "LimitsConfig",
    "JobConfig",
    "parse_size",
    # models
    "TensorSpec",
    "ModelSpec",
    "ModelSource",
    "ModelSink",
    "ModelStore",
    "ModelInPlace",
    "AnySource",
    "AnyTarget",
    "ArrayModel",
    "TorchModel",
    "as_model",
    "GeneratedModel",
    "map_model",
    "RangeFunction",
    "digest_of",
    "copy_model",
    # stores
    "MemoryStore",
    "SafetensorsStore",
    "CompressedStore",
    "open_model",
    "open_store",
    # one model, without rounds
    "send",
    "receive",
    "Receipt",
    "TransferFacts",
    # rounds
    "Server",
    "ScatterAndGather",
    "RoundReport",
    "Standing",
    "Attempt",
    "Client",
    "Executor",
    "StreamingExecutor",
    "WholeExecutor",
    "OnDiskExecutor",
    "Task",
    "TaskResult",
    "TaskOutcome",
    "Assignment",
    # around each step of a round
    "PerModel",
    "ModelFacts",
    "on_floats",
    "RoundEvent",
    "Happening",
    # processes
    "JobState",
    "serve_metrics",
    "MetricsCollector",
    "Fleet",
    "show_progress",
    "Reporter",
    "tune_allocator",
    "CancelToken",
    # errors
    "StreamlinkError",
]

if TYPE_CHECKING:
    from streamlink.stores.torch import TorchModel


def __getattr__(name: str) -> Any:
    if name == "TorchModel":  # torch is an extra, and takes seconds to import
        from streamlink.stores.torch import TorchModel

        return TorchModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
