"""The pictures of an analysis: peaks, roles, time against memory, memory over time, chunk sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED, Figures, Measure, chunk_bytes
from streamlink.profiling.heap.findings import Findings, largest_client
from streamlink.profiling.heap.observation import Observation, Subject
from streamlink.profiling.page import Picture
from streamlink.profiling.pictures import Bars, Lines, Point, draw_bars, draw_lines, draw_points

__all__ = ["draw"]

_MB = 1e6
_MAIN = (BASELINE, OPTIMIZED)
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def draw(findings: Findings, output: Path) -> list[Picture]:
    """Write the pictures for which there are figures, into ``output``."""
    made = (
        _comparison(findings, output / "comparison.png"),
        _roles(findings, output / "roles.png"),
        _over_time(findings, output / "memory_over_time.png"),
        _tradeoff(findings, output / "memory_vs_time.png"),
        _variants(findings, output / "variants.png"),
        _chunks(findings, output / "peak_vs_chunk_size.png"),
    )
    return [each for each in made if each is not None]


def _comparison(findings: Findings, path: Path) -> Picture | None:
    versions = _main(findings) or findings.versions[:2]
    if not versions:
        return None
    groups = [each.label.replace(" (", "\n(") for each in findings.subjects]
    panels = [
        Bars(title, "MB", groups, _by_subject(findings, versions, measure))
        for title, measure in (
            ("Allocator's peak (memray)", Measure.HEAP_PEAK),
            (_resident_title(findings), findings.resident),
        )
    ]
    draw_bars(path, *panels)
    return Picture(path, "Medians over the repeats, by process; × has no figure.")


def _by_subject(
    findings: Findings, versions: Sequence[str], measure: Measure
) -> dict[str, list[float | None]]:
    return {
        version: [_mb(findings.of(each, version), measure) for each in findings.subjects]
        for version in versions
    }


def _roles(findings: Findings, path: Path) -> Picture | None:
    versions = _main(findings)
    if not versions:
        return None
    panels = [
        Bars(title, "MB", versions, _by_role(findings, versions, measure))
        for title, measure in (
            ("Allocator's peak (memray)", Measure.HEAP_PEAK),
            (_resident_title(findings), findings.resident),
        )
    ]
    draw_bars(path, *panels)
    return Picture(path, "The server, and of the clients the one with the highest peak.")


def _by_role(
    findings: Findings, versions: Sequence[str], measure: Measure
) -> dict[str, list[float | None]]:
    found = [dict(_server_and_client(findings, version, measure)) for version in versions]
    return {
        name: [_mb(each.get(name), measure) for each in found]
        for name in ("server", "largest client")
    }


def _server_and_client(
    findings: Findings, version: str, measure: Measure
) -> Iterator[tuple[str, Figures]]:
    for each in findings.figures:
        if each.version == version and each.subject.role == "server":
            yield "server", each
    if (client := largest_client(findings, version, measure)) is not None:
        yield "largest client", client


def _tradeoff(findings: Findings, path: Path) -> Picture | None:
    versions = _main(findings) or [each for each in findings.versions if not chunk_bytes(each)]
    points = [
        Point(name, each.version, seconds, over / _MB)
        for version in versions
        if (seconds := _round_seconds(findings, version)) is not None
        for name, each in _server_and_client(findings, version, Measure.OVER_BASE)
        if (over := each.median(Measure.OVER_BASE)) is not None
    ]
    if not points:
        return None
    draw_points(
        path,
        "Memory against time, without memray",
        "seconds per round",
        "over the base, MB",
        points,
    )
    return Picture(
        path, "Each point is a version; lower left wins. No process ran under memray here."
    )


def _round_seconds(findings: Findings, version: str) -> float | None:
    """Return the time of a round of the job, which is the server's."""
    for each in findings.figures:
        if each.version == version and each.subject.role == "server":
            return each.median(Measure.ROUND)
    return None


def _variants(findings: Findings, path: Path) -> Picture | None:
    others = [each for each in findings.versions if each not in _MAIN and chunk_bytes(each) is None]
    if not others:
        return None
    versions = [*_main(findings), *others]
    series = _by_role(findings, versions, Measure.HEAP_PEAK)
    names = [each.replace("_", "\n", 1) for each in versions]
    draw_bars(path, Bars("Allocator's peak (memray)", "MB", names, series), width=11.0)
    return Picture(
        path,
        "only_X: nothing but X is optimized; no_X: everything but X is; alone: a client's training "
        "without transport. Medians over the repeats.",
    )


def _chunks(findings: Findings, path: Path) -> Picture | None:
    sizes = sorted((size, each) for each in findings.versions if (size := chunk_bytes(each)))
    if len(sizes) < 2:
        return None
    marks = {float(size): _size(size) for size, _ in sizes}
    panels = [
        Lines("Peak", "chunk size", "MB", _chunk_lines(findings, sizes), True, marks),
        Lines("Time of a round, without memray", "chunk size", "seconds",
              _chunk_times(findings, sizes), True, marks),
    ]  # fmt: skip
    draw_lines(path, *(each for each in panels if each.series))
    return Picture(path, "Peak and time against the chunk size; the window has four chunks.")


def _chunk_lines(
    findings: Findings, sizes: Sequence[tuple[int, str]]
) -> dict[str, list[tuple[float, float]]]:
    lines = {}
    for measure, view in ((Measure.HEAP_PEAK, "allocator"), (findings.resident, "over the base")):
        for role in ("server", "largest client"):
            found = [
                (float(size), value)
                for size, version in sizes
                if (value := _by_role(findings, [version], measure)[role][0]) is not None
            ]
            if found:
                lines[f"{role}, {view}"] = found
    return lines


def _chunk_times(
    findings: Findings, sizes: Sequence[tuple[int, str]]
) -> dict[str, list[tuple[float, float]]]:
    found = [
        (float(size), value)
        for size, version in sizes
        if (value := _round_seconds(findings, version)) is not None
    ]
    return {"server": found} if found else {}


# --- memory over time -------------------------------------------------------


def _over_time(findings: Findings, path: Path) -> Picture | None:
    versions = _main(findings) or findings.versions[:1]
    panels = [
        panel
        for subject in _shown(findings)
        for version in versions
        if (panel := _panel(findings, subject, version)) is not None
    ]
    if not panels:
        return None
    draw_lines(path, *panels, columns=min(2, len(versions)))
    return Picture(
        path,
        "What the allocators had handed out, and what was resident. They differ: resident memory "
        "has the program and its libraries, what was freed but not returned to the kernel, and, in "
        "a process under memray, memray's own; a page that was never written counts for the "
        "allocator only.",
    )


def _shown(findings: Findings) -> list[Subject]:
    """Return the server and the first client."""
    servers = [each for each in findings.subjects if each.role == "server"]
    clients = [each for each in findings.subjects if each.role == "client"]
    return [*servers[:1], *clients[:1]]


def _panel(findings: Findings, subject: Subject, version: str) -> Lines | None:
    own = [
        each
        for each in findings.run.observations
        if each.subject == subject and each.version == version
    ]
    series = dict(_series(own))
    if not series:
        return None
    return Lines(f"{subject.label}, {version}", "seconds", "MB", series)


def _series(own: Sequence[Observation]) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield the lines of the first repeat that has each."""
    allocations = next((each.allocations for each in own if each.allocations is not None), None)
    if allocations is not None and allocations.snapshots:
        shots = allocations.snapshots
        yield "allocators (memray)", [(each.seconds, each.heap_bytes / _MB) for each in shots]
        yield (
            "resident, under memray",
            [(each.seconds, each.resident_bytes / _MB) for each in shots],
        )
    record = next(
        (each.record for each in own if each.record is not None and not each.is_profiled), None
    )
    if record is not None and record.samples:
        yield "resident, without memray", [(at, nbytes / _MB) for at, nbytes in record.samples]


# --- parts ------------------------------------------------------------------


def _main(findings: Findings) -> list[str]:
    return [each for each in _MAIN if each in findings.versions]


def _resident_title(findings: Findings) -> str:
    under = ", under memray" if findings.resident is Measure.PROFILED_OVER_BASE else ""
    return f"Resident peak over the base{under}"


def _mb(figures: Figures | None, measure: Measure) -> float | None:
    value = None if figures is None else figures.median(measure)
    return None if value is None else value / _MB


def _size(nbytes: int) -> str:
    for unit, name in _SIZES:
        if nbytes % unit == 0:
            return f"{nbytes // unit} {name}"
    return f"{nbytes} B"
