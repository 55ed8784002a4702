"""``benchmarks.bwlimit`` over MPI: ``mpiexec -n 2 python -m benchmarks.bwlimit_ranks END SECONDS``.

Rank 0 gives a model and rank 1 takes it; one of them has the limit. Rank 1 prints one line of JSON:
the least, the most and the mean share of the limit, by the payloads that its sink was given.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from mpi4py import MPI

import streamlink
from benchmarks.bwlimit import LIMIT, SPAN, shares
from streamlink.link import ClientLink, ClientRequest, receive_model, send_model
from streamlink.model import GeneratedModel

__all__ = ["main"]

ADDRESS = "mpi://0"


def main(limited: str, seconds: float) -> None:
    """Give or take the model, as this process's rank says."""
    if MPI.COMM_WORLD.Get_rank() == 0:
        _serve(_config(limited == "serve"), int(seconds * LIMIT))
    else:
        print(json.dumps(_fetch(_config(limited == "fetch"))), flush=True)


def _config(is_limited: bool) -> streamlink.LinkConfig:
    stream = streamlink.StreamConfig(bwlimit="10Mbit" if is_limited else "")
    return streamlink.LinkConfig(stream=stream)


def _serve(config: streamlink.LinkConfig, nbytes: int) -> None:
    spec = streamlink.ModelSpec((streamlink.TensorSpec("noise", "U8", (nbytes,)),))
    model = GeneratedModel(spec, lambda tensor, start, out: out.fill(7))

    def give(asked: ClientRequest) -> None:
        send_model(asked.send(model.spec), model)

    server = streamlink.Server(ADDRESS, config)
    server.serve("give", give)
    with server:
        server.wait_for_peers(1, 60.0)
        # Until the other rank has printed what it measured.
        MPI.COMM_WORLD.Barrier()


def _fetch(config: streamlink.LinkConfig) -> tuple[float, float, float]:
    moved: list[tuple[float, int]] = []
    with (
        ClientLink(ADDRESS, name="site-1", config=config) as client,
        client.ask("give") as answer,
    ):
        receive_model(answer.receive(), lambda model: _Noted(model.spec, moved))
    MPI.COMM_WORLD.Barrier()
    lasted = moved[-1][0] - moved[0][0]
    least, most = shares(moved, LIMIT, min(SPAN, 0.6 * lasted))
    return least, most, sum(size for _, size in moved) / lasted / LIMIT


class _Noted:
    """A sink that notes when how many bytes came."""

    is_prompt = True

    def __init__(self, spec: streamlink.ModelSpec, moved: list[tuple[float, int]]) -> None:
        self.spec, self._moved = spec, moved

    def write(self, offset: int, payload: memoryview) -> None:
        """Note it."""
        self._moved.append((time.monotonic(), len(payload)))

    def commit(self, progress: Callable[[int], None] | None = None) -> None:
        """Nothing was kept."""

    def discard(self) -> None:
        """Nothing was kept."""


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
