"""``make fuzz``: hostile frames and connections, into the core and a live server, in full length.

Ends with status 1 where something came of a frame that is not promised, or stayed behind.
"""

from __future__ import annotations

import json
import logging
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.stats import environment
from streamlink.protocol.limits import MAX_WAITING_FRAMES
from tests.support.hostile_frames import CONFIG, FRAMES, Undocumented, fuzz_core
from tests.support.hostile_load import HostileLoad, load_server
from tests.support.hostile_messages import fuzz_messages
from tests.support.hostile_openings import fuzz_openings
from tests.support.hostile_port import HostilePort, load_port

MIB = 1 << 20
BATCH = 20_000
SAMPLED = 20_000
CORE_BYTES = 2 * (CONFIG.stream.stream_bytes + CONFIG.stream.max_spec_bytes)
CORE_BYTES += MAX_WAITING_FRAMES * 256
"""What the machines of one conversation may hold: at each end a stream and a description, and
answers that nobody has read."""
GROWTH_BYTES = 16 * MIB
"""What the process may keep of a core run: its allocator's arenas, the counters of outcomes."""


def run_core(count: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Feed ``count`` frames to machines and decoders; returns what there is to say of it."""
    peak = sampled_peak(seed)
    facts = _fed(fuzz_core, "frames", count, seed, progress)
    facts |= {"peak_bytes": peak, "peak_bound_bytes": CORE_BYTES}
    return {**facts, "is_held": facts["is_held"] and peak <= CORE_BYTES}


def run_port_parsers(count: int, seed: int, progress: Progress) -> list[dict[str, Any]]:
    """Feed what a data port parses, without a socket: half of it openings, half messages."""
    return [
        _fed(fuzz_openings, "openings", count // 2, seed, progress),
        _fed(fuzz_messages, "messages", count - count // 2, seed, progress),
    ]


def _fed(
    feed: Callable[[int, int], Counter[str]], name: str, count: int, seed: int, progress: Progress
) -> dict[str, Any]:
    bar = progress.add_task(f"{name} into parsers and machines", total=count)
    outcomes, began = Counter[str](), time.monotonic()
    feed(BATCH, seed)  # warm up
    before = psutil.Process().memory_info().rss
    while outcomes[name] < count:
        outcomes += feed(min(BATCH, count - outcomes[name]), seed + outcomes[name])
        progress.update(bar, completed=min(outcomes[name], count))
    grown = psutil.Process().memory_info().rss - before
    return {
        name: outcomes.pop(name),
        "seconds": round(time.monotonic() - began, 1),
        "grown_bytes": grown,
        "grown_bound_bytes": GROWTH_BYTES,
        "outcomes": dict(outcomes.most_common()),
        "is_held": grown <= GROWTH_BYTES,
    }


def sampled_peak(seed: int) -> int:
    """Return the most that Python's objects of a run took beyond what stays (bytes)."""
    fuzz_core(max(FRAMES.values()), seed)  # what is imported and cached on first use
    tracemalloc.start()
    try:
        fuzz_core(SAMPLED, seed)
        current, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - current


def run_live(count: int, seed: int, progress: Progress) -> HostileLoad:
    """Send ``count`` frames to a live server, with a client beside it that behaves."""
    bar = progress.add_task("frames into a live server", total=count)
    return load_server(count, seed, lambda done: progress.update(bar, completed=min(done, count)))


def run_port(count: int, seed: int, progress: Progress) -> HostilePort:
    """Make ``count`` hostile connections to a data port, with a client beside them."""
    bar = progress.add_task("connections to a live data port", total=count)
    return load_port(count, seed, lambda done: progress.update(bar, completed=min(done, count)))


def port_tables(parsed: list[dict[str, Any]], port: HostilePort) -> list[Table]:
    """Return what is shown of a data port."""
    bound = GROWTH_BYTES / MIB
    first = Table("into a data port's parsers", "figure", "bound")
    for facts in parsed:
        (name, count), *_ = facts.items()
        first.add_row(f"{name}, in seconds", f"{count:,} in {facts['seconds']:.0f}", "")
        first.add_row("process grew, MiB", f"{facts['grown_bytes'] / MIB:.1f}", f"{bound:.0f}")
    first.add_row("undocumented errors", "0", "0")
    second = Table("into a live data port", "figure", "bound")
    second.add_row("connections, of which proven", f"{port.connections:,}, {port.proven:,}", "")
    second.add_row("seconds", f"{port.seconds:.0f}", "")
    second.add_row("strangers that were answered", "0", "0")
    _add_leftovers(second, port)
    return [first, second]


def _facts(live: HostileLoad | HostilePort) -> dict[str, Any]:
    return {each: getattr(live, each) for each in live.__slots__}


def _add_leftovers(table: Table, live: HostileLoad | HostilePort) -> None:
    table.add_row("models of the client beside it", f"{live.rounds}, all right", "all")
    grown, bound = live.grown_bytes / MIB, live.bound_bytes / MIB
    table.add_row("process grew, MiB", f"{grown:.1f}", f"{bound:.0f}")
    table.add_row("threads left over", str(live.threads), "2")
    table.add_row("descriptors left over", str(live.files), "2")


def tables(core: dict[str, Any], live: HostileLoad) -> list[Table]:
    """Return what is shown of a run."""
    first = Table("into the core", "figure", "bound", title="hostile frames")
    first.add_row("frames", f"{core['frames']:,}", "")
    first.add_row("seconds", f"{core['seconds']:.0f}", "")
    first.add_row("undocumented errors", "0", "0")
    first.add_row("peak, KiB", f"{core['peak_bytes'] >> 10}", f"{CORE_BYTES >> 10}")
    grown, bound = core["grown_bytes"] / MIB, GROWTH_BYTES / MIB
    first.add_row("process grew, MiB", f"{grown:.1f}", f"{bound:.0f}")
    second = Table("into a live server", "figure", "bound")
    second.add_row("frames, in calls", f"{live.frames:,} in {live.calls:,}", "")
    second.add_row("seconds", f"{live.seconds:.0f}", "")
    _add_leftovers(second, live)
    return [first, second]


def main(
    frames: Annotated[
        int, typer.Option(help="Frames into the core, and what a data port parses.")
    ] = 1_000_000,
    live: Annotated[int, typer.Option(help="Frames into a live server.")] = 10_000,
    port: Annotated[int, typer.Option(help="Connections to a live data port.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here.")
    ] = None,
) -> None:
    """Send hostile frames and judge what becomes of them."""
    logging.disable(logging.CRITICAL)
    console = Console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        try:
            core = run_core(frames, seed, progress)
            load = run_live(live, seed, progress)
            parsed = run_port_parsers(frames, seed, progress)
            knocked = run_port(port, seed, progress)
        except Undocumented as error:
            console.print(f"[red]seed {seed}: {error}")
            raise typer.Exit(1) from error
    for table in (*tables(core, load), *port_tables(parsed, knocked)):
        console.print(table)
    if json_file is not None:
        facts = {"core": core, "live": _facts(load), "parsed": parsed, "port": _facts(knocked)}
        json_file.write_text(json.dumps({**environment(), "seed": seed, **facts}, indent=1))
    is_held = [core["is_held"], load.is_held, knocked.is_held, *(x["is_held"] for x in parsed)]
    if not all(is_held):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
