"""Tests what profiling needs: memray, mpiexec, the packages of training, folders with data."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from streamlink.errors import StreamlinkError
from streamlink.profiling.heap.experiment import ExperimentError
from streamlink.profiling.heap.launch import mpiexec
from streamlink.training.settings import DataSettings

__all__ = ["Finding", "check"]

_RANK_SECONDS = 60.0
_RANK = (
    "from mpi4py import MPI; import memray, sys; c = MPI.COMM_WORLD\n"
    "with memray.Tracker(f'{sys.argv[1]}/rank_{c.Get_rank()}.bin'): c.barrier()"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was tested, whether it works, and what was seen or is to be done."""

    what: str
    is_well: bool
    text: str
    is_needed: bool = True
    """Whether every experiment needs it."""


def check(data: Path | None) -> Iterator[Finding]:
    """Test one thing after the other.

    Args:
        data: a folder in which CIFAR-10 and MNIST are looked for; ``None``: that is left out.
    """
    yield _tested("memray", _memray)
    yield _tested("torch", lambda: _package("torch", "torch"))
    yield _tested("transformers", lambda: _package("transformers", "llm"), is_needed=False)
    yield _tested("matplotlib", lambda: _package("matplotlib", "plot"), is_needed=False)
    yield _tested("mpiexec", _ranks, is_needed=False)
    if data is not None:
        for name in ("cifar10", "mnist"):
            yield _tested(f"{name} in {data}", partial(_data, name, data), is_needed=False)


def _tested(what: str, test: Callable[[], str], *, is_needed: bool = True) -> Finding:
    try:
        return Finding(what, True, test(), is_needed)
    except (StreamlinkError, OSError, ImportError) as error:
        return Finding(what, False, str(error), is_needed)


def _memray() -> str:
    """Profile an allocation, and read it from the file."""
    if find_spec("memray") is None:
        raise ExperimentError("it cannot be found; pip install 'streamlink-fl[memray]'")
    import memray

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.bin"
        with memray.Tracker(path):
            held = bytearray(1 << 24)
        peak = memray.FileReader(path).metadata.peak_memory
    if peak < len(held):
        raise ExperimentError(f"it saw {peak} bytes of {len(held)}; is this machine supported?")
    return f"{version('memray')}, profiles and reads"


def _package(name: str, extra: str) -> str:
    if find_spec(name) is None:
        raise ExperimentError(f"it cannot be found; pip install 'streamlink-fl[{extra}]'")
    return version(name)


def _ranks() -> str:
    """Run two ranks, each under memray."""
    program = mpiexec()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [program, "-n", "2", sys.executable, "-c", _RANK, folder],
                capture_output=True,
                text=True,
                timeout=_RANK_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ExperimentError(f"two ranks have not ended in {_RANK_SECONDS:g} s") from error
        profiles = sorted(Path(folder).glob("rank_*.bin"))
    if done.returncode or len(profiles) != 2:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExperimentError(f"two ranks failed with exit code {done.returncode}: {last}")
    return f"{program}, two ranks under memray"


def _data(name: str, folder: Path) -> str:
    from streamlink.training.data import load_data

    samples, validation = load_data(DataSettings(name=name, kwargs={"folder": str(folder)}))
    return f"{len(samples)} samples, {len(validation or ())} for validation"
