"""APPFL 1.12: its gRPC service, one server and its clients as processes of this machine."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink as sl
from benchmarks.integrations.cases import Case
from benchmarks.integrations.command import main
from benchmarks.integrations.inside import number_of
from benchmarks.integrations.running import CaseFailed, Running
from streamlink.model import GeneratedModel

__all__ = ["run"]

APP = "benchmarks.integrations.appfl_app"
LOST_SECONDS = 30.0  # how long a failure case waits for a client that is lost
Process = subprocess.Popen[bytes]


def run(running: Running) -> None:
    """Run the case to its end."""
    if running.case.line == "second":
        store_first_model(running.case, running.folder / "global")
    if running.case.failure is not None:
        FAILURES[running.case.failure](running)
        return
    server, sites = started(running)
    for site in sites:
        running.finish(site)
    finish(running, server)
    held = running.marks("ended", "server")[-1]["objects"]
    if held:
        raise CaseFailed(f"the server has {held} objects left")


def finish(running: Running, server: Process) -> None:
    """Wait for the server's end; without us it may abort in gRPC's threads after its last line."""
    status = running.end_of(server)
    if status and (running.case.line != "bare" or not running.marks("ended", "server")):
        raise CaseFailed(f"the server ended with status {status}")


def start_server(running: Running, port: int) -> Process:
    """Start the server; its object port is in the mark ``listening``."""
    timeout = LOST_SECONDS if running.case.failure else 3600.0
    program = [running.python, "-m", f"{APP}.server", port, running.folder, timeout]
    return running.start("server", program)


def start_sites(
    running: Running, port: int, relayed: int | None = None, env: dict[str, str] | None = None
) -> list[Process]:
    """Start all clients, once the server listens."""
    objects = relayed or running.until("listening", "server")["objects"] or 0
    return [
        running.start(
            f"site-{number}",
            [running.python, "-m", f"{APP}.client", f"127.0.0.1:{port}", f"127.0.0.1:{objects}",
             number],
            env=env if number == 1 else None,
        )
        for number in range(1, running.case.clients + 1)
    ]  # fmt: skip


def store_first_model(case: Case, folder: Path) -> None:
    """Write the first global model, window by window."""
    dtype = {"float32": "F32", "bfloat16": "BF16"}[case.dtype]
    length = case.size_bytes // case.arrays // (2 if dtype == "BF16" else 4)
    names = [f"layer_{number:04d}" for number in range(case.arrays)]
    spec = sl.ModelSpec(tuple(sl.TensorSpec(name, dtype, (length,)) for name in names))
    model = GeneratedModel(spec, first_range)
    sl.copy_model(model, sl.open_store(folder))


def first_range(tensor: sl.TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
    """Set elements of an array as they are at first."""
    out[:] = (np.arange(start, start + len(out)) + number_of(tensor.name)) % 16


def free_port() -> int:
    """Return a port that is free now: APPFL does not tell which one it was given."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- what goes wrong, and how APPFL's round ends then ----------------------------------------


def cut(running: Running) -> None:
    """Cut the line of the objects in the middle of a transfer: the round goes on."""
    port = free_port()
    server = start_server(running, port)
    relay = running.relay(f"127.0.0.1:{running.until('listening', 'server')['objects']}")
    sites = start_sites(running, port, relay.port)
    for cuts in (1, 2):
        running.until("trained", count=cuts)
        relay.cut_after(running.case.size_bytes // 4, "up")
    for site in sites:
        running.finish(site)
    running.finish(server)
    running.said = f"the round went on after {relay.counts.resets} resets of the objects' line"


def killed(running: Running) -> None:
    """Kill a client while it trains: the others get an error, and the server ends."""
    server, sites = started(running)
    running.until("trained", "site-1")
    running.kill(sites[0])
    ends_with_error(running, server, sites[1:])


def stopped(running: Running) -> None:
    """Stop a client while it trains: as if it were killed."""
    server, sites = started(running)
    running.until("trained", "site-1")
    running.stop(sites[0])
    ends_with_error(running, server, sites[1:])


def unfetched(running: Running) -> None:
    """Kill a client that has been given a reference and has not fetched its object."""
    server, sites = started(running, env={"CASE_UNFETCHED": "1"})
    running.until("has reference", "site-1")
    running.kill(sites[0])
    ends_with_error(running, server, sites[1:])


def restarted(running: Running) -> None:
    """Kill the server in the middle of a round: its clients end, as they do with APPFL alone."""
    server, sites = started(running)
    running.until("trained", "site-1")
    running.kill(server)
    for site in sites:
        status = running.end_of(site, seconds=300)
        if not status:
            raise CaseFailed("a client ended well without a server")
    again = start_server(running, free_port())
    running.until("listening", "server", count=2)
    running.kill(again)
    running.said = "the clients ended with APPFL's error; a new server started in the same folder"


def started(running: Running, env: dict[str, str] | None = None) -> tuple[Process, list[Process]]:
    """Start the server and its clients."""
    port = free_port()
    server = start_server(running, port)
    return server, start_sites(running, port, env=env)


def ends_with_error(running: Running, server: Process, sites: list[Process]) -> None:
    """Wait for the end of a job that has lost a client: clients with an error, the server well."""
    for site in sites:
        if not running.end_of(site, seconds=300):
            raise CaseFailed("a client ended well, although another one was lost")
    running.finish(server, seconds=300)
    if "one of them was lost" not in (running.folder / "server.log").read_text():
        raise CaseFailed("the server does not say why the round has ended")
    held = running.marks("ended", "server")[-1]["objects"]
    running.said = f"the round ended with an error at every client; {held} objects were held"


FAILURES: dict[str, Callable[[Running], None]] = {
    "cut": cut,
    "killed": killed,
    "stopped": stopped,
    "unfetched": unfetched,
    "restarted": restarted,
}


if __name__ == "__main__":
    main("appfl")
