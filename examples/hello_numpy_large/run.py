"""Run the job: a server and its clients as processes of this machine, three rounds, every element checked.

``python run.py`` takes about a minute; ``python run.py --full --compress zstd`` is the published job,
64 arrays of 2 GB.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import weights
from rich.console import Console
from rich.table import Table

import streamlink

HERE = Path(__file__).resolve().parent
PATTERN_SHRINKS_TO = 0.02  # zstd level 1; see README.md for what was measured
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
    full: Annotated[bool, typer.Option("--full", help="The published size: 64 of 2GB.")] = False,
) -> None:
    """Run the job and print a table; exit code 1 where the result is not exactly right."""
    if full:
        keys, key_size = 64, "2GB"
    console = Console()
    try:
        _check_choices(kind, compress)
        model_bytes = weights.spec(keys, streamlink.parse_size(key_size)).nbytes
        with _place(store) as place:
            _check_disk(console, Path(place), model_bytes, kind, compress)
            size = ["--keys", str(keys), "--key-size", key_size]
            server = [
                *_script("server.py"), *size, "--store", str(Path(place) / "model"),
                "--clients", str(clients), "--rounds", str(rounds),
                "--weights", kind, "--compress", compress,
            ]  # fmt: skip
            facts = run(server, clients, model_bytes, keys, rounds)
    except (ValueError, streamlink.StreamlinkError) as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        console.print("stopped; every process has ended")
        raise typer.Exit(130) from None
    _print(console, facts)
    if report is not None:
        report.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(0 if facts["verified"] else 1)


def run(
    server: list[str], clients: int, model_bytes: int, keys: int, rounds: int
) -> dict[str, Any]:
    """Run server and clients to the end and return the report."""
    fleet = streamlink.Fleet()
    head = fleet.run(
        server,
        lambda port: [
            (f"site-{n}", [*_script("client.py"), "--server", f"127.0.0.1:{port}", "--name", f"site-{n}"])
            for n in range(1, clients + 1)
        ],
    )  # fmt: skip
    told = {k: v for k, v in head.facts.items() if k not in ("port", "has_ended")}
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "model_bytes": model_bytes,
        "keys": keys,
        "clients": clients,
        "rounds": rounds,
        **told,
        "processes": [member.report() for member in fleet.members],
    }


def _script(name: str) -> list[str]:
    return [sys.executable, str(HERE / name)]


def _place(store: Path | None) -> Any:
    if store is None:
        return tempfile.TemporaryDirectory(prefix="streamlink-hello-")
    store.mkdir(parents=True, exist_ok=True)
    return _Kept(store)


class _Kept:
    """A directory the user named: used as it is, and kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        return str(self._path)

    def __exit__(self, *_: object) -> None:
        return None


def _check_choices(kind: str, compress: str) -> None:
    if kind not in weights.KINDS:
        raise ValueError(f"--weights must be one of {', '.join(weights.KINDS)}, not {kind!r}")
    if compress not in ("none", "zstd"):
        raise ValueError(f"--compress must be none or zstd, not {compress!r}")


def _check_disk(
    console: Console, place: Path, model_bytes: int, kind: str, compress: str
) -> None:
    """Say what the job needs on disk, and stop before it starts where that is not there."""
    shrinks_to = PATTERN_SHRINKS_TO if (kind, compress) == ("pattern", "zstd") else 1.0
    needed = int(2 * model_bytes * shrinks_to) + RESERVE_BYTES
    free = shutil.disk_usage(place).free
    console.print(
        f"model {model_bytes / 1e9:.2f} GB; the old and the new one need {needed / 1e9:.1f} GB at "
        f"{place}, {free / 1e9:.1f} GB are free",
        highlight=False,
    )
    if free < needed:
        raise ValueError(
            f"{needed - free} bytes too few at {place}; name another --store, make the model "
            "smaller, or use --weights pattern --compress zstd"
        )


def _commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _print(console: Console, facts: dict[str, Any]) -> None:
    moved = facts["wire_bytes_sent"] + facts["wire_bytes_received"]
    verdict = "[green]verified[/]" if facts["verified"] else "[red]WRONG[/]"
    seconds = ", ".join(f"{each:.1f}" for each in facts["rounds_seconds"])
    console.print(f"{verdict}: {facts['verdict']}", highlight=False)
    console.print(
        f"{facts['rounds']} rounds in {facts['seconds']:.1f} s ({seconds}), {moved / 1e9:.2f} GB on "
        f"the wire, {moved / 1e6 / max(facts['seconds'], 1e-9):.0f} MB/s in all directions",
        highlight=False,
    )
    table = Table("process", "base MiB", "peak MiB", "peak over base", "CPU s")
    for each in facts["processes"]:
        base, peak = each["base_rss_bytes"] / 2**20, each["peak_rss_bytes"] / 2**20
        table.add_row(
            each["name"], f"{base:.0f}", f"{peak:.0f}", f"{peak - base:.0f}",
            f"{each['cpu_seconds']:.1f}",
        )  # fmt: skip
    console.print(table)
    console.print(f"model {facts['model_bytes'] / 2**20:.0f} MiB, digest {facts['final_digest']}")


if __name__ == "__main__":
    typer.run(main)
