"""What is optimized in a version: four places, and whether the model travels in chunks.

The places are those where the seeds' configuration has ``optimize_memory``. ``original`` has every
optimization off and ``optimized`` has all of them on; the other names switch one of them alone, in
either direction, or set the size of a chunk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from streamlink.config import parse_size
from streamlink.profiling.heap.experiment import Experiment, ExperimentError

__all__ = [
    "ALONE",
    "CHUNK_SIZES",
    "CONFIGURED",
    "PLACES",
    "SINGLES",
    "Variant",
    "variant",
    "versions_of",
]

CHUNK_SIZES = ("64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "32MiB")
"""Of the curve of peak against ``model_chunk_size``."""

CONFIGURED = "configured"
"""The version in which the switches stand as the configuration has them."""

ALONE = "alone"
"""One client trains as in the job, and there is no transport: what a client needs at the least."""

_LEAST_CHUNK = 32 << 10


@dataclass(frozen=True, slots=True)
class Variant:
    """One version of a job."""

    name: str
    server: bool = True
    """``server_configs.optimize_memory``"""
    carrier: bool = True
    """``grpc_configs.optimize_memory`` of both ends."""
    client: bool = True
    """``client_configs.optimize_memory``"""
    trainer: bool = True
    """``client_configs.train_configs.optimize_memory``"""
    chunking: bool = True
    """``grpc_configs.use_model_chunking`` of both ends."""
    chunk_bytes: int | None = None
    """``grpc_configs.model_chunk_size`` of both ends (bytes); ``None``: what the settings say."""

    def of(self, experiment: Experiment) -> Experiment:
        """Return the experiment in this version: nothing but its switches is changed."""
        if self.name == CONFIGURED:
            return experiment
        server, client = experiment.server, experiment.client
        comm: dict[str, bool | int] = {
            "optimize_memory": self.carrier,
            "use_model_chunking": self.chunking,
        }
        if self.chunk_bytes is not None:
            comm["model_chunk_size"] = self.chunk_bytes
        trainer = server.order.trainer.model_copy(update={"optimize_memory": self.trainer})
        order = server.order.model_copy(update={"trainer": trainer, "optimize_memory": self.client})
        return experiment.model_copy(
            update={
                "server": server.model_copy(
                    update={
                        "optimize_memory": self.server,
                        "order": order,
                        "comm": server.comm.model_copy(update=comm),
                    }
                ),
                "client": client.model_copy(
                    update={
                        "optimize_memory": self.client,
                        "optimize_trainer": self.trainer,
                        "comm": client.comm.model_copy(update=comm),
                    }
                ),
            }
        )


PLACES = tuple(each.name for each in fields(Variant) if each.type == "bool")
_ON = Variant("optimized")
_OFF = Variant("original", **dict.fromkeys(PLACES, False))
SINGLES = (*(f"no_{each}" for each in PLACES), *(f"only_{each}" for each in PLACES))
"""Names of the versions that switch one thing alone: off from ``optimized``, on from
``original``."""
_GROUPS = {
    "both": ("original", "optimized"),
    "places": ("original", "optimized", *SINGLES),
    "chunks": tuple(f"chunk_{each}" for each in CHUNK_SIZES),
}


def variant(name: str) -> Variant:
    """Return the version of that name.

    Raises:
        ExperimentError: there is none; the message lists what there is.
    """
    if name in ("optimised", _ON.name):  # as the British write it
        return _ON
    if name == _OFF.name:
        return _OFF
    if name in (CONFIGURED, ALONE):
        return replace(_ON, name=name)
    switched = re.fullmatch(rf"(no|only)_({'|'.join(PLACES)})", name)
    if switched is not None:
        is_only = switched[1] == "only"
        return replace(_OFF if is_only else _ON, name=name, **{switched[2]: is_only})
    if name.startswith("chunk_"):
        return replace(_ON, name=name, chunk_bytes=_chunk_bytes(name))
    there = ("original", "optimized", CONFIGURED, ALONE, *_GROUPS, *SINGLES)
    raise ExperimentError(
        f"--version {name!r} is none of {', '.join(there)}, chunk_SIZE (such as chunk_1MiB); "
        "several are joined by commas"
    )


def versions_of(text: str) -> tuple[str, ...]:
    """Return the names of versions that a text asks for, separated by commas.

    ``both`` is the two that are compared, ``places`` all that switch one thing alone beside them,
    ``chunks`` a curve of peak against chunk size.

    Raises:
        ExperimentError: there is no such version.
    """
    names: list[str] = []
    for word in (each.strip() for each in text.split(",")):
        names += _GROUPS.get(word) or (variant(word).name,)
    return tuple(dict.fromkeys(names))


def _chunk_bytes(name: str) -> int:
    try:
        size = parse_size(name.removeprefix("chunk_"))
    except ValueError as error:
        raise ExperimentError(f"--version {name}: {error}") from error
    if size < _LEAST_CHUNK:
        raise ExperimentError(
            f"--version {name}: model_chunk_size is at least 32 KiB; name a larger size, such as "
            "chunk_1MiB"
        )
    return size
