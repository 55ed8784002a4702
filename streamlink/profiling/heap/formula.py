"""How much memory server and client need for a model of a given size; arithmetic only.

For a job that does not train (``llm``, ``synthetic``): the model travels, is averaged, and travels
again. Counted is what is held at the worst moment, beyond the program itself: copies of the model,
its largest tensor, windows of streams, and a rest that does not grow with the model. Read
``training.original`` and ``training.original_server`` beside the counts of ``original``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlink as sl
from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED, Figures, Measure
from streamlink.profiling.heap.observed import Run

__all__ = ["APPFL_GB", "LARGEST", "MODELS", "WIDTHS", "Check", "Forecast", "checks", "forecast"]

MODELS = {"8B": 8_030_261_248, "70B": 70_553_706_496}
"""Parameters of Llama 3.1, by name."""
LARGEST = {"8B": 128_256 * 4096, "70B": 128_256 * 8192}
"""Parameters of their largest tensor, the embedding."""
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes of a parameter."""
APPFL_GB = {"server": 309.8, "client": 302.6}
"""What APPFL's authors report for 70B parameters, by role (GB). Not measured here."""

_REST_BYTES = 16 << 20
"""Code that is loaded late, stacks of threads, buffers of the store."""
_UNTRAINED = ("llm", "synthetic")
_MANY = 100  # an embedding is a larger part of a small model; of 8B it is 7 %


@dataclass(frozen=True, slots=True)
class _Copies:
    """How often the model is held at the worst moment (count)."""

    once: int
    each_client: int = 0
    has_largest: bool = False
    """Whether the largest tensor is held once more."""


# original, server: it sends a model, from the second round on. Once: the model, the step and the
# model that is given out, and what encodes the last message. For each client the message of its
# last update (parsed, and the field of it) and the new one (serialised, request, encoded).
# original, client: it decodes what arrived (joined, parsed, the field) beside the module and what
# it sent before (serialised, request); then tensor by tensor.
# optimized: the server's model is on the disk, and the client's is received into its module.
_COPIES = {
    (BASELINE, "server"): _Copies(once=4, each_client=5),
    (BASELINE, "client"): _Copies(once=6, has_largest=True),
    (OPTIMIZED, "server"): _Copies(once=0),
    (OPTIMIZED, "client"): _Copies(once=1),
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What one process will hold beyond the program itself (bytes)."""

    version: str
    role: str
    copies: int
    """Of the model (count)."""
    model: int
    """All copies of it."""
    largest: int
    """The largest tensor, where it is held once more."""
    windows: int
    """What may be unacknowledged in all streams at the same time."""
    rest: int = _REST_BYTES

    @property
    def total(self) -> int:
        """All of them."""
        return self.model + self.largest + self.windows + self.rest


@dataclass(frozen=True, slots=True)
class Check:
    """The formula beside what was measured, over the base (bytes)."""

    forecast: Forecast
    figures: Figures
    measure: Measure
    measured: float

    @property
    def ratio(self) -> float:
        """Measured over computed."""
        return self.measured / self.forecast.total


def forecast(model_bytes: int, clients: int, largest_bytes: int = 0) -> list[Forecast]:
    """Return what server and client hold in both versions, for a job of ``clients`` clients."""
    stream = sl.LinkConfig().stream.stream_bytes
    made = []
    for (version, role), each in _COPIES.items():
        streams = 2 * clients if role == "server" else 1
        copies = each.once + each.each_client * clients
        largest = largest_bytes if each.has_largest else 0
        made.append(
            Forecast(version, role, copies, copies * model_bytes, largest, streams * stream)
        )
    return made


def checks(run: Run, figures: Sequence[Figures], measure: Measure) -> list[Check]:
    """Return the formula beside the figures of a run; empty where the formula does not hold for it.

    It does not hold where clients train: gradients, optimiser and activations are theirs.
    """
    experiment = run.settings.get("experiment")
    if not isinstance(experiment, Mapping) or experiment.get("kind") not in _UNTRAINED:
        return []
    server = experiment.get("server")
    clients = server.get("num_clients", 0) if isinstance(server, Mapping) else 0
    made = []
    for each in figures:
        value = each.median(measure)
        if value is None or not each.model_bytes:
            continue
        largest = each.model_bytes // _tensors(server)
        made += [
            Check(one, each, measure, value)
            for one in forecast(each.model_bytes, clients, largest)
            if (one.version, one.role) == (each.version, each.subject.role)
        ]
    return made


def _tensors(server: object) -> int:
    """Return how many tensors of one size a synthetic model has; a large number for others."""
    try:
        return int(server["order"]["model"]["kwargs"]["tensors"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return _MANY
