"""What a client does with a model: one module for each executor, and the ``Client`` that runs it.

``executor`` defines the seam (``Executor``, ``Task``, ``TaskResult``), ``streaming`` computes range
by range as the model arrives, ``whole`` trains a model in memory, ``ondisk`` in a directory.
"""

from streamlink.executors.client import Client
from streamlink.executors.evaluation import Evaluate, EvaluationOutcome, Evaluator
from streamlink.executors.executor import Executor, Task, TaskOutcome, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor, Work
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import Train, WholeExecutor

__all__ = [
    "Client",
    "Evaluate",
    "EvaluationOutcome",
    "Evaluator",
    "Executor",
    "OnDiskExecutor",
    "StreamingExecutor",
    "Task",
    "TaskOutcome",
    "TaskResult",
    "Train",
    "WholeExecutor",
    "Work",
]
