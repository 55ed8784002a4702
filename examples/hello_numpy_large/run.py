"""Run the job: a server and its clients as processes of this machine, every element checked.

``python run.py`` takes seconds; ``python run.py --full --compress zstd`` is the published job, 64
arrays of 2 GB.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import weights
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

import streamlink
from streamlink.config import parse_size
from streamlink.fleet import Fleet

HERE = Path(__file__).resolve().parent
PATTERN_SHRINKS_TO = 0.0052  # the most that was measured, with keys of 1 MB; README.md has more
RESERVE_BYTES = 1 << 30


def main(
    keys: Annotated[int, typer.Option(help="Number of arrays.")] = 64,
    key_size: Annotated[str, typer.Option(help="Size of each: 16MB (decimal), 16MiB.")] = "16MB",
    clients: Annotated[int, typer.Option(help="Number of clients.", min=1, max=64)] = 2,
    rounds: Annotated[int, typer.Option(help="Number of rounds.", min=1)] = 3,
    kind: Annotated[
        str, typer.Option("--weights", help="pattern (compresses well) or random (does not).")
    ] = "pattern",
    store: Annotated[
        Path | None, typer.Option(help="Directory for the model; default: a temporary one.")
    ] = None,
    compress: Annotated[str, typer.Option(help="none (safetensors) or zstd.")] = "none",
    report: Annotated[Path | None, typer.Option(help="Write the report here, as JSON.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The published size: 64 arrays of 2GB.")
    ] = False,
) -> None:
    """Run the job and print a table; exit code 1 where the result is not exactly right."""
    if full:
        keys, key_size = 64, "2GB"
    try:
        check_choices(kind, compress)
        weights.expected_shift([range(clients)] * rounds)  # refuses what would have no exact result
        model_bytes = weights.spec(keys, parse_size(key_size)).nbytes
        with place_for(store) as place:
            check_disk(place, model_bytes, kind, compress)
            size = ["--keys", str(keys), "--key-size", key_size]
            choices = ["--weights", kind, "--compress", compress]
            rules = ["--clients", str(clients), "--rounds", str(rounds)]
            server = [*script("server.py"), "--store", str(place / "model")]
            told = run([*server, *size, *choices, *rules], clients)
    except (ValueError, OSError, streamlink.StreamlinkError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        typer.echo("stopped; every process has ended", err=True)
        raise typer.Exit(130) from None
    facts = {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "model_bytes": model_bytes,
        "keys": keys,
        "clients": clients,
        "rounds": rounds,
        "weights": kind,
        "compress": compress,
        **told,
        "stored_share": round(told["stored_bytes"] / model_bytes, 5) if model_bytes else 1.0,
    }
    show(Console(highlight=False), facts)
    if report is not None:
        report.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(0 if facts["verified"] else 1)


def run(server: list[str], clients: int) -> dict[str, Any]:
    """Run server and clients to the end; return what the server told, and what each one took."""
    fleet = Fleet()
    try:
        fleet.run(
            server,
            lambda port: [
                (name, [*script("client.py"), "--server", f"127.0.0.1:{port}", "--name", name])
                for name in (f"site-{number + 1}" for number in range(clients))
            ],
        )
    except streamlink.StreamlinkError:
        # A server that found a wrong element has failed, and still has everything to tell.
        if not fleet.members or "verified" not in fleet.members[0].facts:
            raise
    told = {k: v for k, v in fleet.members[0].facts.items() if k not in ("port", "has_ended")}
    return {**told, "processes": [member.report() for member in fleet.members]}


def script(name: str) -> list[str]:
    """Return the command that runs a script that stands beside this one."""
    return [sys.executable, str(HERE / name)]


# --- before the job ---------------------------------------------------------


@contextmanager
def place_for(store: Path | None) -> Iterator[Path]:
    """Give the directory the user named, which is kept, or a temporary one."""
    if store is not None:
        store.mkdir(parents=True, exist_ok=True)
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="streamlink-hello-") as folder:
        yield Path(folder)


def check_choices(kind: str, compress: str) -> None:
    """Raise ValueError for a choice that is none."""
    if kind not in weights.KINDS:
        raise ValueError(f"--weights must be one of {', '.join(weights.KINDS)}, not {kind!r}")
    if compress not in ("none", "zstd"):
        raise ValueError(f"--compress must be none or zstd, not {compress!r}")


def check_disk(place: Path, model_bytes: int, kind: str, compress: str) -> None:
    """Say what the job needs on disk, and stop before it starts where that is not there."""
    shrinks_to = PATTERN_SHRINKS_TO if (kind, compress) == ("pattern", "zstd") else 1.0
    needed = int(2 * model_bytes * shrinks_to) + RESERVE_BYTES
    free = shutil.disk_usage(place).free
    typer.echo(
        f"model: {size_of(model_bytes)}; on disk, old and new one: {size_of(needed)} with a "
        f"reserve\nstore: {place}, {size_of(free)} free"
    )
    if free < needed:
        raise ValueError(
            f"{needed - free} bytes too few at {place}; name another --store, make the model "
            "smaller, or use --weights pattern --compress zstd"
        )


def commit() -> str:
    """Return which commit this is, with -dirty where files were changed since."""
    command = ["git", "-C", str(HERE), "describe"]
    command += ["--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# --- after it ---------------------------------------------------------------


def show(console: Console, facts: dict[str, Any]) -> None:
    """Print the result: lines of at most 80 columns, then what each process took."""
    moved = facts["wire_bytes_sent"] + facts["wire_bytes_received"]
    rate = moved / max(facts["seconds"], 1e-9)
    seconds = ", ".join(f"{each:.1f}" for each in facts["rounds_seconds"])
    console.print("[green]verified[/]" if facts["verified"] else "[red]WRONG[/]", end=": ")
    console.print(facts["verdict"], markup=False)
    console.print(f"rounds:  {facts['rounds']} in {facts['seconds']:.1f} s ({seconds})")
    carriers = " and ".join(facts["carried_bytes"])
    console.print(
        f"wire:    {size_of(moved)} both ways together, {size_of(rate)}/s over {carriers}"
    )
    console.print(
        f"stored:  {size_of(facts['stored_bytes'])}, {facts['stored_share']:.2%} of the model"
    )
    console.print(f"digest:  {facts['final_digest']}")
    table = Table("process")
    for heading in ("base MiB", "peak MiB", "peak over base", "over base / model", "CPU s"):
        table.add_column(heading, justify="right")
    for each in facts["processes"]:
        base, peak = each["base_rss_bytes"], each["peak_rss_bytes"]
        over = peak - base
        share = f"{over / facts['model_bytes']:.1%}" if facts["model_bytes"] else ""
        mib = (f"{number / 2**20:.0f}" for number in (base, peak, over))
        table.add_row(each["name"], *mib, share, f"{each['cpu_seconds']:.1f}")
    # As wide as it is: where a terminal is narrower it folds the lines, and no figure is cut.
    anything = console.options.update(max_width=1 << 16)
    table.width = Measurement.get(console, anything, table).maximum
    console.print(table, crop=False)


def size_of(nbytes: float) -> str:
    """Return a size as people say it: 1.02 GB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if nbytes >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes / 1e3:.2f} kB"


if __name__ == "__main__":
    typer.run(main)
