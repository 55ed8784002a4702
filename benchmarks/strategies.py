"""Aggregators beside the mean, over models on the disk: memory, time, and a poisoned update.

The server's model is in a plain safetensors store, as users have it, and the state of FedAdam
beside it. The clients stream, so they hold no model. What they add is chosen so that each
aggregator moves every element by a multiple of 1/32, which is exact: so each model is checked to
the last bit against a computation of its own.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink
from benchmarks.flat import SLACK_BYTES, TOLERANCE
from benchmarks.jobs import Job, Ran, Site, run_job, stream
from benchmarks.models import Layout
from benchmarks.processes import WorkerFailed
from benchmarks.stats import Result, summarize
from benchmarks.worker import Port
from streamlink.stores import SafetensorsStore

__all__ = ["Case", "Run", "cases", "grown", "is_met", "measure", "outside", "poisoned", "run"]

KB, MB, MIB, GB = 1000, 10**6, 1 << 20, 10**9
TENSORS = 16
STRATEGIES = ("mean", "fedadam", "median", "trimmed_mean")
ROBUST = ("median", "trimmed_mean")
ADDED = (1, 2, 3, 4, 6, 9, 12, 27)  # mean, median and trimmed mean of all eight differ: 8, 5, 6
TRIMMED = 0.2
POISON = 1e6
AT_MOST = {("fedadam", 2): 1.5, ("fedadam", 8): 1.5, ("median", 8): 2.0}  # of the mean's time
DISK_MODELS = 6  # the model and the state of FedAdam, twice as large: before and after a round
PIECE_BYTES = 4 * MIB


@dataclass(frozen=True)
class Case:
    """One job.

    Attributes:
        strategy: the aggregator's name.
        clients: how many (count); each adds a number of ``ADDED``.
        tensor_bytes: of each of the tensors (bytes).
        rounds: how many (count). The first one has no state to read: it is not in the time.
        is_poisoned: the last client sends 10^6 times its update, every second element negative.
    """

    strategy: str
    clients: int
    tensor_bytes: int
    rounds: int = 2
    is_poisoned: bool = False

    @property
    def layout(self) -> Layout:
        """The model."""
        return Layout(TENSORS, self.tensor_bytes)

    @property
    def added(self) -> tuple[int, ...]:
        """What each client adds to every element."""
        return ADDED[: self.clients]

    @property
    def aggregator(self) -> str:
        """The aggregator with its settings.

        Those of FedAdam keep ``v`` where it begins, at ``tau^2``, since every shift is ``tau``. So
        its steps are exact.
        """
        shift = statistics.mean(self.added)
        return {
            "fedadam": f"fedadam:eta={4 * shift},beta1=0.5,beta2=0.5,tau={shift}",
            "trimmed_mean": f"trimmed_mean:beta={TRIMMED}",
        }.get(self.strategy, self.strategy)

    @property
    def bounds(self) -> tuple[float, float]:
        """How far the new model is from the first one at least and at most, in every element."""
        if self.is_poisoned:
            return float(min(self.added[:-1])), float(max(self.added[:-1]))
        total = grown(self.strategy, self.added, self.rounds)
        return total, total


@dataclass(frozen=True)
class Run:
    """What became of one job: ``outside`` counts the elements that are not within the bounds."""

    case: Case
    ran: Ran
    outside: int

    @property
    def seconds(self) -> list[float]:
        """Of each round but the first, from the end of the one before."""
        return list(np.diff(self.ran.done_at))

    def as_json(self) -> dict[str, Any]:
        """Return everything measured as a JSON object."""
        return {
            "case": {**asdict(self.case), "aggregator": self.case.aggregator},
            "elements_outside": self.outside,
            "round_seconds": self.seconds,
            "ran": self.ran.as_json(),
        }


def cases(quick: bool) -> list[Case]:
    """Return the jobs in the order in which they run: those that are compared follow each other."""
    if quick:  # one poisoned job and one of each aggregator: every path, and no comparison
        return [
            Case("median", 3, 64 * KB, rounds=1, is_poisoned=True),
            *(Case(name, 2, 64 * KB) for name in STRATEGIES),
        ]
    poisoned = [Case(name, len(ADDED), 16 * MB, rounds=1, is_poisoned=True) for name in ROBUST]
    passes = [(2, 16 * MB, 3), (8, 16 * MB, 1), (2, 256 * MB, 3), (8, 256 * MB, 1)]
    return poisoned + [
        Case(name, clients, tensor_bytes)
        for clients, tensor_bytes, count in passes
        for _ in range(count)
        for name in STRATEGIES
    ]


def measure(case: Case) -> Run:
    """Run one job in fresh processes, with a model that is made for it.

    Raises:
        WorkerFailed: a process failed, or the model is not what the clients' work makes of it.
    """
    rules = {
        "min_clients": case.clients,
        "num_rounds": case.rounds,
        "gather": "lockstep",
        "aggregator": case.aggregator,
    }
    with tempfile.TemporaryDirectory(prefix="streamlink-benchmark-") as name:
        folder = Path(name)
        store = SafetensorsStore(folder / "model")
        streamlink.copy_model(case.layout.model(0.0), store.begin(case.layout.spec))
        ran = run_job(Job(case.layout, 0.0, case.clients, rules), list(_sites(case)), folder)
        wrong = outside(store, case.layout, *case.bounds)
    if wrong and not case.is_poisoned:
        raise WorkerFailed(f"{case}: {wrong} elements are not as computed")
    return Run(case, ran, wrong)


def run(
    quick: bool,
    keep: Callable[[Result], None] = lambda _: None,
    once: Callable[[Case], Run] = measure,
) -> Result:
    """Measure every case; ``keep`` is called with what is known after each of them."""
    planned, runs = cases(quick), list[Run]()
    _require_room(planned)
    for case in planned:
        runs.append(once(case))
        is_whole = len(runs) == len(planned)
        result = _result(runs, quick=quick, is_whole=is_whole)
        keep(result)
    return result


def is_met(runs: Sequence[Run]) -> bool:
    """Tell whether memory, time and poisoned models are as claimed."""
    return (
        not any(each.outside for each in runs)
        and all(each.ran.is_within_budget for each in runs)
        and all(_is_flat(runs, *which) for which in {_which(each.case) for each in _clean(runs)})
        and all(
            summarize(_ratios(runs, *which)).median <= limit for which, limit in AT_MOST.items()
        )
    )


# --- what the models should be ------------------------------------------------------------------


def grown(strategy: str, added: Sequence[float], rounds: int) -> float:
    """Return how far an element is from its beginning after some rounds in which clients add."""
    if strategy == "fedadam":
        return _adam_grown(statistics.mean(added), rounds)
    out = int(TRIMMED * len(added))
    shifts = {
        "mean": statistics.mean(added),
        "median": statistics.median(added),
        "trimmed_mean": statistics.mean(sorted(added)[out : len(added) - out]),
    }
    return rounds * float(shifts[strategy])


def _adam_grown(shift: float, rounds: int) -> float:
    total, momentum, second = 0.0, 0.0, shift**2
    for _ in range(rounds):
        momentum = (momentum + shift) / 2
        second = (second + shift**2) / 2
        total += 4 * shift * momentum / (math.sqrt(second) + shift)
    return total


def outside(store: SafetensorsStore, layout: Layout, low: float, high: float) -> int:
    """Return how many elements are not between ``low`` and ``high`` above the first model's."""
    wrong, source = 0, store.open()
    lowest, highest = layout.model(low), layout.model(high)
    try:
        for offset in range(0, layout.nbytes, PIECE_BYTES):
            nbytes = min(PIECE_BYTES, layout.nbytes - offset)
            here, least, most = (
                _floats(each.read(offset, nbytes)) for each in (source, lowest, highest)
            )
            # Not (here < least) | (here > most): a NaN is outside.
            wrong += here.size - int(np.count_nonzero((least <= here) & (here <= most)))
    finally:
        source.close()
    return wrong


def _floats(views: Iterable[memoryview]) -> npt.NDArray[np.float32]:
    return np.frombuffer(b"".join(views), np.float32)


def _require_room(planned: Sequence[Case]) -> None:
    needed = DISK_MODELS * max(case.layout.nbytes for case in planned)
    place = tempfile.gettempdir()
    if (free := shutil.disk_usage(place).free) < needed:
        raise OSError(
            f"{place} has {free / GB:.0f} GB left, and models and states need {needed / GB:.0f}; "
            "TMPDIR chooses another folder"
        )


# --- the clients --------------------------------------------------------------------------------


def _sites(case: Case) -> Iterator[Site]:
    for number, added in enumerate(case.added, 1):
        is_last = number == case.clients
        body = "strategies:poisoned" if case.is_poisoned and is_last else "jobs:client"
        yield Site(f"site-{number}", f"benchmarks.{body}", {"added": added})


def poisoned(port: Port, address: str, name: str, added: float) -> None:
    """Serve rounds as ``jobs.client``, but with 10^6 times the update, up and down in turn."""

    def poison(
        tensor: streamlink.TensorSpec, start: int, values: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        update = (values + np.float32(added)) * np.float32(POISON)
        np.negative(update[start % 2 :: 2], out=update[start % 2 :: 2])
        return update

    stream(port, address, name, poison)


# --- the report ---------------------------------------------------------------------------------


def _result(runs: Sequence[Run], *, quick: bool, is_whole: bool) -> Result:
    return Result(
        name="strategies",
        claim="FedAdam, median and trimmed mean keep the server under base + peak_bytes, whatever "
        "the model's size; a round takes at most 1.5 x (FedAdam) and 2 x (median of 8) the mean's; "
        "an update times 10^6 moves no element of the robust ones out of the others' range",
        columns=(
            "aggregator",
            "clients",
            "model, MB",
            "server, MiB",
            "peak_bytes, MiB",
            "round, s",
            "÷ mean",
            "outside",
        ),
        rows=tuple(_rows(runs)),
        facts={"is_whole": is_whole, "runs": [each.as_json() for each in runs]},
        met=is_met(runs) if is_whole and not quick else None,
    )


def _rows(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    for case in dict.fromkeys(each.case for each in runs):
        alike = [each for each in runs if each.case == case]
        seconds = [one for each in alike for one in each.seconds]
        ratios = _ratios(runs, case.strategy, case.clients, case.tensor_bytes)
        is_timed = not case.is_poisoned and len(ratios) == len(alike)
        yield (
            case.strategy + (", one update poisoned" if case.is_poisoned else ""),
            str(case.clients),
            f"{case.layout.nbytes / MB:.0f}",
            f"{_most(alike) / MIB:.0f}",
            f"{alike[-1].ran.peak_bytes / MIB:.0f}",
            f"{summarize(seconds).median:.2f}" if seconds else "–",
            f"{summarize(ratios).median:.2f}" if is_timed else "–",
            str(sum(each.outside for each in alike)),
        )


def _ratios(
    runs: Sequence[Run], strategy: str, clients: int, tensor_bytes: int | None = None
) -> list[float]:
    """Return the median round over that of the mean, pass by pass; of the largest model if None."""
    size = tensor_bytes or max(each.case.tensor_bytes for each in runs)
    ours, means = (
        [
            summarize(each.seconds).median
            for each in _clean(runs)
            if (each.case.strategy, each.case.clients, each.case.tensor_bytes)
            == (name, clients, size)
        ]
        for name in (strategy, "mean")
    )
    return [one / mean for one, mean in zip(ours, means, strict=False)]  # the last may be missing


def _is_flat(runs: Sequence[Run], strategy: str, clients: int) -> bool:
    alike = [each for each in _clean(runs) if _which(each.case) == (strategy, clients)]
    sizes = sorted({each.case.tensor_bytes for each in alike})
    small, large = (
        _most([each for each in alike if each.case.tensor_bytes == size])
        for size in (sizes[0], sizes[-1])
    )
    return large <= small * (1 + TOLERANCE) + SLACK_BYTES


def _which(case: Case) -> tuple[str, int]:
    return case.strategy, case.clients


def _clean(runs: Sequence[Run]) -> list[Run]:
    return [each for each in runs if not each.case.is_poisoned]


def _most(runs: Sequence[Run]) -> int:
    return max(each.ran.server.over_base_bytes for each in runs)
