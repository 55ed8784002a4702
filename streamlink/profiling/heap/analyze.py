"""The analysis of a run: what each process held, in which version, and what that means.

``analyze`` reads a folder that ``series`` has written, whole or not, and writes beside it: flame
graphs, summaries and tables of each profile, CSV files, pictures, ``report.txt`` and
``report.html``, which a person opens first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamlink.profiling.folder import write_text
from streamlink.profiling.heap.drawings import draw
from streamlink.profiling.heap.findings import Findings, find
from streamlink.profiling.heap.observation import RunError
from streamlink.profiling.heap.observed import read_run
from streamlink.profiling.heap.report import report_page, report_text
from streamlink.profiling.heap.spreadsheets import write_spreadsheets
from streamlink.profiling.heap.summaries import write_summaries
from streamlink.profiling.page import Picture

__all__ = ["Analysis", "analyze"]

_MARK = "analysis.json"


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found, and where it is written."""

    findings: Findings
    page: Path
    report: Path
    pictures: tuple[Path, ...]

    @property
    def text(self) -> str:
        """The content of ``report.txt``."""
        return self.report.read_text("utf-8")

    @property
    def has_figures(self) -> bool:
        """Whether anything could be measured."""
        return any(each.values for each in self.findings.figures)


def analyze(
    run: Path,
    output: Path,
    plots: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Analysis:
    """Analyse ``run`` and write the results into ``output``.

    What an earlier analysis of this run left there is replaced: all of it is computed from the run.

    Args:
        run: the folder of a run, whether it is complete or not.
        output: where to write; it is made.
        plots: whether pictures are drawn; they need matplotlib, and no screen.
        progress: called with a line for each profile that was read.

    Raises:
        RunError: ``run`` is no run or holds two, or ``output`` has the analysis of another one.
        OSError: a file cannot be written.
    """
    _take(output, run)
    findings = find(read_run(run, output, progress))
    write_spreadsheets(findings, output)
    links = write_summaries(findings, output)
    pictures: list[Picture] = draw(findings, output) if plots else []
    report, page = output / "report.txt", output / "report.html"
    write_text(report, report_text(findings), overwrite=True)
    write_text(page, report_page(findings, pictures, links).html(), overwrite=True)
    return Analysis(findings, page, report, tuple(each.path for each in pictures))


def _take(output: Path, run: Path) -> None:
    """Mark ``output`` as that of ``run``, so that no two analyses are mixed in it."""
    mark, name = output / _MARK, run.resolve().name
    try:
        found = json.loads(mark.read_text("utf-8"))["run"]
    except (OSError, ValueError, KeyError, TypeError):
        found = name
    if found != name:
        raise RunError(
            f"{output} has the analysis of {found}; name another --output-dir for {name}"
        )
    if run.is_dir():  # a wrong name leaves no folder behind
        write_text(mark, json.dumps({"run": name}) + "\n", overwrite=True)
