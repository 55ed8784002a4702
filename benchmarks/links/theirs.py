"""NVIDIA FLARE's own streaming benchmark, run unchanged, beside streamlink with as many bytes.

``python -m benchmarks.links.theirs REPOSITORY``, where REPOSITORY is a clone of NVIDIA FLARE's. Its
``dev_tools/f3/cellnet_bench.py`` is read from there, at a tag, and run with the package that the
peers use: a receiver and a sender over loopback, TCP driver, bytes that are made as they are sent
and dropped where they arrive. streamlink moves a computed model beside it, which is hashed, too.
Nothing of theirs is in this repository.
"""

from __future__ import annotations

import json
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.links.cases import Case
from benchmarks.links.kept import RESULTS
from benchmarks.links.lines import LOOPBACK
from benchmarks.links.measuring import measure, python_of
from benchmarks.links.payload import Payload
from benchmarks.links.peers import found
from benchmarks.links.plans import COMPUTED
from benchmarks.links.ports import free_port
from benchmarks.stats import environment
from benchmarks.tables import print_table, report_progress

__all__ = ["BENCH", "OUTPUT", "THEIR_COLUMNS", "TITLE", "main", "read_theirs", "run_theirs",
           "script_of", "seconds_of", "their_rows"]  # fmt: skip

BENCH = "dev_tools/f3/cellnet_bench.py"
TAG = "2.9.0dev0"  # the newest tag that has it; the package that runs it is 2.9.0
GIB = 1 << 30
WAIT_SECONDS = 120.0
SLOWEST_BYTES_PER_SECOND = 20e6
WAYS = {"byte stream": ("--reliable", "false"), "reliable byte stream": ("--reliable", "true")}
OUTPUT = "theirs.json"
TITLE = "NVIDIA FLARE's own benchmark beside streamlink"
THEIR_COLUMNS = ("what", "runs", "seconds", "MB/s", "÷ streamlink's time")
_DONE = re.compile(r"DONE: ([\d,]+) bytes in ([\d,.]+) seconds .* OK$")


def script_of(repository: Path, tag: str) -> str:
    """Return the benchmark's text at a tag of a clone, bare or not.

    Raises:
        OSError: it has no such tag or file; git's words say why.
    """
    words = ["git", "-C", str(repository), "show", f"{tag}:{BENCH}"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"no {BENCH} at {tag} in {repository}: {done.stderr.strip()}")
    return done.stdout


def run_theirs(python: Path, script: Path, nbytes: int, options: tuple[str, ...]) -> float:
    """Run the benchmark's receiver and its sender once; returns the receiver's seconds.

    Raises:
        OSError: one of them failed, or did not end in time.
    """
    url = f"tcp://127.0.0.1:{free_port('127.0.0.1')}"
    command = [str(python), "-u", str(script)]
    with subprocess.Popen([*command, "recv", "--url", url], stdout=subprocess.PIPE) as receiver:
        try:
            _line(receiver, lambda text: "listening" in text, WAIT_SECONDS)
            size = ("--size-gb", repr(nbytes / GIB))
            limit = WAIT_SECONDS + nbytes / SLOWEST_BYTES_PER_SECOND
            subprocess.run([*command, "send", "--url", url, *size, *options], check=True,
                           stdout=subprocess.DEVNULL, timeout=limit)  # fmt: skip
            return seconds_of(_line(receiver, lambda text: "DONE" in text, WAIT_SECONDS), nbytes)
        except subprocess.SubprocessError as error:
            raise OSError(f"its sender failed: {error}") from error
        finally:
            receiver.kill()


def seconds_of(line: str, nbytes: int) -> float:
    """Return the seconds of the receiver's last line.

    Raises:
        OSError: it did not get all bytes.
    """
    match = _DONE.search(line)
    if match is None or int(match[1].replace(",", "")) != nbytes:
        raise OSError(f"its receiver got something else than {nbytes} bytes: {line}")
    return float(match[2].replace(",", ""))


def _line(process: subprocess.Popen[bytes], is_it: Callable[[str], bool], seconds: float) -> str:
    """Return the first line that is meant, of what a process prints."""
    assert process.stdout is not None
    give_up_at = time.monotonic() + seconds
    while (left := give_up_at - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        text = process.stdout.raw.readline().decode(errors="replace").strip()  # type: ignore[attr-defined]
        if not text:
            break
        if is_it(text):
            return str(text)
    raise OSError("its receiver has ended, or says nothing")


def read_theirs(folder: Path) -> dict[str, Any] | None:
    """Return what was kept in a folder of results; None: nothing."""
    path = folder / OUTPUT
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def their_rows(facts: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """Return a row of text for each way, ours first; none where nothing was kept."""
    if facts is None:
        return []
    nbytes, ours = facts["nbytes"], median(facts["seconds"][COMPUTED])
    return [(name, str(len(each)), f"{median(each):.2f}", f"{nbytes / median(each) / 1e6:.0f}",
             f"{median(each) / ours:.2f}") for name, each in facts["seconds"].items()]  # fmt: skip


def _ours(nbytes: int) -> float:
    run = measure(Case(COMPUTED, LOOPBACK, Payload(nbytes, 16, "computed")))
    if run.error:
        raise OSError(run.error)
    return run.seconds


def _measured(python: Path, script: Path, nbytes: int, runs: int) -> dict[str, list[float]]:
    """Return the seconds of each way, ours first, all in turn."""
    seconds: dict[str, list[float]] = {}
    for number in range(runs):
        report_progress(f"run {number + 1} of {runs}")
        seconds.setdefault(COMPUTED, []).append(_ours(nbytes))
        for name, options in WAYS.items():
            one = run_theirs(python, script, nbytes, options)
            seconds.setdefault(f"NVFlare's own: {name}", []).append(one)
    return seconds


def main(
    repository: Annotated[Path, typer.Argument(help="A clone of NVIDIA FLARE's repository.")],
    tag: Annotated[str, typer.Option(help="Tag or commit of its benchmark.")] = TAG,
    size_gb: Annotated[float, typer.Option(min=0.01, help="Bytes to move, in GB.")] = 4.0,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each, in turn.")] = 3,
    output: Annotated[
        Path, typer.Option("--json", help="Everything goes there; `peers` shows it from there.")
    ] = RESULTS / OUTPUT,
) -> None:
    """Run NVIDIA FLARE's benchmark and streamlink in turn; print a table and keep the figures."""
    nbytes = int(size_gb * 100) * 10**7
    with tempfile.TemporaryDirectory() as folder:
        try:
            script = Path(folder, "cellnet_bench.py")
            script.write_text(script_of(repository, tag), encoding="utf-8")
            python = python_of(found()["NVFlare download service"][0], report_progress)
            seconds = _measured(python, script, nbytes, runs)
        except OSError as error:
            raise typer.BadParameter(str(error)) from None
    facts = {**environment(), "bench": f"{BENCH} at {tag}", "nbytes": nbytes, "seconds": seconds}
    print_table(Console(), THEIR_COLUMNS, their_rows(facts))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    report_progress(f"written: {output}; python -m benchmarks.links peers --report shows it, too")


if __name__ == "__main__":
    typer.run(main)
