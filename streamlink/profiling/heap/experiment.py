"""What is run: the settings of an experiment, and the order that one of its processes gets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from streamlink.errors import StreamlinkError

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
    """The same job for all versions. Sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: Kind
    clients: int = Field(default=2, ge=1)
    """Of the job (count)."""
    rounds: int = Field(default=3, ge=1)
    """Of the job (count)."""
    carrier: Literal["grpc", "mpi"] = "grpc"
    """What carries the sessions."""
    clients_per_rank: PositiveInt = 1
    """With MPI: clients of each process but the first (count)."""
    model_bytes: PositiveInt | None = None
    """Size of a synthetic model, or of one that has the shapes of an LLM (bytes)."""
    tensors: PositiveInt = 1
    """How many a synthetic model has (count)."""
    model_name: str = ""
    """``llm``: a name on the Hub, a folder, or ``tiny``; empty: random shapes of ``model_bytes``."""
    data: Path | None = None
    """The folder with the data set; ``None``: seeded dummy data."""
    chunk_bytes: int | None = None
    """Largest chunk (bytes); ``None``: the default of streamlink."""
    client_chunk_bytes: int | None = None
    """The client's, if it is another one (bytes)."""
    max_message_bytes: int | None = None
    """Largest message (bytes); a chunk is never larger."""
    training: dict[str, Any] = Field(default_factory=dict)
    """Settings of the trainer."""
    seed: int = 42
    """Of the model and of dummy data."""


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
