"""Two versions of streamlink at the large job's shape, in turn: has this one become slower?

``python -m benchmarks.versions OTHER_TREE`` runs the example of this tree and of another one, such
as a ``git worktree`` of an older commit: 64 arrays of 16 MB, two clients, three rounds, the model
stored with zstd, every element verified. Only the rounds are timed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.stats import Result, compare, print_result, summarize, write_json

__all__ = ["compared", "rate_of"]

GB = 10**9
PAIRS = 7
KEY_SIZE = "16MB"
HERE = Path(__file__).resolve().parents[1]
_SECONDS = 600.0


def compared(here: list[float], there: list[float], other: str) -> Result:
    """Return what may be said of rates (bytes per second) measured in turn.

    Met: this version is not slower by more than the spread of the pairs' own ratios.
    """
    found = compare("this version", here, other, there)
    return Result(
        name="versions",
        claim=f"the large job is not slower than at {other}, beyond the spread of the pairs",
        columns=("version", "GB/s, both ways, all clients", "ratio"),
        rows=(
            ("this", f"{summarize(here).median / GB:.2f}", str(found)),
            (other, f"{summarize(there).median / GB:.2f}", ""),
        ),
        facts={"here": here, "there": there, "ratios": list(found.ratios), "other": other},
        met=found.verdict != "slower",
    )


def rate_of(tree: Path) -> float:
    """Run the job in ``tree`` and return its aggregate rate (bytes per second).

    Raises:
        subprocess.CalledProcessError: it failed, or a model was not right.
    """
    with tempfile.TemporaryDirectory(prefix="streamlink-benchmark-") as folder:
        report = Path(folder) / "report.json"
        program = tree / "examples" / "hello_numpy_large" / "run.py"
        words = ["--key-size", KEY_SIZE, "--compress", "zstd", "--report", str(report)]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        command = [sys.executable, str(program), *words]
        subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, check=True, timeout=_SECONDS
        )
        facts = json.loads(report.read_text(encoding="utf-8"))
    moved = facts["wire_bytes_sent"] + facts["wire_bytes_received"]
    return float(moved / facts["seconds"])


def main(
    other_tree: Annotated[Path, typer.Argument(help="A checkout of the other version.")],
    pairs: Annotated[int, typer.Option(help="How many runs of each, in turn.")] = PAIRS,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything measured to this file.")
    ] = None,
) -> None:
    """Compare this version with another one; ends with status 1 where this one is slower."""
    named = ["git", "-C", str(other_tree), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(named, capture_output=True, text=True, check=True).stdout.strip()
    trees = {"here": HERE, "there": other_tree.resolve()}
    rates: dict[str, list[float]] = {"here": [], "there": []}
    for _ in track(range(pairs), "versions"):
        for name, tree in trees.items():
            rates[name].append(rate_of(tree))
    result = compared(rates["here"], rates["there"], commit)
    print_result(result, Console())
    if json_file is not None:
        write_json(json_file, [result])
    raise typer.Exit(0 if result.met else 1)


if __name__ == "__main__":
    typer.run(main)
