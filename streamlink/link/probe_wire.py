"""What a probe and a server say to each other: topics, facts, limits, and the bytes that travel.

A probe is a session whose greeting has ``is_probe``. It begins with ``BEGIN``; then it asks for
echoes, and for models that go either way. All of them are ordinary requests and streams, so what is
measured is what a model will meet.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.config import LinkConfig
from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import Progress
from streamlink.model.spec import ModelSpec, TensorSpec

__all__ = [
    "BEGIN",
    "BYTES",
    "CHUNK",
    "DOWN",
    "ECHO",
    "LANES",
    "MAX_PROBE_BYTES",
    "MAX_PROBE_SECONDS",
    "MAX_RESENT_BYTES",
    "TOKEN",
    "UP",
    "WINDOW",
    "Discard",
    "plain",
    "probe_model",
]

BEGIN, ECHO, DOWN, UP = "probe.begin", "probe.echo", "probe.down", "probe.up"
"""Topics: the first request, an empty reply, a model from the server, a model to it."""

TOKEN, BYTES = "token", "bytes"
"""Facts of requests: the one-time token with ``BEGIN``, the model's size with ``DOWN`` and ``UP``.
"""

CHUNK, WINDOW, LANES = "chunk_bytes", "window_bytes", "max_lanes"
"""Facts of the reply to ``BEGIN``: settings of the server."""

MAX_PROBE_BYTES = 256 << 20
"""The most that one probe moves, both directions together (bytes of models)."""

MAX_RESENT_BYTES = 128 << 20
"""The most that a server sends one probe again, after lost connections and damage (bytes)."""

MAX_PROBE_SECONDS = 60.0
"""The longest that a probe lasts (seconds)."""

_PERIOD = 1 << 20


def plain(config: LinkConfig) -> LinkConfig:
    """Return ``config`` without encodings: a line is measured in bytes that travel."""
    stream = config.stream.model_copy(update={"encodings": ()})
    return config.model_copy(update={"stream": stream})


@cache
def _noise() -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, _PERIOD, np.uint8)


def probe_model(nbytes: int) -> GeneratedModel:
    """Return a model of ``nbytes`` of noise, which nothing on the way can compress."""
    spec = ModelSpec((TensorSpec("probe", "U8", (nbytes,)),))
    return GeneratedModel(spec, _fill)


def _fill(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
    noise, at = _noise(), 0
    while at < len(out):
        first = (start + at) % _PERIOD
        piece = noise[first : first + len(out) - at]
        out[at : at + len(piece)] = piece
        at += len(piece)


class Discard:
    """A sink that drops what it is given."""

    is_prompt = True

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Drop it."""

    def commit(self, progress: Progress | None = None) -> None:
        """Nothing was kept."""

    def discard(self) -> None:
        """Nothing was kept."""
