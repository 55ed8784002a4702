"""A training job in one process: a server and its clients in threads, over gRPC on a free port."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from streamlink.executors import Executor
from streamlink.model import ModelStore
from streamlink.rounds import RoundReport
from streamlink.stores import SafetensorsStore
from streamlink.training.client import link_config, run_client
from streamlink.training.server import job_config, run_server
from streamlink.training.settings import ClientSettings, ServerSettings

__all__ = ["WAIT", "peak_bytes", "run_job", "stored"]

WAIT = 100.0


def run_job(
    settings: ServerSettings,
    store: ModelStore,
    clients: Mapping[str, tuple[ClientSettings, Executor]],
) -> list[RoundReport]:
    """Run a job to its end, and return the server's reports."""
    port: Future[int] = Future()

    def serve() -> list[RoundReport]:
        try:
            return run_server(
                settings, store, listen="127.0.0.1:0", config=job_config(settings),
                begun=lambda server: port.set_result(server.port),
            )  # fmt: skip
        except BaseException as error:
            if not port.done():
                port.set_exception(error)
            raise

    with ThreadPoolExecutor(1 + len(clients)) as pool:
        served = pool.submit(serve)
        address = f"127.0.0.1:{port.result(WAIT)}"
        ends = [
            pool.submit(
                run_client, own.model_copy(update={"client_id": name}), executor, server=address,
                config=link_config(own),
            )
            for name, (own, executor) in clients.items()
        ]  # fmt: skip
        try:
            return served.result(WAIT)
        finally:
            for end in ends:
                end.exception(WAIT)


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most memory that Python and NumPy had during ``work``, over that before it."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def stored(folder: Path, arrays: Mapping[str, np.ndarray]) -> SafetensorsStore:
    """Return a store on the disk that holds ``arrays``."""
    from streamlink import copy_model

    store = SafetensorsStore(folder)
    copy_model(dict(arrays), store)
    return store
