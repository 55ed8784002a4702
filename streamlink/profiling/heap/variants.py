"""What is optimized in a version: four places, and whether the model travels in chunks.

The places are those where the seeds' configuration has ``optimize_memory``. ``original`` has every
optimization off and ``optimized`` has all of them on; the other names switch one of them alone, in
either direction, or set the size of a chunk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from streamlink.config import parse_size
from streamlink.profiling.heap.experiment import ExperimentError

__all__ = ["CHUNK_SIZES", "PLACES", "SINGLES", "Variant", "variant"]

CHUNK_SIZES = ("64KiB", "256KiB", "1MiB", "4MiB", "16MiB")
"""Of the curve of peak against chunk size."""

_LARGEST_CHUNK = 64 << 20
_WINDOW_CHUNKS = 4


@dataclass(frozen=True, slots=True)
class Variant:
    """One version of a job."""

    name: str
    server: bool = True
    """``server_configs.optimize_memory``: updates are averaged in place, without copies of them;
    off: the updates, their messages and three global models are held until the round is over."""
    carrier: bool = True
    """``grpc_configs.optimize_memory``: what is sent is read where it is, what arrives is written
    where it goes; off: each message is serialized, wrapped and joined, each step into a copy."""
    client: bool = True
    """``client_configs.optimize_memory``: the model is received in place of the old one; off: what
    was sent and what was received stay until the next model is there."""
    trainer: bool = True
    """``train_configs.optimize_memory``: the trained model is sent as it is; off: a deep copy."""
    chunking: bool = True
    """Whether the model travels in chunks; off: as one message."""
    chunk_bytes: int | None = None
    """Largest chunk (bytes); ``None``: the default of streamlink, or what the experiment says."""

    @property
    def is_streaming(self) -> bool:
        """Whether the rounds are those of streamlink: averaged while the updates arrive."""
        return self.chunking and self.server and self.carrier

    @property
    def window_bytes(self) -> int | None:
        """The window that goes with ``chunk_bytes`` (bytes): it is as small as the chunks are."""
        return None if self.chunk_bytes is None else _WINDOW_CHUNKS * self.chunk_bytes


PLACES = tuple(each.name for each in fields(Variant) if each.type == "bool")
_ON = Variant("optimized")
_OFF = Variant("original", **dict.fromkeys(PLACES, False))
SINGLES = (*(f"no_{each}" for each in PLACES), *(f"only_{each}" for each in PLACES))
"""Names of the versions that switch one thing alone: off from ``optimized``, on from
``original``."""


def variant(name: str) -> Variant:
    """Return the version of that name.

    Raises:
        ExperimentError: there is none; the message lists what there is.
    """
    if name in ("optimised", _ON.name):  # as the seeds, and as the British write it
        return _ON
    if name == _OFF.name:
        return _OFF
    switched = re.fullmatch(rf"(no|only)_({'|'.join(PLACES)})", name)
    if switched is not None:
        is_only = switched[1] == "only"
        return replace(_OFF if is_only else _ON, name=name, **{switched[2]: is_only})
    if name.startswith("chunk_"):
        return replace(_ON, name=name, chunk_bytes=_chunk_bytes(name))
    raise ExperimentError(
        f"--version {name!r} is none of original, optimized, both, {', '.join(SINGLES)}, "
        "chunk_SIZE (such as chunk_1MiB), places, or chunks"
    )


def _chunk_bytes(name: str) -> int:
    try:
        size = parse_size(name.removeprefix("chunk_"))
    except ValueError as error:
        raise ExperimentError(f"--version {name}: {error}") from error
    if not 4096 <= size <= _LARGEST_CHUNK:
        raise ExperimentError(
            f"--version {name}: a chunk has 4 KiB to 64 MiB (stream.chunk_bytes), so name a size "
            "between, such as chunk_1MiB"
        )
    return size
