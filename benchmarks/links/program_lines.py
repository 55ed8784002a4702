"""Measures the accuracy of each program's lines with a raw socket, before the program begins.

The programs open their lines themselves, with the relay and the emulation that ``lines`` uses, too.
The accuracy is kept with the results of the program, and printed with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

from benchmarks.links.accuracy import measure_line
from benchmarks.links.cases import Accuracy
from benchmarks.links.lines import Line, parse_line
from benchmarks.links.tables import found_row
from benchmarks.longline.namespace import why_not
from benchmarks.parts import Facts, Parts

__all__ = ["LINES", "SECONDS", "SMALL_LINES", "SMALL_SECONDS", "accuracies", "accuracy_rows"]

LINES: Mapping[str, Sequence[str]] = {
    # Its emulated line without loss is the same as the last one but for the loss.
    "probe": ("200KiB,20ms", "100Mbit", "100Mbit,50ms", "100Mbit,200ms", "1Gbit", "1Gbit,50ms",
              "1Gbit,200ms", "200Mbit,100ms,loss=0.1%"),
    "bwlimit": ("100Mbit,10ms",),
    "traverse": ("400Mbit", "400Mbit,20ms"),
    "finetune": ("100Mbit",),
}  # fmt: skip
"""By program; ``auto`` and ``shipped`` have none, they move models over loopback."""

SMALL_LINES: Mapping[str, Sequence[str]] = {
    "probe": ("100Mbit,50ms",),
    "bwlimit": ("100Mbit,10ms",),
    "traverse": ("160Mbit",),
    "finetune": ("100Mbit",),
}
"""Those of a program that is only tried."""

SECONDS, SMALL_SECONDS = 5.0, 0.5
"""In each direction; the second one where a program is only tried."""


def accuracies(name: str, part: Parts, is_small: bool = False) -> dict[str, Facts]:
    """Measure the accuracy of each line that a program uses, as one part of the program each.

    Args:
        name: of the program.
        part: measures a line.
        is_small: whether the program is only tried; then that takes seconds, too.

    Returns:
        By line, an ``Accuracy`` as JSON; or why this machine cannot have it, as ``error``.
    """
    found: dict[str, Facts] = {}
    seconds = SMALL_SECONDS if is_small else SECONDS
    for text in (SMALL_LINES if is_small else LINES).get(name, ()):
        line = parse_line(text)
        if line.kind == "emulated" and (reason := why_not()):
            found[text] = {"error": reason}
        else:
            what = f"the line itself, {text}"
            found[text] = part(what, 3 * seconds, partial(_measured, line, seconds))
    return found


def accuracy_rows(found: Mapping[str, Facts]) -> list[tuple[str, ...]]:
    """Return what was asked of each line, and what a raw socket found; see ``FOUND_COLUMNS``."""
    return [found_row(parse_line(text), _accuracy(each)) for text, each in found.items()]


def _measured(line: Line, seconds: float) -> Facts:
    return asdict(measure_line(line, seconds))


def _accuracy(found: Facts) -> Accuracy | None:
    return None if "error" in found else Accuracy(**found)
