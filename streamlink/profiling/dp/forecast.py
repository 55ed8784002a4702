"""How much memory a rank will need, computed before it starts; arithmetic only.

A forecast is meant to refuse what cannot fit, and to say which part is the large one. It counts
what is held at the same time at the worst moment of a step, and rounds upwards where it is unsure.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from streamlink.profiling.dp.experiment import Experiment, Mode
from streamlink.profiling.dp.shapes import Shape

__all__ = ["Forecast", "forecast"]

_FLOAT = 4
_PROCESS_BYTES = 480 << 20
"""Python with torch, Opacus and transformers, as resident on a CPU before there is a model."""
_TILE_BYTES = {"cpu": 8 << 20, "cuda": 128 << 20}
"""The tiles of ``flash_fsdp``, several at the same time; see ``norms``."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What one rank will hold at the worst moment of a step, in bytes."""

    process: int
    """The program itself; none on a GPU."""
    weights: int
    """Shards in float32, their gradients, and the copy that private modes sum up."""
    gathered: int
    """The layer that is gathered, its gradient, and the noise for the largest one."""
    activations: int
    """What the layers keep for the way back."""
    norms: int
    """What is allocated while the norms of one layer are computed."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, each.name) for each in fields(self))


def forecast(experiment: Experiment, shape: Shape) -> Forecast:
    """Return what each rank of ``experiment`` will hold, for a model of ``shape``."""
    size = 2 if experiment.dtype == "bfloat16" else 4
    is_private, ranks = experiment.mode.is_private, experiment.world_size
    copies = 3 if is_private else 2
    noise = 3 * _FLOAT * shape.widest if is_private and experiment.sigma else 0
    return Forecast(
        process=_PROCESS_BYTES if experiment.device == "cpu" else 0,
        weights=copies * _FLOAT * -(-shape.parameters // ranks),
        gathered=shape.widest * (2 * size + _FLOAT) + noise,
        activations=_activations(experiment, shape, size),
        norms=_norms(experiment, shape, size),
    )


def _activations(experiment: Experiment, shape: Shape, size: int) -> int:
    # Kept by a block, for each token: the inputs of its linear layers and of the attention (in the
    # model's dtype), both normalisations (they compute in float32), and the products of the MLP.
    d, kv = shape.hidden, shape.key_value_width
    kept = size * (8 * d + 4 * kv + 5 * shape.intermediate) + _FLOAT * 4 * d
    tokens = experiment.batch_size * experiment.seq_length
    return tokens * (shape.layers * kept + (_FLOAT + size) * d)


def _norms(experiment: Experiment, shape: Shape, size: int) -> int:
    match experiment.mode:
        case Mode.NO_DP:
            return 0
        case Mode.FLASH:
            return _TILE_BYTES[experiment.device]
        case Mode.GHOST:
            tokens = experiment.batch_size * experiment.seq_length
            widest = max(b for _, b in shape.linears)
            return size * (2 * tokens * experiment.seq_length + tokens * widest)
