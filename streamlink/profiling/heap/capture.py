"""Watches the memory of this process: memray's tracker, and samples of what is resident.

The samples come from a thread that sleeps in between. Both begin at the base: after the imports,
before the first byte of a model.
"""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from streamlink.profiling.heap.experiment import ExperimentError, Order
from streamlink.profiling.heap.profile_file import fault_of
from streamlink.profiling.heap.record import (
    ProcessRecord,
    RoundRecord,
    profile_name,
    record_path,
)
from streamlink.profiling.memory import peak_bytes, reset_peak, resident_bytes
from streamlink.signals import deferred

__all__ = ["Capture"]

_RAW = b"memray"
"""How a profile begins that memray has not compressed."""

_SAMPLE_SECONDS = 0.05
_MOST_SAMPLES = 400
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Capture:
    """In its block the memory of this process is watched; at its end the record is written.

    Whatever ends the block, the record is written, and the profile is closed: both can be analysed.

    Attributes:
        rounds: the rounds so far; whoever runs them adds to it.
        model_bytes: the size of the model, once it is known (bytes).
        digest: of the final model, at the server.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        client = order.clients[0] if len(order.clients) == 1 else None
        self._client = client if order.role == "client" else None
        self.rounds: list[RoundRecord] = []
        self.model_bytes = 0
        self.digest = ""
        self._base = 0
        self._sampler = _Sampler()
        self._collections = 0
        self._profile: str | None = None
        self._tracker: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> Self:
        path = record_path(self._order.run, self._record(0, None).name)
        if path.exists():
            raise ExperimentError(
                f"{path} exists: a run of this role and version has been in that folder, and "
                "nothing is overwritten; name another one (--output-dir)"
            )
        with suppress(OSError):  # a sandbox forbids it: then the peak of the imports counts, too
            reset_peak()
        if self._order.profiled:
            self._track()
        self._base = resident_bytes()
        self._sampler.start()
        self._collections = _collections()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # memray compresses its file here, which takes its time; and the parent ends this process
        # where another one has failed, or at Ctrl-C.
        with deferred():
            self._sampler.stop()
            peak = peak_bytes()
            self._tracker.__exit__(None, None, None)
            fault = self._fault()
            self._record(peak, error or fault).write(self._order.run)
        if error is None and fault is not None:
            raise fault

    def done(self, number: int, seconds: float) -> None:
        """Note that a round is over."""
        self.rounds.append(RoundRecord(round=number, seconds=seconds))

    def _track(self) -> None:
        from memray import Tracker

        order = self._order
        name = profile_name(order.version, order.repeat, client=self._client, rank=order.rank)
        path = order.run / "profiles" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Not native traces: they cost much time, and Python's frames name the place.
            self._tracker = Tracker(path, native_traces=False)
            self._tracker.__enter__()
        except OSError as error:
            self._tracker = nullcontext()
            raise ExperimentError(
                f"memray cannot write {path}: {error}; name another folder (--output-dir)"
            ) from error
        self._profile = name

    def _fault(self) -> ExperimentError | None:
        """Return why the profile is of no use: memray itself only stops where the disk is full."""
        if self._profile is None:
            return None
        path = self._order.run / "profiles" / self._profile
        fault = fault_of(path)
        if fault is None and _begins(path, _RAW):
            fault = "memray could not compress it"  # which it does last
        if fault is None:
            return None
        free = shutil.disk_usage(path.parent).free
        return ExperimentError(
            f"the profile {path} is damaged ({fault}); {free / 1e6:.0f} MB are free there: free "
            "some, or name another folder (--output-dir)"
        )

    def _record(self, peak: int, error: BaseException | None) -> ProcessRecord:
        order = self._order
        return ProcessRecord(
            version=order.version,
            repeat=order.repeat,
            role=order.role,
            client=self._client,
            rank=order.rank,
            carrier=order.experiment.carrier,
            profiled=order.profiled,
            profile=self._profile,
            base_bytes=self._base,
            peak_bytes=max(peak, self._base),
            model_bytes=self.model_bytes,
            samples=self._sampler.samples,
            rounds=self.rounds,
            collections=_collections() - self._collections,
            error=_sentence(error),
            digest=self.digest,
        )


def _sentence(error: BaseException | None) -> str | None:
    if error is None:
        return None
    if isinstance(error, KeyboardInterrupt):
        return "it was stopped by a signal"
    return f"{type(error).__name__}: {error}"


def _begins(path: Path, with_: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(with_)) == with_


def _collections() -> int:
    """Return how often Python's garbage collector has run.

    Not by ``gc.callbacks``: an exception that a signal raises in one is swallowed, so Ctrl-C could
    be lost there.
    """
    return sum(generation["collections"] for generation in gc.get_stats())


class _Sampler:
    """Reads the resident memory of this process every few hundredths of a second."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-samples", daemon=True)
        self._began = 0.0

    @property
    def samples(self) -> list[tuple[float, int]]:
        """At most 400, each the highest of its stretch, so that no peak is lost."""
        every = -(-len(self._samples) // _MOST_SAMPLES) or 1
        return [
            max(self._samples[at : at + every], key=lambda each: each[1])
            for at in range(0, len(self._samples), every)
        ]

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        # One file, read again: to open and parse ``status`` would cost ten times as much.
        with Path("/proc/self/statm").open("rb", buffering=0) as file:
            while True:
                pages = int(os.pread(file.fileno(), 64, 0).split()[1])
                at = round(time.monotonic() - self._began, 3)
                self._samples.append((at, pages * _PAGE_BYTES))
                if self._ended.wait(_SAMPLE_SECONDS):
                    return
