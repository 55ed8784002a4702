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

from streamlink.config import LinkConfig, StreamConfig
from streamlink.errors import SpecMismatch
from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import Progress
from streamlink.model.spec import ModelSpec, TensorSpec

__all__ = [
    "BEGIN",
    "BYTES",
    "CHUNK",
    "DOWN",
    "ECHO",
    "INITIAL_WINDOW",
    "LANES",
    "LONGEST_WINDOW",
    "LONG_INITIAL",
    "MAX_PROBE_BYTES",
    "MAX_PROBE_SECONDS",
    "MAX_RESENT_BYTES",
    "MODELS",
    "PROBE_MARGIN_SECONDS",
    "TOKEN",
    "UP",
    "WINDOW",
    "Discard",
    "beginning_with",
    "largest_initial_window",
    "parse_size",
    "plain",
    "probe_model",
]

BEGIN, ECHO, DOWN, UP = "probe.begin", "probe.echo", "probe.down", "probe.up"
"""Topics: the first request, an empty reply, a model from the server, a model to it."""

TOKEN, BYTES, INITIAL_WINDOW = "token", "bytes", "initial_window_bytes"
"""Facts of requests: the one-time token with ``BEGIN``; with ``DOWN`` and ``UP`` the model's size,
and the initial window of its stream, which a reply to ``BEGIN`` has, too: that of the server."""

CHUNK, WINDOW, LANES = "chunk_bytes", "window_bytes", "max_lanes"
LONGEST_WINDOW, LONG_INITIAL = "longest_window_bytes", "long_initial_bytes"
MODELS = "max_models"
"""Facts of the reply to ``BEGIN``: settings of the server, the largest initial window that it
grants, the one that its streams have where the round trip is long, and how many models it moves at
the same time."""

MAX_PROBE_BYTES = 256 << 20
"""The most that one probe moves, both directions together (bytes of models, each counted once)."""

MAX_RESENT_BYTES = 128 << 20
"""The most that moves again after lost connections and damage, both ways together (bytes)."""

MAX_PROBE_SECONDS = 60.0
"""The longest that a probe lasts: then the server ends it (seconds)."""

PROBE_MARGIN_SECONDS = 10.0
"""How much later the probing end ends it, where the server has not (seconds)."""

_PERIOD = 1 << 20


def parse_size(text: str) -> int:
    """Return the size that a peer states (bytes); 0: what it wrote is no size."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0


def plain(config: LinkConfig) -> LinkConfig:
    """Return ``config`` without encodings: a line is measured in bytes that travel."""
    stream = config.stream.model_copy(update={"encodings": ()})
    return config.model_copy(update={"stream": stream})


def largest_initial_window(stream: StreamConfig) -> int:
    """Return the largest window that a stream of a probe may begin with (bytes)."""
    if stream.memory_bytes:
        return stream.window_within(stream.memory_bytes)
    return stream.longest_window_bytes


def beginning_with(config: LinkConfig, initial_window: int) -> LinkConfig:
    """Return ``config`` with a given initial window (bytes), which no round-trip time changes.

    It is at least that of ``config``, and at most ``largest_initial_window``.
    """
    stream = config.stream
    first = max(stream.initial_window_bytes, min(initial_window, largest_initial_window(stream)))
    changed = stream.model_copy(update={"initial_window_bytes": first})
    return config.model_copy(update={"stream": changed})


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
    """A sink that drops what it is given.

    Args:
        spec: of the model that comes.
        nbytes: the size that the probe has asked for.

    Raises:
        SpecMismatch: the model has another size; a peer would move as much as it likes.
    """

    is_prompt = True

    def __init__(self, spec: ModelSpec, nbytes: int) -> None:
        if spec.nbytes != nbytes:
            raise SpecMismatch(
                f"a model of {spec.nbytes} bytes comes where the probe has asked for {nbytes}"
            )
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Drop it."""

    def commit(self, progress: Progress | None = None) -> None:
        """Nothing was kept."""

    def discard(self) -> None:
        """Nothing was kept."""
