"""Hand one model to whoever serves it, without rounds: ``receive`` waits, ``send`` brings it.

    python examples/embedding/hand_over.py

does both on this machine. Between machines, one of them waits in ``receive(into, "0.0.0.0:8470")``
and the other calls ``send(model, "HOST:8470")``, both with certificates (docs/security.md); either
may be stopped and started again, and of a model that goes from files to files nothing that had
arrived is sent again. Both take what there is: a path, a store, a dict of arrays, a torch module.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

import streamlink
from streamlink.config import parse_size
from streamlink.stores import SourceLike, TargetLike


def hand_over(model: SourceLike, into: TargetLike) -> None:
    """Bring ``model`` into ``into``; both ends say the same digest of it."""
    port: Future[int] = Future()
    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(
            streamlink.receive, into, listen="127.0.0.1:0", on_listening=port.set_result
        )
        sent = streamlink.send(model, f"127.0.0.1:{port.result()}")
        received = receiving.result()
    print(f"sent:     {sent.stats.total_bytes} bytes, digest {sent.digest}")
    print(f"received: {received.stats.total_bytes} bytes, digest {received.digest}")


def main() -> None:
    options = argparse.ArgumentParser(description="Send a model and receive it.")
    options.add_argument("--size", default="64MB", help="of the model")
    given = options.parse_args()
    count = parse_size(given.size) // 4
    arrays = {"w": np.arange(count, dtype=np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "serving"
        hand_over(arrays, place)
        size = streamlink.open_model(place).spec.nbytes
        print(f"on disk:  {size} bytes, digest {streamlink.digest_of(place)}")


if __name__ == "__main__":
    main()
