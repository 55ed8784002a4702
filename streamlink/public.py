"""The names that ``streamlink`` itself has; the rest is in the namespaces beside this module.

All of these are imported at once. That takes about a second, so the package does it when the first
of them is asked for (PEP 562).
"""

from streamlink.allocator import tune_allocator
from streamlink.cancel import CancelToken
from streamlink.config import (
    LinkConfig,
    RoundConfig,
    SecurityConfig,
    StreamConfig,
    TimeoutConfig,
)
from streamlink.copying import copy_model, digest_of, fetch, receive, send, serve
from streamlink.errors import StreamlinkError
from streamlink.executors.client import Client
from streamlink.executors.executor import Executor, Task, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.link.server import Server
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model import ModelSink, ModelSource, ModelSpec, ModelStore, TensorSpec
from streamlink.progress import show_progress
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import RoundEvent
from streamlink.rounds.report import RoundReport
from streamlink.stores import open_model, open_store

__all__ = [
    # a model, and where it lives
    "ModelSpec",
    "TensorSpec",
    "ModelSource",
    "ModelSink",
    "ModelStore",
    "open_model",
    "open_store",
    "copy_model",
    "digest_of",
    # one model, without rounds
    "send",
    "receive",
    "serve",
    "fetch",
    "Receipt",
    "TransferFacts",
    # rounds: the server
    "Server",
    "ScatterAndGather",
    "RoundReport",
    "RoundEvent",
    # rounds: a client
    "Client",
    "StreamingExecutor",
    "WholeExecutor",
    "OnDiskExecutor",
    "Executor",
    "Task",
    "TaskResult",
    # settings
    "LinkConfig",
    "StreamConfig",
    "TimeoutConfig",
    "SecurityConfig",
    "RoundConfig",
    # the process around it
    "show_progress",
    "CancelToken",
    "tune_allocator",
    "StreamlinkError",
]
