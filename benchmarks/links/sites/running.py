"""Runs the two-site job once: a server, a line for each client, the clients, and their use."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.links.places import Place, opened
from benchmarks.links.sites import weights
from benchmarks.links.sites.cases import (
    CLIENTS,
    SERVER,
    Look,
    Probed,
    SiteCase,
    SiteRun,
    Used,
    Way,
)
from benchmarks.links.sites.probing import settings_of
from benchmarks.processes import Sample, Sampler, Usage, Worker, WorkerFailed
from benchmarks.stats import commit, environment

__all__ = ["limit_seconds", "run_case", "thinned"]

DUPLEX_BYTES = 64 << 20
START_SECONDS = 300.0
LOOK_SECONDS = 0.05
MOST_LOOKS = 240
"""In a picture, of each process."""
SLOWEST_BYTES_PER_SECOND = 10e6
"""What client and server do with a model beside the line may be slow, but not slower than this."""


def limit_seconds(case: SiteCase) -> float:
    """Return how long the rounds may take: six times what lines and machine allow, and a minute."""
    alone = 2 * max(case.line(name).seconds(case.nbytes) for name in CLIENTS)
    return 60.0 + 6 * case.rounds * (alone + case.nbytes / SLOWEST_BYTES_PER_SECOND)


def run_case(case: SiteCase, probed: dict[str, Probed]) -> SiteRun:
    """Run the job once, with the settings that the probe has proposed.

    What fails is in the run's ``error``: the others go on.
    """
    run = SiteRun(case, probed=probed, **_facts())
    run.at = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with tempfile.TemporaryDirectory(prefix="streamlink-sites-") as name:
            _run(run, Path(name))
    except (OSError, ValueError, WorkerFailed) as error:
        run.error = f"{type(error).__name__}: {error}"
    return run


@lru_cache
def _facts() -> dict[str, Any]:
    """Return commit and machine; they are those of the start of the series."""
    return {"machine": environment()["machine"], "commit": commit()}


def _run(run: SiteRun, folder: Path) -> None:
    case = run.case
    weights.write(case, folder / "model")
    (folder / "spool").mkdir()
    with ExitStack() as stack:
        server = stack.enter_context(_server(run, folder))
        number = int(server.expect("listening", timeout_seconds=START_SECONDS)["number"])
        places = {name: stack.enter_context(opened(case.line(name))) for name in CLIENTS}
        clients = {name: stack.enter_context(_client(run, name, place, number))
                   for name, place in places.items()}  # fmt: skip
        for each in clients.values():
            each.expect("joined", timeout_seconds=START_SECONDS)
        server.expect("ready", timeout_seconds=START_SECONDS)
        _go(run, {SERVER: server, **clients}, places)
    if wrong := weights.count_wrong_bytes(case, folder / "model"):
        raise WorkerFailed(f"{wrong} bytes of the final model are not what the rounds should give")


def _server(run: SiteRun, folder: Path) -> Worker:
    variant = run.case.variant
    rules: dict[str, Any] = {
        "min_clients": len(CLIENTS),
        "num_rounds": run.case.rounds,
        "gather": variant.gather,
        "duplex_bytes": DUPLEX_BYTES if variant.duplex else 0,
    }
    facts = {"folder": str(folder), "rules": rules}
    facts["settings"] = settings_of(run.probed, None, variant.encoding)
    return Worker("benchmarks.links.sites.bodies:serve", facts, name=SERVER)


def _client(run: SiteRun, name: str, place: Place, number: int) -> Worker:
    host, reached = place.reach(number, has_data_port=True)
    facts = {
        "address": f"{host}:{reached}",
        "name": name,
        "settings": settings_of(run.probed, name, run.case.variant.encoding),
        "kind": run.case.variant.executor,
        "added": float(weights.ADDED[name]),
        "has_room": run.case.variant.duplex,
    }
    return Worker("benchmarks.links.sites.bodies:client", facts, name=name)


def _go(run: SiteRun, workers: Mapping[str, Worker], places: Mapping[str, Place]) -> None:
    before = {name: _passed(place) for name, place in places.items()}
    pids = {name: each.pid for name, each in workers.items()}
    with Sampler(pids, interval_seconds=LOOK_SECONDS) as sampler:
        workers[SERVER].tell("go")
        ran = workers[SERVER].expect("ran", timeout_seconds=limit_seconds(run.case))
        left = {name: workers[name].expect("left") for name in CLIENTS}
    run.wire_bytes = {name: _passed(place) - before[name] for name, place in places.items()}
    run.round_seconds, run.seconds = ran["round_seconds"], sum(ran["round_seconds"])
    run.peak_bytes = ran["peak_bytes"]
    run.ways = [Way(**way) for name in CLIENTS for way in left[name]["ways"]]
    for name, worker in workers.items():
        run.used[name] = _used(worker.finish(), sampler.samples(name))
    if any(each != sorted(CLIENTS) for each in ran["clients"]):
        raise WorkerFailed(f"a round was without a client: {ran['clients']}")


def _passed(place: Place) -> int:
    passed = place.passed()
    return passed.both if passed is not None else 0


def _used(usage: Usage, samples: tuple[Sample, ...]) -> Used:
    return Used(usage.base_rss_bytes, usage.peak_rss_bytes, usage.cpu_seconds, thinned(samples))


def thinned(samples: tuple[Sample, ...], most: int = MOST_LOOKS) -> tuple[Look, ...]:
    """Return at most ``most`` looks, evenly; each has the most memory of those it stands for."""
    step = -(-len(samples) // most) or 1
    groups = [samples[at : at + step] for at in range(0, len(samples), step)]
    return tuple(
        Look(round(group[-1].at, 3), max(each.rss_bytes for each in group), group[-1].cpu_seconds)
        for group in groups
    )
