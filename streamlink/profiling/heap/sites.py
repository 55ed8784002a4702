"""What a client has and does in each experiment; the model of the job, too.

A ``Site`` is a client's model with its work. ``llm`` does nothing with the model, as the seeds'
dummy trainer, and ``synthetic`` adds one to each element; neither imports torch. The others train,
with ``streamlink.training``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import streamlink as sl
from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Kind
from streamlink.stores import Array

__all__ = ["Site", "site_of", "write_first_model"]

_DEFAULT_BYTES = 256 << 20
_FACTS = 64  # of the shapes of an LLM: the width is a multiple of it


class Site(Protocol):
    """A client's model, and what it does with it."""

    model: Any
    """What ``WholeExecutor`` receives into and sends from."""

    def load(self, arrays: dict[str, Array]) -> None:
        """Copy a model into this one; it may empty ``arrays`` meanwhile."""

    def train(self, number: int) -> None:
        """Do the work of a round."""

    def state(self, *, optimize: bool) -> Mapping[str, Array]:
        """Return the model as arrays; without ``optimize`` as a deep copy, where it trains."""


class Dummy:
    """A model of NumPy arrays; a round adds a number to each element of it."""

    def __init__(self, arrays: dict[str, Array], step: float) -> None:
        self.model = arrays
        self._step = step

    def load(self, arrays: dict[str, Array]) -> None:
        """Copy tensor by tensor, and release each at once, as the seeds' dummy trainer."""
        for name in list(arrays):
            self.model[name][...] = arrays.pop(name)

    def train(self, number: int) -> None:
        """Add in place."""
        if self._step:
            for each in self.model.values():
                each += np.float32(self._step)

    def state(self, *, optimize: bool) -> Mapping[str, Array]:
        """Return the arrays themselves: a trainer that does not train keeps no second state."""
        return self.model


def site_of(experiment: Experiment, client: int) -> Site:
    """Return what a client works with.

    Raises:
        ExperimentError: the model or the data is not there, or cannot be used.
    """
    if is_synthetic(experiment):
        arrays = {each.name: np.zeros(each.shape, np.float32) for each in _shapes(experiment)}
        return Dummy(arrays, 0.0 if experiment.kind is Kind.LLM else 1.0)
    from streamlink.profiling.heap.trained import trained_site

    return trained_site(experiment, client)


def write_first_model(experiment: Experiment, folder: Path) -> int:
    """Write the model that the job begins with into a new store; return its size (bytes).

    Raises:
        StoreError: the disk has no room for it.
        ExperimentError: the model is not there.
    """
    if is_synthetic(experiment):
        model: Any = sl.model.GeneratedModel(sl.ModelSpec(tuple(_shapes(experiment))), _fill)
    else:
        from streamlink.profiling.heap.trained import first_model

        model = first_model(experiment)
    sl.copy_model(model, sl.open_store(folder))
    with closing(sl.open_model(folder)) as stored:
        return stored.spec.nbytes


def is_synthetic(experiment: Experiment) -> bool:
    """Whether the model is arrays of zeros and ones, without torch."""
    return experiment.kind is Kind.SYNTHETIC or (
        experiment.kind is Kind.LLM and not experiment.model_name
    )


def _shapes(experiment: Experiment) -> Iterator[sl.TensorSpec]:
    nbytes = experiment.model_bytes or _DEFAULT_BYTES
    if experiment.kind is Kind.LLM:
        yield from llm_shapes(nbytes)
        return
    count = nbytes // 4 // experiment.tensors
    if not count:
        raise ExperimentError(
            f"--model-size {nbytes}: less than one float32 for each of {experiment.tensors} "
            "tensors; ask for a larger model or fewer tensors (--tensors)"
        )
    for number in range(experiment.tensors):
        yield sl.TensorSpec(f"layer_{number:04d}", "F32", (count,))


def llm_shapes(nbytes: int) -> Iterator[sl.TensorSpec]:
    """Yield the float32 tensors of a Llama of about ``nbytes``.

    Its proportions are those of Llama 3.1 8B: feed-forward 3.5 times the width, keys and values a
    quarter of it, 128 times the layers. The embedding has 8 rows for each column, where the 8B
    model has 31: in a small model it would outweigh everything else.
    """
    width = _FACTS
    while _llm_bytes(width + _FACTS) <= nbytes:
        width += _FACTS
    yield sl.TensorSpec("model.embed_tokens.weight", "F32", (8 * width, width))
    for number in range(_layers(width)):
        for name, shape in _layer(width).items():
            yield sl.TensorSpec(f"model.layers.{number}.{name}.weight", "F32", shape)
    yield sl.TensorSpec("model.norm.weight", "F32", (width,))
    yield sl.TensorSpec("lm_head.weight", "F32", (8 * width, width))


def _layers(width: int) -> int:
    return max(1, width // 128)


def _layer(width: int) -> dict[str, tuple[int, ...]]:
    inner, narrow = width * 7 // 2, width // 4
    return {
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (narrow, width),
        "self_attn.v_proj": (narrow, width),
        "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
    }


def _llm_bytes(width: int) -> int:
    layer = sum(int(np.prod(shape)) for shape in _layer(width).values())
    return 4 * (2 * 8 * width * width + width + _layers(width) * layer)


def _fill(tensor: sl.TensorSpec, start: int, out: Array) -> None:
    out[...] = (np.arange(start, start + len(out)) % 1021).astype(np.float32) / 1024
