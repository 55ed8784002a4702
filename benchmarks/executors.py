"""What a client holds while it trains a whole model: the model once, and what it was asked for.

One client takes part in one round, alone, with each executor in turn. Its server's store costs
nothing, so neither disk nor memory of the machine is the limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

import streamlink
from benchmarks.jobs import Job, Ran, Site, run_job
from benchmarks.models import Layout
from benchmarks.stats import Result
from benchmarks.worker import Port
from streamlink.model import map_model
from streamlink.stores import SafetensorsStore

__all__ = ["CASES", "Case", "client", "is_met", "measure", "run"]

MIB, GIB = 1 << 20, 1 << 30
SLACK_BYTES = 64 * MIB  # windows, the store's blocks, and what the libraries touch as they run
ADDED = 1.0

Kind = Literal["dict", "module", "directory"]


@dataclass(frozen=True)
class Case:
    """One executor, and how many models its memory may hold.

    Attributes:
        name: as it stands in the table.
        kind: a dict of arrays, a torch module, or a directory.
        returns: what is sent back.
        baseline: where the model that came is kept for differences, if anywhere.
        models: how many it may hold beside the slack; None: none is promised.
    """

    name: str
    kind: Kind
    returns: Literal["values", "differences"] = "values"
    baseline: Literal["memory", "disk"] | None = None
    models: int | None = 1

    @property
    def missing(self) -> str:
        """Why it cannot be measured here; empty where it can."""
        if self.kind == "module" and find_spec("torch") is None:
            return f"{self.name} skipped: torch is not installed"
        return ""

    def allowed_bytes(self, model_bytes: int) -> int | None:
        """Return what the client may hold over base (bytes)."""
        return None if self.models is None else self.models * model_bytes + SLACK_BYTES


def _whole(kind: Kind, what: str) -> tuple[Case, ...]:
    return (
        Case(f"{what}, values", kind),
        Case(f"{what}, differences, baseline in memory", kind, "differences", "memory", models=2),
        Case(f"{what}, differences, baseline on disk", kind, "differences", "disk"),
    )


CASES = (
    *_whole("dict", "NumPy dict"),
    *_whole("module", "torch module"),
    Case("OnDiskExecutor", "directory", models=None),
)


def run(quick: bool) -> Result:
    """Measure each executor once with a model of 4 GiB (quick: one of each kind, with 16 MiB)."""
    layout = Layout(tensors=16, tensor_bytes=MIB if quick else GIB // 4)
    cases = CASES[::3] if quick else CASES
    found = {case: measure(case, layout) for case in cases if not case.missing}
    over = {case: ran.clients["site-1"].over_base_bytes for case, ran in found.items()}
    return Result(
        name="executors",
        claim=f"a client holds its model once + {SLACK_BYTES // MIB} MiB; for differences twice, "
        "or once with the baseline on disk",
        columns=(
            "executor",
            "client, MiB",
            "x model",
            "allowed, MiB",
            "round, s",
            "server, MiB",
        ),
        rows=tuple(
            (case.missing, *[""] * 5)
            if case.missing
            else _row(case, layout.nbytes, over[case], found[case])
            for case in cases
        ),
        facts={
            "layout": layout.as_json(),
            "runs": {case.name: ran.as_json() for case, ran in found.items()},
        },
        met=None if quick else is_met(over, layout.nbytes),
    )


def is_met(over: dict[Case, int], model_bytes: int) -> bool:
    """Tell whether each case stayed under what it may hold over base (bytes)."""
    allowed = {case: case.allowed_bytes(model_bytes) for case in over}
    return all(limit is None or over[case] <= limit for case, limit in allowed.items())


def measure(case: Case, layout: Layout) -> Ran:
    """Run one round with the executor of a case, in fresh processes."""
    rules = {"min_clients": 1, "num_rounds": 1, "gather": "lockstep"}
    with tempfile.TemporaryDirectory(prefix="streamlink-benchmark-") as folder:
        facts = {
            "layout": layout.as_json(),
            "kind": case.kind,
            "returns": case.returns,
            "folder": folder,
            "is_on_disk": case.baseline == "disk",
        }
        site = Site("site-1", "benchmarks.executors:client", facts)
        return run_job(Job(layout, ADDED, 1, rules), [site])


def _row(case: Case, model_bytes: int, over: int, ran: Ran) -> tuple[str, ...]:
    allowed = case.allowed_bytes(model_bytes)
    return (
        case.name,
        f"{over / MIB:.0f}",
        f"{over / model_bytes:.2f}",
        "–" if allowed is None else f"{allowed / MIB:.0f}",
        f"{ran.seconds:.1f}",
        f"{ran.server.over_base_bytes / MIB:.0f}",
    )


# --- the client ---------------------------------------------------------------------------------


def client(
    port: Port,
    address: str,
    name: str,
    layout: dict[str, Any],
    kind: Kind,
    returns: Literal["values", "differences"],
    folder: str,
    is_on_disk: bool,
) -> None:
    """Take part with the executor of a case; the model itself is made after the base."""
    make_module = _module_maker() if kind == "module" else None
    streamlink.tune_allocator()
    port.mark_base()
    with ExitStack() as opened:
        executor: streamlink.Executor
        if kind == "directory":
            executor = streamlink.OnDiskExecutor(_work, folder)
            opened.callback(executor.close)
        else:
            plan = Layout(**layout)
            executor = streamlink.WholeExecutor(
                _train_module if make_module else _train_arrays,
                make_module(plan) if make_module else _arrays(plan),
                returns=returns,
                baseline=_store(folder) if is_on_disk else None,
            )
        here = opened.enter_context(streamlink.Client(address, name, executor))
        port.tell("joined")
        here.run()


def _store(folder: str) -> SafetensorsStore:
    return SafetensorsStore(Path(folder) / "baseline")


def _arrays(layout: Layout) -> dict[str, np.ndarray[Any, Any]]:
    return {one.name: np.empty(one.shape, np.float32) for one in layout.spec.tensors}


def _module_maker() -> Callable[[Layout], Any]:
    """Import torch, which belongs to the base, and return what makes the module."""
    import torch

    def make(layout: Layout) -> Any:
        module = torch.nn.Module()
        for one in layout.spec.tensors:
            parameter = torch.nn.Parameter(torch.empty(one.shape, dtype=torch.float32))
            module.register_parameter(one.name, parameter)
        return module

    return make


def _train_arrays(model: Any, task: streamlink.Task) -> None:
    for array in model.values():
        array += np.float32(ADDED)


def _train_module(model: Any, task: streamlink.Task) -> None:
    for parameter in model.parameters():
        parameter.data.add_(ADDED)


def _work(model: Path, update: Path, task: streamlink.Task) -> None:
    """Do range by range what a trainer of its own would do, and leave it as the update."""
    store = SafetensorsStore(update)
    source = map_model(
        streamlink.open_model(model), lambda tensor, start, values: values + np.float32(ADDED)
    )
    try:
        streamlink.copy_model(source, store.begin(source.spec))
    finally:
        source.close()
