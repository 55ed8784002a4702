"""The measured ServerApp: Flower's FedAvg, bare, over streamlink, or with our strategy."""

from __future__ import annotations

import io
import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from benchmarks.integrations import inside

IS_BARE = inside.facts()["line"] == "bare"
if not IS_BARE:  # so that bare is Flower alone
    import streamlink
    from streamlink.integrations.flower import StreamingFedAvg, StreamlinkGrid, record_of
    from streamlink.model import GeneratedModel, ModelSpec, TensorSpec

app = ServerApp()

_DTYPES = {"float32": "F32", "bfloat16": "BF16"}


class Marked(FedAvg):
    """Says when a round begins and ends."""

    added = 0.0  # to each element, by all rounds

    def configure_train(self, server_round: int, *rest: Any) -> Any:
        messages = super().configure_train(server_round, *rest)
        inside.mark("round begins", number=server_round)
        return messages

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        result = super().aggregate_train(server_round, replies)
        good = [each.content for each in replies if not each.has_error()]
        clients = [each["metrics"]["client"] for each in good]
        dtypes = {array.dtype for each in good for array in each["arrays"].values()}
        self.added += sum(clients) / len(clients) if clients else 0.0
        errors = [str(each.error.reason)[:300] for each in replies if each.has_error()]
        inside.mark(
            "round ends",
            number=server_round,
            good=len(clients),
            errors=errors,
            dtypes=sorted(dtypes),
        )
        return result


@app.main()
def main(grid: Grid, context: Context) -> None:
    case = inside.facts()
    inside.idle()
    enough = 1 if case["failure"] else case["clients"]
    nodes = {"min_train_nodes": enough, "min_available_nodes": enough}
    rules = {**nodes, "fraction_evaluate": 0.0}
    rest = case["rounds"], float(os.environ["STREAMLINK_ROUND_TIMEOUT"])
    folder = Path(os.environ["STREAMLINK_CASE_FOLDER"])
    if IS_BARE:
        strategy = Marked(**rules)
        check(strategy.start(grid, in_memory(case), *rest), strategy, case)
        return
    with StreamlinkGrid(grid, os.environ["STREAMLINK_LISTEN"], config=config()) as over:
        inside.mark("listening", port=over.objects.port)
        threading.Thread(target=restart, args=(over, folder / "restart"), daemon=True).start()
        store = streamlink.open_store(folder / "model")
        streamlink.copy_model(generated(case), store)  # as if it were there
        if case["line"] == "first":
            strategy = Marked(**rules)
            result = strategy.start(over, record_of(store.open()), *rest)
        else:
            strategy = type("Ours", (Marked, StreamingFedAvg), {})(store, **rules)
            result = strategy.start(over, None, *rest)
    check(result, strategy, case)


def check(result: Any, strategy: Marked, case: dict[str, Any]) -> None:
    """Compare the final model with what those who replied have added."""
    rounds: Any = 2 * strategy.added / (case["clients"] + 1)  # whole if all of them did
    arrays = list(zip(inside.names_and_lengths(), result.arrays.values(), strict=False))
    pieces = ((name, at, part) for name, array in arrays for at, part in parts(array))
    good = [inside.check(name, part, rounds, start=at) for name, at, part in pieces]
    inside.result(bool(good) and all(good), arrays=len(arrays))


def restart(grid: Any, sign: Path) -> None:
    """Start the object server again when the file ``sign`` appears."""
    while not sign.exists():
        time.sleep(0.1)
    port = grid.objects.port
    grid.objects.close()
    grid.objects = streamlink.objects.ObjectServer(
        f"127.0.0.1:{port}", config=grid.config, spool=sign.with_name("objects")
    ).listen()
    inside.mark("restarted")


def config() -> Any:
    path = os.environ.get("STREAMLINK_CONFIG")
    return streamlink.LinkConfig.from_yaml(path) if path else streamlink.LinkConfig()


def in_memory(case: dict[str, Any]) -> ArrayRecord:
    if case["dtype"] == "bfloat16":
        import ml_dtypes

        return ArrayRecord(list(inside.arrays(ml_dtypes.bfloat16).values()), keep_input=False)
    return ArrayRecord(list(inside.arrays().values()), keep_input=False)


def generated(case: dict[str, Any]) -> Any:
    """Return the same model as a function of the position: no array of it is in memory."""
    lengths = inside.names_and_lengths().values()
    dtype = _DTYPES[case["dtype"]]
    tensors = [TensorSpec(str(n), dtype, (length,)) for n, length in enumerate(lengths)]

    def fill(tensor: Any, start: int, out: np.ndarray[Any, Any]) -> None:
        out[:] = inside.first_values(int(tensor.name), start, len(out))

    return GeneratedModel(ModelSpec(tuple(tensors)), fill)


def parts(array: Any) -> Iterator[tuple[int, Any]]:
    """Yield an array of the result in pieces, where it need not be read at once."""
    if not hasattr(array, "source"):
        yield 0, np.load(io.BytesIO(array.data))  # not ``numpy()``: its time counts as receiving
        return
    spec, dtype = array.source.spec, array.tensor.numpy_dtype
    begin = spec.offset_of(spec.names[array.tensor.name])
    count, step = math.prod(array.shape), 1 << 20
    for at in range(0, count, step):
        nbytes = min(step, count - at) * dtype.itemsize
        payload = b"".join(array.source.read(begin + at * dtype.itemsize, nbytes))
        yield at, np.frombuffer(payload, dtype)
