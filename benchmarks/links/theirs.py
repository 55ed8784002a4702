"""NVIDIA FLARE's own transfer benchmarks, run unchanged, beside streamlink with as many bytes.

``python -m benchmarks.links theirs --nvflare REPOSITORY``, where REPOSITORY is a clone of NVIDIA
FLARE's. Its scripts are read from there, at a tag, and run over loopback with the package that the
integrations use (``their_scripts.py``). Beside the byte stream, streamlink moves a computed model,
which is hashed, too; beside the tensors, as many arrays from memory to memory. Nothing of theirs is
in this repository. It is a program as those of ``programs``; its parts are turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.integrations.environments import PINS, build
from benchmarks.links.cases import Case
from benchmarks.links.lines import LOOPBACK
from benchmarks.links.measuring import measure
from benchmarks.links.their_scripts import BENCHES, STREAM, TAG, TENSORS, Bench, run_bench
from benchmarks.parts import Facts, Parts
from benchmarks.stats import Result
from benchmarks.tables import report_progress

__all__ = ["MODULES", "NAME", "OUTPUT", "THEIR_COLUMNS", "TITLE", "TURNS", "TURN_SECONDS",
           "read_theirs", "run", "their_rows"]  # fmt: skip

MIB = 1 << 20
NAME = "theirs"
OUTPUT = f"{NAME}.json"
TITLE = "NVIDIA FLARE's own benchmarks beside streamlink"
THEIR_COLUMNS = ("what", "bytes", "runs", "seconds", "MB/s", "÷ streamlink's time")
SIZES = {STREAM.script: 4096 * MIB, TENSORS.script: 1024 * MIB}
SMALL_BYTES = 16 * MIB
TURNS = 3
TURN_SECONDS = 60.0
MODULES = (__name__, "benchmarks.links.peers.ours", "benchmarks.links.peers.ours_computed")
"""The modules whose files, with what they import, decide whether a kept turn still counts."""


def run(quick: bool, part: Parts, scripts: Path) -> Result:
    """Run both benchmarks in three turns each, beside streamlink (quick: 16 MiB, one turn).

    Args:
        quick: whether it is only tried.
        part: measures a turn.
        scripts: a folder with their scripts; gets the checkpoint that they send, too.
    """
    benches = [_benched(bench, quick, part, scripts) for bench in BENCHES]
    facts = {"tag": TAG, "package": PINS["nvflare"].framework, "benches": benches}
    return Result(NAME, TITLE, THEIR_COLUMNS, tuple(their_rows(facts)), facts)


def read_theirs(folder: Path) -> dict[str, Any] | None:
    """Return what was kept in a folder of results; None: nothing, or it was only tried."""
    path = folder / OUTPUT
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    # A file of an earlier version does not say that it was no trial.
    return found if found and not found.get("is_small", False) else None


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


def _benched(bench: Bench, quick: bool, part: Parts, scripts: Path) -> Facts:
    nbytes, count = (SMALL_BYTES, 1) if quick else (SIZES[bench.script], TURNS)
    turns = [
        part(f"{bench.script}, turn {number} of {count}", TURN_SECONDS,
             partial(_turn, bench, scripts, nbytes))
        for number in range(1, count + 1)
    ]  # fmt: skip
    return {"script": bench.script, "nbytes": nbytes, "ours": bench.ours,
            "seconds": _by_way(turns)}  # fmt: skip


def _by_way(turns: Sequence[Facts]) -> dict[str, list[float]]:
    return {name: [turn["seconds"][name] for turn in turns] for name in turns[0]["seconds"]}


def _turn(bench: Bench, scripts: Path, nbytes: int) -> Facts:
    """Return the seconds of each way, ours first."""
    python = build("nvflare", report_progress)
    seconds = {bench.ours: _ours(bench, nbytes)}
    for name, options in bench.ways.items():
        report_progress(f"  {name}")
        seconds[f"NVFlare's own: {name}"] = run_bench(bench, python, scripts, nbytes, options)
    return {"seconds": seconds}


def _ours(bench: Bench, nbytes: int) -> float:
    found = measure(Case(bench.ours, LOOPBACK, bench.payload(nbytes)))
    if found.error:
        raise OSError(found.error)
    return found.seconds
