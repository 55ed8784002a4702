"""What each process of ``benchmarks.mpi`` does: ``python -m benchmarks.mpi_ranks WAY LOAD``.

Rank 0 is the server and has the model; each other rank is a client that adds one to every element
and sends it back. All ways move the same float32 tensors, down and up, for the same rounds; rank 0
prints one line of JSON: how long the rounds took, and whether the result is right.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

import streamlink
from benchmarks.arrays import Load, tune_allocator
from benchmarks.bulk import link_config
from benchmarks.worker import peak_rss_bytes, reset_peak, rss_bytes
from streamlink.stores import MemoryStore

__all__ = ["WARM_UP_ROUNDS"]

WARM_UP_ROUNDS = 2  # until all arrays have been touched
WAITING_SECONDS = 3.0
ADDED = np.float32(1)

Model = list[npt.NDArray[np.float32]]
Rounds = Callable[[int], None]
"""Does so many rounds."""


def main(way: str, load: str) -> None:
    """Run the rounds in this process's part, and tell at rank 0 what came of them."""
    facts = json.loads(load)
    rounds, plan = facts.pop("rounds"), Load.from_json(facts)
    tune_allocator(plan)
    comm = MPI.COMM_WORLD
    if comm.Get_rank() == 0:
        print(json.dumps(SERVERS[way](comm, plan, rounds)), flush=True)
    else:
        CLIENTS[way](comm, plan, rounds)
    # With MPICH 5.0.2 the clients once hung after rank 0 had finished. In a barrier each rank still
    # makes progress for the others. streamlink's ranks exchange goodbyes instead.
    if way != "streamlink":
        comm.Barrier()


# ----- streamlink -------------------------------------------------------------------------------


def streamlink_server(comm: MPI.Comm, plan: Load, rounds: int) -> dict[str, Any]:
    """Run the rounds of a job with all of streamlink's checks; the mean is part of them."""
    base = _base()
    store = MemoryStore({f"key_{at:02d}": values for at, values in enumerate(_model(plan))})
    clients = comm.Get_size() - 1
    rules = streamlink.RoundConfig(min_clients=clients)
    with streamlink.Server("mpi://0", link_config(plan)) as server:
        job = streamlink.ScatterAndGather(server, store, rules, job="mpi")
        server.wait_for_peers(clients, rules.wait_for_clients_seconds)
        numbers = iter(range(WARM_UP_ROUNDS + rounds))

        def run(count: int) -> None:
            for _ in range(count):
                job.run_round(next(numbers))

        seconds = _timed(run, rounds)
        waiting_share = _waiting_share()
    told = _told(base, seconds, list(store.arrays.values()), WARM_UP_ROUNDS + rounds)
    return {**told, "waiting_share": waiting_share}


def streamlink_client(comm: MPI.Comm, plan: Load, rounds: int) -> None:
    """Serve rounds with a streaming executor until the server ends the job."""
    executor = streamlink.StreamingExecutor(lambda tensor, start, values: values + ADDED)
    name = f"site-{comm.Get_rank()}"
    with streamlink.Client("mpi://0", name, executor, link_config(plan)) as client:
        client.run()


# ----- buffers: each tensor a message, from array to array ---------------------------------------


def raw_server(comm: MPI.Comm, plan: Load, rounds: int) -> dict[str, Any]:
    """Send each tensor to all clients and receive what they make of it, all at the same time."""
    base = _base()
    model = _model(plan)
    answers = {rank: _model(plan) for rank in range(1, comm.Get_size())}
    done = 0

    def run(count: int) -> None:
        nonlocal model, done
        for _ in range(count):
            requests = [
                request
                for rank, answer in answers.items()
                for at, values in enumerate(answer)
                for request in (comm.Irecv(values, rank, at), comm.Isend(model[at], rank, at))
            ]
            MPI.Request.Waitall(requests)
            done += 1
            # There is no mean: the next model is one of the answers.
            model, answers[1] = answers[1], model

    seconds = _timed(run, rounds)
    return _told(base, seconds, model, done)


def raw_client(comm: MPI.Comm, plan: Load, rounds: int) -> None:
    """Receive each tensor, add to it in place, and send it back while the next one comes."""
    model = _model(plan)
    for _ in range(WARM_UP_ROUNDS + rounds):
        requests = [comm.Irecv(values, 0, at) for at, values in enumerate(model)]
        sent = []
        for at, request in enumerate(requests):
            request.Wait()
            model[at] += ADDED
            sent.append(comm.Isend(model[at], 0, at))
        MPI.Request.Waitall(sent)


# ----- pickled messages: the model as one object, client by client ------------------------------


def pickled_server(comm: MPI.Comm, plan: Load, rounds: int) -> dict[str, Any]:
    """Send the serialized model in a pickled message to each client, and take its answers in turn.

    As the MPI communicators of APPFL 1.12 do it, less their ``torch.save``, which nothing here may
    call; ``numpy.savez`` stands for it, and costs less.
    """
    base = _base()
    model, done = _model(plan), 0

    def run(count: int) -> None:
        nonlocal model, done
        for _ in range(count):
            for rank in range(1, comm.Get_size()):
                comm.send({"status": 1, "meta_data": "{}", "payload": _serialized(model)}, rank)
            for _ in range(1, comm.Get_size()):
                model = _loaded(comm.recv()["payload"])
            done += 1

    seconds = _timed(run, rounds)
    return _told(base, seconds, model, done)


def pickled_client(comm: MPI.Comm, plan: Load, rounds: int) -> None:
    """Receive the model as a whole, add to it, and send it back as a whole."""
    for _ in range(WARM_UP_ROUNDS + rounds):
        model = _loaded(comm.recv(source=0)["payload"])
        for values in model:
            values += ADDED
        comm.send({"action": 1, "meta_data": "{}", "payload": _serialized(model)}, 0)


def _serialized(model: Model) -> bytes:
    file = io.BytesIO()
    np.savez(file, *model)
    return file.getvalue()


def _loaded(raw: bytes) -> Model:
    with np.load(io.BytesIO(raw), allow_pickle=False) as found:
        return [found[name] for name in found.files]


# ------------------------------------------------------------------------------------------------


def _model(plan: Load) -> Model:
    count = plan.total_bytes // plan.tensors // 4
    return [np.full(count, at, np.float32) for at in range(plan.tensors)]


def _base() -> int:
    reset_peak()
    return rss_bytes()


def _timed(run: Rounds, rounds: int) -> float:
    run(WARM_UP_ROUNDS)
    started_at = time.perf_counter()
    run(rounds)
    return time.perf_counter() - started_at


def _waiting_share() -> float:
    """Return the share of a core that this process uses while it is idle."""
    used = time.process_time()
    time.sleep(WAITING_SECONDS)
    return (time.process_time() - used) / WAITING_SECONDS


def _told(base: int, seconds: float, model: Model, rounds: int) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "verified": all(bool((values == at + rounds).all()) for at, values in enumerate(model)),
        "server_over_base_bytes": peak_rss_bytes() - base,
        "server_cpu_seconds": time.process_time(),
    }


SERVERS = {"streamlink": streamlink_server, "raw": raw_server, "pickled": pickled_server}
CLIENTS = {"streamlink": streamlink_client, "raw": raw_client, "pickled": pickled_client}

if __name__ == "__main__":
    main(*sys.argv[1:])
