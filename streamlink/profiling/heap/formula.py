"""How much memory server and client need for a model of a given size; arithmetic only.

For a job that does not train (``llm``, ``synthetic``): the model travels, is averaged, and travels
again. Counted is what is held at the worst moment, beyond the program itself: copies of the model,
windows of streams, and a rest that does not grow with the model. Read ``serving``,
``taking_part`` and ``messages`` beside the counts of ``original``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlink as sl
from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED, Figures, Measure
from streamlink.profiling.heap.observed import Run

__all__ = ["MODELS", "SEED_GB", "WIDTHS", "Check", "Forecast", "checks", "forecast"]

MODELS = {"8B": 8_030_261_248, "70B": 70_553_706_496}
"""Parameters of Llama 3.1, by name."""
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes of a parameter."""
SEED_GB = {"server": 309.8, "client": 302.6}
"""What the seed's authors report for 70B parameters, by role (GB). Not measured here."""

_REST_BYTES = 16 << 20
"""Code that is loaded late, stacks of threads, buffers of the store."""
_UNTRAINED = ("llm", "synthetic")


@dataclass(frozen=True, slots=True)
class _Copies:
    """How often the model is held at the worst moment (count)."""

    once: int
    each_client: int = 0


# original, server: it sends the final model. Once: the model, the mean it was copied from, the copy
# that is given out. For each client the last update (tensors, payload, parsed message), and the
# answer (serialized, wrapped, joined).
# original, client: it takes the next model. The model, what was sent before (serialized, wrapped),
# and what arrived (parsed message, payload, tensors).
# optimized: the server's model is on the disk, and the client's is received in its place.
_COPIES = {
    (BASELINE, "server"): _Copies(once=3, each_client=6),
    (BASELINE, "client"): _Copies(once=6),
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
    windows: int
    """What may be unacknowledged in all streams at the same time."""
    rest: int = _REST_BYTES

    @property
    def total(self) -> int:
        """All of them."""
        return self.model + self.windows + self.rest


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


def forecast(model_bytes: int, clients: int) -> list[Forecast]:
    """Return what server and client hold in both versions, for a job of ``clients`` clients."""
    stream = sl.LinkConfig().stream.stream_bytes
    made = []
    for (version, role), each in _COPIES.items():
        streams = 2 * clients if role == "server" else 1
        copies = each.once + each.each_client * clients
        made.append(Forecast(version, role, copies, copies * model_bytes, streams * stream))
    return made


def checks(run: Run, figures: list[Figures], measure: Measure) -> list[Check]:
    """Return the formula beside the figures of a run; empty where the formula does not hold for it.

    It does not hold where clients train: gradients, optimiser and activations are theirs.
    """
    experiment = run.settings.get("experiment")
    if not isinstance(experiment, Mapping) or experiment.get("kind") not in _UNTRAINED:
        return []
    clients = int(experiment.get("clients", 0))
    made = []
    for each in figures:
        value = each.median(measure)
        for one in forecast(each.model_bytes, clients) if value and each.model_bytes else ():
            if (one.version, one.role) == (each.version, each.subject.role):
                assert value is not None
                made.append(Check(one, each, measure, value))
    return made
