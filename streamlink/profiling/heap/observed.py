"""What a folder of one run holds: the records and profiles of its processes, and what is damaged.

Nothing here stops at a damaged file: it becomes a sentence, and the rest is read. Only a folder
that is no run, or the files of two runs, are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamlink.profiling.heap.allocations import Allocations, DamagedProfile, read_allocations
from streamlink.profiling.heap.observation import (
    UNKNOWN,
    Observation,
    RunError,
    Subject,
    require_one_model,
    require_one_time,
)
from streamlink.profiling.heap.record import ProcessRecord, Role, read_record

__all__ = ["Run", "flamegraph_path", "read_run"]

# The reader of a profile is bound by one core, and holds what memray needs for it.
_READERS = 2
_BARE_NAME = re.compile(
    r"(?:(?P<server>server)|client_(?P<client>[^_]+)|mpi_rank_(?P<rank>\d+))"
    r"_(?P<version>.+?)(?:_(?P<repeat>\d+))?_memory_profile"
)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """All that was observed in one run."""

    folder: Path
    settings: Mapping[str, Any]
    """The content of ``experiment.json``; empty if it cannot be read."""
    observations: Sequence[Observation]
    faults: Sequence[str] = field(default=())
    """A sentence for each file that is damaged, missing or incomplete."""


def read_run(folder: Path, output: Path | None, progress: Progress | None = None) -> Run:
    """Read a run, whether it is complete or not, and write the flame graphs into ``output``.

    Args:
        folder: with ``processes/`` and ``profiles/``; profiles may also lie in it directly.
        output: of the analysis; ``None``: no profile is read, so only the records have figures.
        progress: called with a line for each profile.

    Raises:
        RunError: it is no run, or it holds two runs.
        OSError: the flame graphs cannot be written.
    """
    faults: list[str] = []
    records = _records(folder, faults)
    profiles = _profiles(folder)
    if not records and not profiles and not faults:
        raise RunError(_no_run(folder))
    require_one_model(records)
    found = {}
    if output is not None:
        found = _read_all(list(profiles.values()), output, faults, progress)
    observations = [*_recorded(records, profiles, found, faults), *_bare(profiles, found, records)]
    require_one_time(observations)
    observations.sort(key=_order)
    return Run(folder, _settings(folder, faults), observations, faults)


def flamegraph_path(output: Path, profile: Path) -> Path:
    """Return where the flame graph of a profile is written."""
    return output / "flamegraphs" / f"{profile.stem}.html"


# --- files ------------------------------------------------------------------


def _records(folder: Path, faults: list[str]) -> dict[str, ProcessRecord]:
    records = {}
    for path in sorted((folder / "processes").glob("*.json")):
        try:
            records[path.name] = read_record(path)
        except (OSError, ValueError) as error:
            faults.append(f"processes/{path.name} is damaged ({_short(error)}); it is left out")
    return records


def _profiles(folder: Path) -> dict[str, Path]:
    """Return the profiles by name.

    Raises:
        RunError: one name is in the folder and in ``profiles/``, so there are two runs.
    """
    inner = {path.name: path for path in sorted((folder / "profiles").glob("*.bin"))}
    outer = {path.name: path for path in sorted(folder.glob("*.bin"))}
    if both := sorted(inner.keys() & outer.keys()):
        raise RunError(
            f"{folder} holds two runs: {both[0]} is in it and in its profiles/; move the files of "
            "one run to a folder of its own"
        )
    return inner | outer


def _settings(folder: Path, faults: list[str]) -> Mapping[str, Any]:
    path = folder / "experiment.json"
    try:
        facts = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        faults.append("experiment.json is missing: the settings of this run are not known")
        return {}
    except (OSError, ValueError) as error:
        faults.append(f"experiment.json is damaged ({_short(error)})")
        return {}
    return facts if isinstance(facts, dict) else {}


def _no_run(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is no folder; name the folder run_... of a run"
    inner = sorted(
        each.name for each in folder.iterdir() if (each / "processes").is_dir() or _has_bin(each)
    )
    if len(inner) > 1:
        return f"{folder} has {len(inner)} runs: {', '.join(inner)}; name one of them"
    hint = f"did you mean {folder / inner[0]}?" if inner else "name the folder run_... of a run"
    return f"{folder} has neither processes/*.json nor profiles/*.bin; {hint}"


def _has_bin(folder: Path) -> bool:
    return folder.is_dir() and bool(list(folder.rglob("*_memory_profile.bin")))


def _read_all(
    paths: Sequence[Path], output: Path, faults: list[str], progress: Progress | None
) -> dict[str, Allocations]:
    (output / "flamegraphs").mkdir(parents=True, exist_ok=True)
    found = {}
    with ThreadPoolExecutor(_READERS) as pool:
        for path, read in zip(
            paths, pool.map(lambda each: _read(each, output), paths), strict=True
        ):
            if isinstance(read, Allocations):
                found[path.name] = read
                line = f"{path.name}: {read.peak_bytes / 1e6:.1f} MB at its peak"
                if read.fault:
                    faults.append(f"{path.name} is incomplete: {read.fault}; it is not compared")
            else:
                line = f"{path.name} cannot be read: {read}"
                faults.append(line)
            if progress is not None:
                progress(line)
    return found


def _read(path: Path, output: Path) -> Allocations | str:
    try:
        return read_allocations(path, flamegraph_path(output, path))
    except DamagedProfile as error:
        return str(error)


# --- observations -----------------------------------------------------------


def _recorded(
    records: Mapping[str, ProcessRecord],
    profiles: Mapping[str, Path],
    found: Mapping[str, Allocations],
    faults: list[str],
) -> list[Observation]:
    observations = []
    for name, record in records.items():
        if record.error is not None:
            faults.append(f"{Path(name).stem} failed ({record.error}); it is not compared")
        if record.profile is not None and record.profile not in profiles:
            faults.append(f"profiles/{record.profile} is missing, which {name} names")
        observations.append(
            Observation(
                subject=_subject(record),
                version=record.version,
                repeat=record.repeat,
                is_profiled=record.profiled,
                record=record,
                allocations=found.get(record.profile or ""),
                profile=profiles.get(record.profile or ""),
            )
        )
    return observations


def _bare(
    profiles: Mapping[str, Path],
    found: Mapping[str, Allocations],
    records: Mapping[str, ProcessRecord],
) -> list[Observation]:
    """Return what is known of profiles that no record names: their file name, and their content."""
    named = {each.profile for each in records.values()}
    observations = []
    for name in sorted(found.keys() - named):
        match = _BARE_NAME.fullmatch(Path(name).stem)
        role: Role = (
            "server" if match is None or match["server"] or match["rank"] == "0" else "client"
        )
        observations.append(
            Observation(
                subject=Subject(_carrier(match), role, _bare_subject(match, name)),
                version=match["version"] if match else UNKNOWN,
                repeat=int(match["repeat"] or 1) if match else 1,
                is_profiled=True,
                record=None,
                allocations=found[name],
                profile=profiles[name],
            )
        )
    return observations


def _carrier(match: re.Match[str] | None) -> str:
    return "mpi" if match is not None and match["rank"] else "grpc"


def _bare_subject(match: re.Match[str] | None, name: str) -> str:
    if match is None:
        return Path(name).stem
    if match["server"]:
        return "server"
    return f"client {match['client']}" if match["client"] else f"rank {match['rank']}"


def _subject(record: ProcessRecord) -> Subject:
    if record.rank is not None:
        name = f"rank {record.rank}"
    elif record.role == "server":
        name = "server"
    else:
        name = f"client {record.client}"
    return Subject(record.carrier, record.role, name)


def _order(each: Observation) -> tuple[object, ...]:
    is_first = each.version == "original"
    return (each.subject.order, not is_first, each.version, each.repeat, not each.is_profiled)


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
