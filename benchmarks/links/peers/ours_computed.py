"""streamlink with a model that is computed from positions at one end and dropped at the other.

So it can be far larger than the memory. The receiver's digest is that of what arrived; the sender
computes its own from what it sent, and both are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmarks.links.ends import End
from benchmarks.links.payload import SEED, Payload
from benchmarks.links.peers import Peer
from benchmarks.links.peers.ours import link_config

if TYPE_CHECKING:
    import streamlink
    from streamlink.model import GeneratedModel

PEER = Peer(
    {"": "streamlink, computed model"},
    order=13,
    has_data_port=True,
    is_own=True,
    caveat="the model is computed as it is sent, and dropped where it arrives",
    module=__name__,
)

ENTRIES = 1 << 18
MARKED = 1 << 12  # elements between two that tell their place: no two pieces are alike


def send(end: End) -> None:
    """Send the model as it is computed."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    model = computed(end.payload)
    end.wait_for_go()
    began_at = time.monotonic()
    receipt = streamlink.send(model, end.address, config=link_config(end))
    ended_at = time.monotonic()
    connecting = ended_at - began_at - receipt.seconds
    end.finished_elsewhere(ended_at, lambda: receipt.digest, connecting_seconds=connecting)


def receive(end: End) -> None:
    """Take the model and keep nothing but its digest."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    receipt = streamlink.receive(
        _Dropping(computed(end.payload).spec),
        end.address, config=link_config(end), on_listening=end.listening,
    )  # fmt: skip
    end.finished_elsewhere(time.monotonic(), lambda: receipt.digest)


def computed(payload: Payload) -> GeneratedModel:
    """Return the source of the model: a table of random numbers, and its place in each piece."""
    import streamlink
    from streamlink.model import GeneratedModel

    random = np.random.default_rng(SEED).random(ENTRIES, np.float32)
    names = payload.names()
    spec = streamlink.ModelSpec(
        tuple(streamlink.TensorSpec(name, "F32", (payload.length,)) for name in names)
    )
    starts = {name: number * payload.length for number, name in enumerate(names)}

    def fill(tensor: streamlink.TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
        _fill(random, starts[tensor.name] + start, out)

    return GeneratedModel(spec, fill)


def _fill(random: npt.NDArray[np.float32], start: int, out: npt.NDArray[Any]) -> None:
    at = 0
    while at < len(out):
        first = (start + at) % ENTRIES
        count = min(len(out) - at, ENTRIES - first)
        out[at : at + count] = random[first : first + count]
        at += count
    marked = np.arange(-start % MARKED, len(out), MARKED)
    out[marked] = ((start + marked) // MARKED).astype(np.float32)


class _Dropping:
    """A sink that drops what it is given."""

    is_prompt = True  # a write never waits

    def __init__(self, spec: streamlink.ModelSpec) -> None:
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Drop it."""

    def commit(self, progress: Callable[[int], None] | None = None) -> None:
        """Nothing was kept."""

    def discard(self) -> None:
        """Nothing was kept."""
