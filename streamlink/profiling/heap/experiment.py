"""What is run: the settings of an experiment, and the order that one of its processes gets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from streamlink.errors import StreamlinkError
from streamlink.training.settings import ClientSettings, ServerSettings

__all__ = ["Experiment", "ExperimentError", "Kind", "Order"]


class ExperimentError(StreamlinkError):
    """An experiment that cannot run; the message names the value and the remedy."""


class Kind(StrEnum):
    """The experiments."""

    RESNET = "resnet"
    CIFAR10 = "cifar10"
    MNIST = "mnist"
    LLM = "llm"
    SYNTHETIC = "synthetic"


class Experiment(BaseModel):
    """The same job for all versions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: Kind
    carrier: Literal["grpc", "mpi"] = "grpc"
    """What carries the sessions."""
    clients_per_rank: PositiveInt = 1
    """With MPI: clients of each process but the first (count)."""
    server: ServerSettings
    """What the server does; a version switches its optimizations."""
    client: ClientSettings
    """What all clients have in common."""
    code: Path | None = None
    """The operator's folder of Python files that the settings may name."""
    seed: int = 42
    """Of the first model."""


class Order(BaseModel):
    """What one process is to do."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    experiment: Experiment
    version: str
    repeat: PositiveInt = 1
    profiled: bool
    role: Literal["server", "client"]
    clients: tuple[int, ...] = ()
    """Numbers of the clients in this process, from 0."""
    rank: int | None = None
    address: str
    """Where the server listens, or is to be found."""
    run: Path
    """The folder of the results."""
    start: Path | None = None
    """The server: the store of the first model; it is not changed."""
