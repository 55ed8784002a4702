"""One experiment: a mode, a length of sequences, a model; its settings, not its results."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamlink.errors import StreamlinkError

__all__ = ["SEQUENCE_LENGTHS", "Device", "Experiment", "ExperimentError", "Mode"]

SEQUENCE_LENGTHS = (1024, 2048, 4096)
Device = Literal["cpu", "cuda"]


class ExperimentError(StreamlinkError):
    """An experiment cannot run, or has ended early; the text says what to do."""


class Mode(StrEnum):
    """How the gradients of a step are clipped."""

    NO_DP = "no_dp"
    GHOST = "ghost_fsdp"
    FLASH = "flash_fsdp"

    @property
    def is_private(self) -> bool:
        """Whether each sample's gradient is clipped, and noise added."""
        return self is not Mode.NO_DP


class Experiment(BaseModel):
    """What one experiment does."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    mode: Mode
    """How the gradients are clipped."""
    seq_length: int = Field(ge=2)
    """Tokens of each sample."""
    batch_size: int = Field(default=2, ge=1)
    """Samples of each rank in one step."""
    num_iter: int = Field(default=3, ge=1)
    """Steps that are measured."""
    warmup_iter: int = Field(default=1, ge=0)
    """Steps before them, which are not."""
    model_name: str = "tiny"
    """``tiny``, ``small``, ``llama-1b`` or ``llama-8b`` (random weights), a folder, or a model of
    the Hugging Face Hub."""
    world_size: int = Field(default=1, ge=1)
    """Ranks that the model is sharded over."""
    device: Device = "cpu"
    """Where it is trained."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the computation; gradients are reduced in float32."""
    learning_rate: float = Field(default=1e-5, gt=0)
    """Of SGD."""
    sigma: float = Field(default=1.0, ge=0)
    """Standard deviation of the noise, in units of ``max_grad_norm``."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The bound of each sample's gradient."""
    seed: int = Field(default=0, ge=0)
    """Of weights, batches and noise."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.mode}_seq{self.seq_length}"

    @model_validator(mode="after")
    def _has_a_model(self) -> Experiment:
        if not self.model_name.strip():
            raise ValueError("model_name is empty; name a model, for example 'tiny'")
        return self
