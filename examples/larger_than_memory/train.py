"""Train a model that fits no memory: it arrives in a directory, and the update leaves from one.

``OnDiskExecutor`` is for trainers that read and write safetensors, in this process or as programs
of their own. Here one is four lines of NumPy. Only ranges that are on their way are in memory.

    python examples/larger_than_memory/train.py --size 1GB

runs the server and two sites as threads of one process, measures the memory of all three together,
and compares the result with what it must be. Disk: eight times the model.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink
from streamlink.config import parse_size
from streamlink.model import GeneratedModel, map_model

Array = npt.NDArray[Any]

STEPS = {"site-1": 1.0, "site-2": 5.0}  # what a site adds to every element
SAMPLES = {"site-1": 100, "site-2": 300}  # and how much it counts: the mean is 4
MEAN_STEP = 4.0
NARROW = streamlink.LinkConfig(
    stream=streamlink.StreamConfig(chunk_bytes="1MiB", window_bytes="4MiB")
)


def take_part(server: str, site: str, folder: Path) -> None:
    """Do the server's tasks in ``folder`` until it says goodbye."""

    def step(tensor: streamlink.TensorSpec, start: int, values: Array) -> Array:
        return np.add(values, STEPS[site], dtype=values.dtype)

    def work(model_dir: Path, update_dir: Path, task: streamlink.Task) -> streamlink.TaskResult:
        model = streamlink.open_model(model_dir)
        trained = map_model(model, step)  # computed range by range, as it is read
        streamlink.copy_model(trained, update_dir)
        model.close()
        return streamlink.TaskResult(weight=SAMPLES[site])

    executor = streamlink.OnDiskExecutor(work, folder)
    with streamlink.Client(server, site, executor, NARROW) as client:
        client.run()


def model_after(rounds: int, nbytes: int) -> GeneratedModel:
    """The model before or after training, of which no element is stored anywhere."""
    count = nbytes // 4 // 4
    tensors = [streamlink.TensorSpec(f"layer.{n}", "F32", (count,)) for n in range(4)]

    def fill(tensor: streamlink.TensorSpec, start: int, out: Array) -> None:
        np.remainder(np.arange(start, start + out.size), 4093, out=out, casting="unsafe")
        out += MEAN_STEP * rounds

    return GeneratedModel(streamlink.ModelSpec(tuple(tensors)), fill)


def serve(nbytes: int, rounds: int, folder: Path) -> bool:
    """Run the rounds; return whether every element is what it must be."""
    store = streamlink.open_store(folder / "global")
    streamlink.copy_model(model_after(0, nbytes), store)
    before = peak_bytes()

    began = time.monotonic()
    with streamlink.Server("127.0.0.1:0", NARROW) as server:
        threads = [
            threading.Thread(target=take_part, args=(server.address, site, folder / site))
            for site in STEPS
        ]
        for thread in threads:
            thread.start()
        rules = streamlink.RoundConfig(min_clients=len(STEPS), num_rounds=rounds)
        streamlink.ScatterAndGather(server, store, rules).run()
    for thread in threads:
        thread.join()
    print(f"{rounds} rounds of {nbytes / 1e6:.0f} MB in {time.monotonic() - began:.1f} s")
    print(f"memory: {before >> 20} MiB before, {peak_bytes() >> 20} MiB at most")

    expected = streamlink.digest_of(model_after(rounds, nbytes))
    is_exact = streamlink.digest_of(store) == expected
    print(f"every element is exactly right: {is_exact}")
    return is_exact


def peak_bytes() -> int:
    """The most memory that this process ever had (Linux)."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


def main() -> int:
    options = argparse.ArgumentParser(description="Train a model that fits no memory.")
    options.add_argument("--size", default="256MB", help="of the model")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--folder", type=Path, help="where there is disk for it; it is kept")
    given = options.parse_args()
    streamlink.tune_allocator()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        return 0 if serve(parse_size(given.size), given.rounds, folder) else 1


if __name__ == "__main__":
    raise SystemExit(main())
