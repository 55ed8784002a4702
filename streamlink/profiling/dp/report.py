"""The report of a series: four pictures, a summary, and a page with all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streamlink.profiling.dp.experiment import Mode
from streamlink.profiling.dp.result import Result
from streamlink.profiling.dp.series import Series
from streamlink.profiling.dp.summary import COLUMNS, overheads, rows, sentences, summary
from streamlink.profiling.folder import write_text
from streamlink.profiling.page import Page, Picture, Table
from streamlink.profiling.pictures import Bars, Point, draw_bars, draw_points

__all__ = ["write_report"]

_MB = 1e6


def write_report(series: Series, folder: Path) -> Path:
    """Write pictures, ``summary.txt`` and ``report.html`` into ``folder``; return the page.

    What an earlier report left there is replaced: all of it is computed from the results.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "summary.txt", summary(series), overwrite=True)
    table = Table("All experiments", COLUMNS, rows(series))
    page = Page(
        "What privacy costs: memory and time of private training",
        _about(series),
        sentences(series),
        (table, *_pictures(series, folder)),
    )
    path = folder / "report.html"
    write_text(path, page.html(), overwrite=True)
    return path


def _pictures(series: Series, folder: Path) -> list[Picture]:
    if not series.measured:
        return []
    memory, time = folder / "memory_comparison.png", folder / "time_comparison.png"
    draw_bars(memory, _bars(series, "Peak memory of a step", "MB", _peak))
    draw_bars(time, _bars(series, "Median time of a step", "seconds", lambda each: each.seconds))
    return [
        Picture(memory, "Peak of the largest rank after a reset, by length; × has no figure."),
        Picture(time, "Median over the measured steps; the warm-up is left out."),
        _tradeoff(series, folder / "memory_vs_time_tradeoff.png"),
        _overhead(series, folder / "overhead_analysis.png"),
    ]


def _tradeoff(series: Series, path: Path) -> Picture:
    points = [
        Point(each.mode.value, str(each.experiment.seq_length), each.seconds, each.peak_bytes / _MB)
        for mode in Mode
        for each in series.measured
        if each.mode is mode and each.seconds is not None and each.peak_bytes is not None
    ]
    draw_points(path, "Memory against time", "seconds per step", "peak, MB", points)
    return Picture(path, "Each point is an experiment, with its number of tokens; lower left wins.")


def _overhead(series: Series, path: Path) -> Picture:
    more = {(each.mode, each.seq_length): each for each in overheads(series)}
    lengths = _lengths(series)
    private = [mode for mode in Mode if mode.is_private]
    memory = {mode.value: [_over(more.get((mode, n)), "nbytes", _MB) for n in lengths]
              for mode in private}  # fmt: skip
    time = {mode.value: [_over(more.get((mode, n)), "percent", 1) for n in lengths]
            for mode in private}  # fmt: skip
    groups = [str(length) for length in lengths]
    draw_bars(
        path,
        Bars("Memory over no_dp", "MB", groups, memory, first_color=1),
        Bars("Time over no_dp", "%", groups, time, first_color=1),
    )
    return Picture(path, "What each private mode costs more than training without privacy.")


def _bars(series: Series, title: str, unit: str, value: Callable[[Result], float | None]) -> Bars:
    lengths = _lengths(series)
    values: dict[str, list[float | None]] = {}
    for mode in Mode:
        results = [series.of(mode, length) for length in lengths]
        values[mode.value] = [None if each is None else value(each) for each in results]
    return Bars(title, unit, [f"{length} tokens" for length in lengths], values)


def _lengths(series: Series) -> list[int]:
    return sorted({each.experiment.seq_length for each in series.results})


def _peak(result: Result) -> float | None:
    return None if result.peak_bytes is None else result.peak_bytes / _MB


def _over(each: object, name: str, unit: float) -> float | None:
    return None if each is None else float(getattr(each, name)) / unit


def _about(series: Series) -> str:
    if not series.results:
        return "no result could be read"
    first = series.measured[0] if series.measured else series.results[0]
    experiment = first.experiment
    where = first.steps.device_name if first.steps else experiment.device
    versions = ", ".join(f"{name} {version}" for name, version in first.versions.items())
    return (
        f"{experiment.model_name}, {experiment.batch_size} samples × {experiment.world_size} ranks "
        f"on {where}, {experiment.dtype}, {experiment.num_iter} steps after "
        f"{experiment.warmup_iter}; noise {experiment.sigma:g}, "
        f"bound {experiment.max_grad_norm:g}; {versions or 'no versions'}"
        f"{f', commit {first.commit}' if first.commit else ''}"
    )
