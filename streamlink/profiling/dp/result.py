"""The figures of one experiment, or why it failed: a JSON file."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from streamlink.profiling.dp.experiment import Experiment, ExperimentError, Mode

__all__ = ["Failure", "Result", "Steps", "read_result", "result_path"]


class Failure(BaseModel):
    """Why an experiment has no figures."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["error", "out_of_memory", "forecast", "rank_died", "timeout"]
    text: str


class Steps(BaseModel):
    """The measured steps: the slowest rank's seconds, the largest rank's bytes, step by step."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    seconds: list[float] = Field(min_length=1)
    peak_bytes: list[int] = Field(min_length=1)
    held_bytes: list[int] = Field(min_length=1)
    """What was held when each step began."""
    profiled_bytes: int | None
    """How far torch's own allocations rose in one more step (``torch.profiler``); on a CPU only."""
    parameters: int
    vocab_size: int
    device_name: str


class Result(BaseModel):
    """The file of one experiment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    experiment: Experiment
    steps: Steps | None = None
    failure: Failure | None = None
    forecast_bytes: int | None = None
    """What each rank was expected to need."""
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str = ""

    @property
    def mode(self) -> Mode:
        """How its gradients were clipped."""
        return self.experiment.mode

    @property
    def peak_bytes(self) -> int | None:
        """The largest peak of a step; ``None``: it failed."""
        return max(self.steps.peak_bytes) if self.steps else None

    @property
    def seconds(self) -> float | None:
        """The median time of a step; ``None``: it failed."""
        return statistics.median(self.steps.seconds) if self.steps else None

    def facts(self) -> dict[str, Any]:
        """Return the content of the file: the keys that users know first, derived from the rest."""
        experiment, is_gpu = self.experiment, self.experiment.device == "cuda"
        return {
            "mode": experiment.mode.value,
            "seq_length": experiment.seq_length,
            "batch_size": experiment.batch_size,
            "total_batch_size": experiment.batch_size * experiment.world_size,
            "num_gpus": experiment.world_size if is_gpu else 0,
            **(_derived(self.steps) if self.steps else {}),
            "config": {
                "model_name": experiment.model_name,
                "vocab_size": self.steps.vocab_size if self.steps else None,
                "learning_rate": experiment.learning_rate,
                "sigma": experiment.sigma if experiment.mode.is_private else None,
                "max_grad_norm": experiment.max_grad_norm if experiment.mode.is_private else None,
            },
            "result": self.model_dump(mode="json"),
        }


def result_path(folder: Path, experiment: Experiment) -> Path:
    """Return where the result of an experiment stands in the folder of its run."""
    return folder / f"{experiment.name}_result.json"


def read_result(path: Path) -> Result:
    """Return what is in the file of one experiment.

    Raises:
        ExperimentError: it is damaged, or its figures contradict each other; names the file.
    """
    import json

    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        result = Result.model_validate(facts["result"])
    except (ValueError, KeyError, TypeError, ValidationError, OSError) as error:
        raise ExperimentError(
            f"{path}: this result is damaged ({_short(error)}); delete it and run its experiment "
            "again"
        ) from error
    if facts != result.facts():
        raise ExperimentError(
            f"{path}: this result is damaged (its figures contradict each other); delete it and "
            "run its experiment again"
        )
    return result


def _derived(steps: Steps) -> dict[str, Any]:
    # MB and GB are powers of ten, as their names say.
    peak, seconds = max(steps.peak_bytes), steps.seconds
    return {
        "peak_memory_bytes": peak,
        "peak_memory_mb": round(peak / 1e6, 2),
        "peak_memory_gb": round(peak / 1e9, 4),
        "median_peak_memory_bytes": int(statistics.median(steps.peak_bytes)),
        "peak_memory_spread_bytes": peak - min(steps.peak_bytes),
        "held_memory_bytes": int(statistics.median(steps.held_bytes)),
        "profiled_memory_bytes": steps.profiled_bytes,
        "avg_time_ms": round(1e3 * statistics.mean(seconds), 3),
        "avg_time_seconds": statistics.mean(seconds),
        "median_time_seconds": statistics.median(seconds),
        "time_spread_seconds": max(seconds) - min(seconds),
    }


def _short(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}"
    return (str(error) or type(error).__name__).splitlines()[0]
