"""The process that reads one profile: ``python -m …allocations_worker PROFILE FLAMEGRAPH``.

It writes the flame graph, and ``Allocations`` as JSON to its standard output. If memray cannot read
the file, the last line of its standard error says why.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import memray
from memray.reporters.flamegraph import FlameGraphReporter

import streamlink
from streamlink.profiling.heap.allocations import Allocations, Site, Snapshot
from streamlink.profiling.heap.profile_file import is_compressed

__all__ = ["main"]

_MOST_SNAPSHOTS = 600
_LARGEST = 20
_MOST_FRAMES = 2
_NO_STACK = ("<no Python frame>", "", 0)
_PACKAGE = str(Path(streamlink.__file__).parent) + "/"
# memray takes a snapshot every 10 ms; a machine that is busy may delay one, but not so long.
_LATE = timedelta(seconds=1.0)
_LATE_SHARE = 0.01

Frame = tuple[str, str, int]


def main(arguments: Sequence[str]) -> int:
    """Read the profile; return the exit code."""
    profile, flamegraph = map(Path, arguments)
    try:
        found = _capture(profile, flamegraph)
    except OSError as error:
        print(f"memray cannot read it: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(found.model_dump_json())
    return 0


def _capture(profile: Path, flamegraph: Path) -> Allocations:
    with memray.FileReader(profile) as reader:
        records = list(reader.get_high_watermark_allocation_records(merge_threads=True))
        snapshots = list(reader.get_memory_snapshots())
        metadata = reader.metadata
        _draw(flamegraph, records, snapshots, metadata)
    return Allocations(
        peak_bytes=metadata.peak_memory,
        at_peak=_sites(records),
        snapshots=_thinned(snapshots, metadata.start_time),
        started=metadata.start_time,
        ended=metadata.end_time,
        command=metadata.command_line,
        fault=_fault(profile, metadata, snapshots, sum(each.size for each in records)),
        **_statistics(profile, metadata),
    )


def _draw(path: Path, records: list[Any], snapshots: list[Any], metadata: Any) -> None:
    reporter = FlameGraphReporter.from_snapshot(
        records, memory_records=tuple(snapshots), native_traces=metadata.has_native_traces
    )
    with path.open("w", encoding="utf-8") as file:
        reporter.render(
            file,
            metadata=metadata,
            show_memory_leaks=False,
            merge_threads=True,
            inverted=False,
            no_web=True,  # a node of a cluster has no network
        )


def _statistics(profile: Path, metadata: Any) -> dict[str, Any]:
    if metadata.file_format == memray.FileFormat.AGGREGATED_ALLOCATIONS:
        return {"allocations": None, "allocated_bytes": None, "allocators": {}, "largest": []}
    from memray._memray import compute_statistics  # memray offers its statistics nowhere else

    found = compute_statistics(str(profile), num_largest=_LARGEST)
    counts = dict(found.top_locations_by_count)
    return {
        "allocations": found.total_num_allocations,
        "allocated_bytes": found.total_memory_allocated,
        "allocators": found.allocation_count_by_allocator,
        "largest": [
            _site(place, nbytes, counts.get(place, 0), "")
            for place, nbytes in found.top_locations_by_size
        ],
    }


def _sites(records: Iterable[Any]) -> list[Site]:
    nbytes: dict[tuple[Frame, str], int] = defaultdict(int)
    allocations: dict[tuple[Frame, str], int] = defaultdict(int)
    for each in records:
        stack = each.stack_trace()
        key = stack[0] if stack else _NO_STACK, _within(stack)
        nbytes[key] += each.size
        allocations[key] += each.n_allocations
    sites = [_site(key[0], total, allocations[key], key[1]) for key, total in nbytes.items()]
    return sorted(sites, key=lambda each: -each.nbytes)


def _within(stack: Sequence[Frame]) -> str:
    """Return the innermost frames of this package above ``stack[0]``, which is the innermost."""
    frames = [
        f"{file.removeprefix(_PACKAGE)}:{line} {function}"
        for function, file, line in stack[1:]
        if file.startswith(_PACKAGE)
    ]
    return " < ".join(frames[:_MOST_FRAMES])


def _site(place: Frame, nbytes: int, allocations: int, within: str) -> Site:
    function, file, line = place
    return Site(
        nbytes=nbytes,
        allocations=allocations,
        function=function,
        file=_short(file),
        line=line,
        within=within,
    )


def _short(file: str) -> str:
    """Return a path without the folder that its packages are installed in."""
    return file.removeprefix(_PACKAGE).rpartition("/site-packages/")[2]


def _thinned(snapshots: Sequence[Any], start: datetime) -> list[Snapshot]:
    """Return a bounded number: of each stretch the largest values, so no peak is lost."""
    stride = -(-len(snapshots) // _MOST_SNAPSHOTS) or 1
    begin = start.timestamp()
    return [
        Snapshot(
            seconds=stretch[0].time / 1e3 - begin,
            resident_bytes=max(each.rss for each in stretch),
            heap_bytes=max(each.heap for each in stretch),
        )
        for stretch in (snapshots[at : at + stride] for at in range(0, len(snapshots), stride))
    ]


def _fault(profile: Path, metadata: Any, snapshots: Sequence[Any], held: int) -> str | None:
    last = datetime.fromtimestamp(snapshots[-1].time / 1e3, tz=UTC) if snapshots else None
    if not is_compressed(profile) and _is_open(metadata, last):
        return "memray never closed it: its process was killed, or still runs"
    if held != metadata.peak_memory:
        return "its records contradict each other"
    missing = metadata.end_time - (last or metadata.start_time)
    if missing > _LATE + _LATE_SHARE * (metadata.end_time - metadata.start_time):
        return f"its records end {missing.total_seconds():.1f} s before its process did"
    return None


def _is_open(metadata: Any, last: datetime | None) -> bool:
    """Tell whether the end is still what memray writes at the start, right after that."""
    is_short = metadata.end_time - metadata.start_time < _LATE
    return is_short or (last is not None and last > metadata.end_time)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
