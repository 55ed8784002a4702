"""NVIDIA FLARE's own transfer benchmarks, run unchanged, beside streamlink with as many bytes.

``python -m benchmarks.links.theirs REPOSITORY``, where REPOSITORY is a clone of NVIDIA FLARE's. Its
scripts are read from there, at a tag, and run over loopback with the package that the integrations
use (``their_scripts.py``). Beside the byte stream, streamlink moves a computed model, which is
hashed, too; beside the tensors, as many arrays from memory to memory. Nothing of theirs is in this
repository.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.integrations.environments import PINS, BrokenEnvironment, NoEnvironment, build
from benchmarks.links.cases import Case
from benchmarks.links.kept import RESULTS
from benchmarks.links.lines import LOOPBACK
from benchmarks.links.measuring import measure
from benchmarks.links.their_scripts import STREAM, TAG, TENSORS, Bench, checked_out, run_bench
from benchmarks.stats import environment
from benchmarks.tables import print_table, report_progress

__all__ = ["OUTPUT", "THEIR_COLUMNS", "TITLE", "main", "read_theirs", "their_rows"]

MIB = 1 << 20
OUTPUT = "theirs.json"
TITLE = "NVIDIA FLARE's own benchmarks beside streamlink"
THEIR_COLUMNS = ("what", "bytes", "runs", "seconds", "MB/s", "÷ streamlink's time")


def read_theirs(folder: Path) -> dict[str, Any] | None:
    """Return what was kept in a folder of results; None: nothing."""
    path = folder / OUTPUT
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def their_rows(facts: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """Return a row of text for each way, ours first; none where nothing was kept."""
    if facts is None:
        return []
    return [row for bench in facts["benches"] for row in _rows_of(bench)]


def _rows_of(bench: Mapping[str, Any]) -> list[tuple[str, ...]]:
    nbytes, ours = bench["nbytes"], median(bench["seconds"][bench["ours"]])
    return [(name, str(nbytes), str(len(each)), f"{median(each):.2f}",
             f"{nbytes / median(each) / 1e6:.0f}", f"{median(each) / ours:.2f}")
            for name, each in bench["seconds"].items()]  # fmt: skip


def _ours(bench: Bench, nbytes: int) -> float:
    run = measure(Case(bench.ours, LOOPBACK, bench.payload(nbytes)))
    if run.error:
        raise OSError(run.error)
    return run.seconds


def _measured(
    bench: Bench, python: Path, scripts: Path, nbytes: int, runs: int
) -> dict[str, list[float]]:
    """Return the seconds of each way, ours first, all in turn."""
    seconds: dict[str, list[float]] = {}
    for number in range(runs):
        report_progress(f"{bench.script}, {nbytes} bytes: run {number + 1} of {runs}")
        seconds.setdefault(bench.ours, []).append(_ours(bench, nbytes))
        for name, options in bench.ways.items():
            one = run_bench(bench, python, scripts, nbytes, options)
            seconds.setdefault(f"NVFlare's own: {name}", []).append(one)
    return seconds


def main(
    repository: Annotated[Path, typer.Argument(help="A clone of NVIDIA FLARE's repository.")],
    tag: Annotated[str, typer.Option(help="Tag or commit of its benchmarks.")] = TAG,
    stream_mib: Annotated[int, typer.Option(min=1, help="Size of the byte stream, MiB.")] = 4096,
    model_mib: Annotated[int, typer.Option(min=1, help="Size of the tensors, MiB.")] = 1024,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each, in turn.")] = 3,
    output: Annotated[
        Path, typer.Option("--json", help="Everything goes there; `peers` shows it from there.")
    ] = RESULTS / OUTPUT,
) -> None:
    """Run NVIDIA FLARE's benchmarks and streamlink in turn; print a table, keep the figures."""
    facts = {**environment(), "tag": tag, "package": PINS["nvflare"].framework, "benches": []}
    with tempfile.TemporaryDirectory() as folder:
        scripts = Path(folder)
        try:
            checked_out(repository, tag, scripts)
            python = build("nvflare", report_progress)
            for bench, mib in ((STREAM, stream_mib), (TENSORS, model_mib)):
                seconds = _measured(bench, python, scripts, mib * MIB, runs)
                facts["benches"].append({"script": bench.script, "nbytes": mib * MIB,
                                         "ours": bench.ours, "seconds": seconds})  # fmt: skip
        except (OSError, NoEnvironment, BrokenEnvironment) as error:
            raise typer.BadParameter(str(error)) from None
    print_table(Console(), THEIR_COLUMNS, their_rows(facts))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    report_progress(f"written: {output}; python -m benchmarks.links peers --report shows it, too")


if __name__ == "__main__":
    typer.run(main)
