"""The programs of ``python -m benchmarks`` that measure numbers to reach, part by part.

Each part (a line, a case, a job, a turn) is kept as soon as it is known, beside the runs of the
plans, so a program that was interrupted resumes with the next part. A part that would not end
before the deadline is not begun. One that fails ends its program; the next invocation tries it
again. The first parts are the program's lines, each by itself. When all parts are known, the
program's result is written as JSON and as a table, with what the lines were found to be.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.console import Console

from benchmarks import auto, bwlimit, finetune, probes, shipped, traverse
from benchmarks.integrations import kept as integrations
from benchmarks.integrations.cases import kind_of
from benchmarks.integrations.kept import Checkout
from benchmarks.links.failures import made_good
from benchmarks.links.kept import append, read_as
from benchmarks.links.program_lines import LINES, accuracies, accuracy_rows
from benchmarks.links.reports import NO_RUN, Files, print_titled, replace_file
from benchmarks.links.series import tell
from benchmarks.links.sources import sources_of
from benchmarks.links.tables import FOUND_COLUMNS
from benchmarks.links.theirs import MODULES as THEIR_MODULES
from benchmarks.links.theirs import NAME as THEIRS
from benchmarks.parts import Facts, Parts
from benchmarks.stats import Result, commit, environment, print_result

__all__ = ["PROGRAMS", "KeptParts", "NoTimeLeft", "Part", "PartFailed", "measured_by", "read_parts",
           "run_program"]  # fmt: skip

# ``theirs`` is one, too, but needs more than its parts: it is given to ``run_program``.
PROGRAMS: Mapping[str, Callable[..., Result]] = {
    "probe": probes.run,
    "bwlimit": bwlimit.run,
    "traverse": traverse.run,
    "auto": auto.run,
    "finetune": finetune.run,
    "shipped": shipped.run,
}
FAILURES = (OSError, ValueError, RuntimeError, subprocess.SubprocessError)
SHOWING = ("benchmarks/stats.py", "benchmarks/tables.py", "benchmarks/parts.py",
           "benchmarks/links/plans.py")  # fmt: skip


def measured_by(name: str) -> tuple[str, ...]:
    """Return what the parts of a program depend on, as git's paths."""
    # Beside the program, what measures its lines by themselves.
    lines = ("benchmarks.links.accuracy",) if name in LINES else ()
    modules = THEIR_MODULES if name == THEIRS else (PROGRAMS[name].__module__, *lines)
    paths = sources_of(*modules)
    own = [f":(top){path}" for path in paths if path not in SHOWING]
    return (":(top)streamlink", *own, *(integrations.MEASURED if name == "shipped" else ()))


class NoTimeLeft(Exception):
    """The next part would not end before the deadline."""


class PartFailed(RuntimeError):
    """A part failed; the text names it and has the reason."""


@dataclass
class Part:
    """One part of a program, which was measured or failed.

    Attributes:
        case: its name. facts: what it found.
        error: why it failed; empty: it did not.
        is_small: whether it was only tried.
    """

    case: str
    facts: Facts = field(default_factory=dict)
    error: str = ""
    is_small: bool = False
    commit: str = ""
    at: str = ""
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The kind of machine that it was measured on."""
        return kind_of(self.machine)

    @property
    def is_kept(self) -> bool:
        """Whether it need not be measured again: it did not fail, and lacked nothing."""
        return not self.error and not self.facts.get("is_unavailable")

    def as_json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        return asdict(self)


def _from_json(facts: dict[str, Any]) -> Part:
    return Part(**facts)


read_parts = partial(read_as, _from_json)
"""Returns every part of a file."""


class Counting(Protocol):
    """What is asked of a checkout; ``integrations.kept.Checkout`` is it."""

    @property
    def where(self) -> str:
        """The kind of this machine."""

    def counts(self, outcome: Part) -> bool:
        """Tell whether an earlier part used the code that would run now."""


class KeptParts:
    """Measures the parts that are not kept, and keeps them; see ``benchmarks.parts.Parts``.

    Args:
        path: of the file, a part a line.
        here: tells which parts of before count.
        is_small: whether the program is only tried.
        stop_at: no part is begun that would not end by then, by ``clock``.
        clock: seconds.

    Attributes:
        used: the parts that were asked for, in this order.
    """

    def __init__(
        self,
        path: Path,
        here: Counting,
        *,
        is_small: bool,
        stop_at: float = inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.used: list[Part] = []
        self._path, self._is_small, self._stop_at, self._clock = path, is_small, stop_at, clock
        self.known = [each for each in read_parts(path) if each.is_small is is_small
                      and each.where == here.where and here.counts(each)]  # fmt: skip
        self._kept = {each.case: each for each in self.known if each.is_kept}

    def __call__(self, name: str, seconds: float, measure: Callable[[], Facts]) -> Facts:
        """Return the kept result of a part, or measure the part now.

        Raises:
            NoTimeLeft: it would not end before the deadline.
            PartFailed: it failed.
        """
        if name not in self._kept:
            if self._clock() + seconds > self._stop_at:
                raise NoTimeLeft(f"{name}, about {seconds:.0f} s")
            tell(f"{name}: about {seconds:.0f} s")
            self._kept[name] = self._measured(name, measure)
        self.used.append(self._kept[name])
        return self._kept[name].facts

    def _measured(self, name: str, measure: Callable[[], Facts]) -> Part:
        machine = environment()["machine"]
        part = Part(name, is_small=self._is_small, commit=commit(), machine=machine)
        part.at = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            part.facts = json.loads(json.dumps(measure()))
        except FAILURES as error:
            part.error = f"{type(error).__name__}: {error}"
            self._keep(part)
            raise PartFailed(f"{name}: {part.error}") from error
        self._keep(part)
        return part

    def _keep(self, part: Part) -> None:
        append(self._path, part)
        self.known.append(part)


def run_program(
    files: Files,
    *,
    small: bool,
    report: bool,
    plan: bool,
    since: str | None,
    seconds: float = inf,
    run: Callable[..., Result] | None = None,
    find_lines: Callable[[str, Parts, bool], Mapping[str, Facts]] = accuracies,
) -> None:
    """Measure what is left of a program, or only show its last result.

    Args:
        files: where parts are kept, and results go.
        small: the program is only tried. report: show what is kept. plan: print what is next.
        since: a commit from which on all parts count.
        seconds: until the deadline.
        run: the program; None: the one of ``PROGRAMS`` that has the name of the files.
        find_lines: measures the lines of a program, each by itself; also told ``small``.

    Raises:
        typer.BadParameter: there is nothing to show.
        typer.Exit: a number is missed, a part failed, or the program was interrupted.
    """
    if report:
        if not files.table.exists():
            raise typer.BadParameter(f"there is no {files.table}; {NO_RUN}")
        print(files.table.read_text("utf-8"))
        return
    here = Checkout(since, measured_by(files.name))
    stop_at = 0.0 if plan else time.time() + seconds
    parts = KeptParts(files.raw, here, is_small=small, stop_at=stop_at)
    try:
        lines = find_lines(files.name, parts, small)
        result = (run or PROGRAMS[files.name])(small, part=parts)
    except KeyboardInterrupt:
        tell("interrupted; the same command goes on")
        raise typer.Exit(130) from None
    except NoTimeLeft as left:
        tell(f"{files.name}: parts kept so far: {len(parts.used)}; the next one is {left}")
        if not plan:
            tell("  not begun, the deadline comes first; run the command again")
        return
    except PartFailed as error:
        tell(f"{files.name} failed: {error}; the same command tries it again")
        raise typer.Exit(1) from None
    if not plan:
        _write(files, result, lines, parts, small)
    print(_text(result, lines, made_good(parts.known)))
    if result.met is False:
        raise typer.Exit(1)


def _write(
    files: Files, result: Result, lines: Mapping[str, Facts], parts: KeptParts, is_small: bool
) -> None:
    summary = {
        "commits": sorted({part.commit for part in parts.used}) or [commit()],
        "machines": sorted({part.where for part in parts.used}),
        "from": min((part.at for part in parts.used), default=""),
        "to": max((part.at for part in parts.used), default=""),
        "is_small": is_small,
        **result.facts,
        "claim": result.claim,
        "met": result.met,
        "columns": result.columns,
        "rows": result.rows,
        "lines_themselves": lines,
        "made_good": made_good(parts.known),
    }
    replace_file(files.summary, json.dumps(summary, indent=1) + "\n")
    replace_file(files.table, _text(result, lines, made_good(parts.known)))
    tell(f"written: {files.summary}, {files.table}")


def _text(result: Result, lines: Mapping[str, Facts], sentences: Sequence[str]) -> str:
    console = Console(file=StringIO(), width=400)
    if lines:
        title = "The lines themselves, by a raw socket"
        print_titled(console, title, FOUND_COLUMNS, accuracy_rows(lines))
    print_result(result, console)
    for sentence in sentences:
        console.print(sentence, markup=False, soft_wrap=True)
    return str(console.file.getvalue())  # type: ignore[attr-defined]
