"""The figures of a series as a table and as sentences, computed from the results only."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from streamlink.profiling.dp.experiment import Mode
from streamlink.profiling.dp.result import Result
from streamlink.profiling.dp.series import Series

__all__ = ["COLUMNS", "Overhead", "overheads", "rows", "sentences", "summary"]

COLUMNS = (
    *("tokens", "mode", "peak, MB", "± MB", "torch's rise, MB", "s/step", "± s"),
    *("MB more", "time, %"),
)


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a private mode costs more than ``no_dp`` at the same length."""

    mode: Mode
    seq_length: int
    nbytes: int
    """Peak against peak."""
    percent: float
    """Median time against median time: 100 is twice as long."""


def overheads(series: Series) -> list[Overhead]:
    """Return them for each private result whose ``no_dp`` is there, too."""
    made = []
    for each in series.measured:
        base = series.of(Mode.NO_DP, each.experiment.seq_length)
        if each.mode.is_private and base is not None:
            made.append(_overhead(each, base))
    return made


def rows(series: Series) -> list[list[str]]:
    """Return a row of text for each result, in the order of ``COLUMNS``."""
    more = {(each.mode, each.seq_length): each for each in overheads(series)}
    return [
        _row(each, more.get((each.mode, each.experiment.seq_length))) for each in series.results
    ]


def sentences(series: Series) -> list[str]:
    """Return what the figures say, failures and damaged files included."""
    return [
        *(_about(each) for each in overheads(series)),
        *_flash_against_ghost(series),
        *(
            f"{each.experiment.name} has no figures ({each.failure.kind}): {each.failure.text}"
            for each in series.failed
            if each.failure is not None
        ),
        *series.damaged,
    ]


def summary(series: Series) -> str:
    """Return the table and the sentences as text."""
    table = [list(COLUMNS), *rows(series)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([*lines, "", *sentences(series), ""])


def _overhead(result: Result, base: Result) -> Overhead:
    assert result.peak_bytes is not None
    assert base.peak_bytes is not None
    assert result.seconds is not None
    assert base.seconds is not None
    return Overhead(
        result.mode,
        result.experiment.seq_length,
        result.peak_bytes - base.peak_bytes,
        100 * (result.seconds / base.seconds - 1),
    )


def _row(result: Result, more: Overhead | None) -> list[str]:
    experiment, steps = result.experiment, result.steps
    begin = [str(experiment.seq_length), experiment.mode.value]
    if steps is None:
        kind = result.failure.kind if result.failure else "nothing"
        return [*begin, kind, *[""] * (len(COLUMNS) - 3)]
    return [
        *begin,
        _mb(max(steps.peak_bytes)),
        _mb(max(steps.peak_bytes) - min(steps.peak_bytes)),
        "" if steps.profiled_bytes is None else _mb(steps.profiled_bytes),
        f"{statistics.median(steps.seconds):.3f}",
        f"{max(steps.seconds) - min(steps.seconds):.3f}",
        "" if more is None else f"{more.nbytes / 1e6:+.1f}",
        "" if more is None else f"{more.percent:+.0f}",
    ]


def _about(each: Overhead) -> str:
    side = "more" if each.nbytes >= 0 else "less"
    pace = "longer" if each.percent >= 0 else "shorter"
    return (
        f"{each.mode.value} at {each.seq_length} tokens: {abs(each.nbytes) / 1e6:.1f} MB {side} "
        f"and {abs(each.percent):.0f} % {pace} than no_dp"
    )


def _flash_against_ghost(series: Series) -> Iterator[str]:
    for flash in series.measured:
        length = flash.experiment.seq_length
        ghost = series.of(Mode.GHOST, length) if flash.mode is Mode.FLASH else None
        if ghost is None or ghost.peak_bytes is None or flash.peak_bytes is None:
            continue
        saved = (ghost.peak_bytes - flash.peak_bytes) / 1e6
        word = "less" if saved >= 0 else "MORE"
        yield f"flash_fsdp at {length} tokens: {abs(saved):.1f} MB {word} than ghost_fsdp"


def _mb(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f}"
