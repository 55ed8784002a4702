"""APPFL 1.12: its gRPC service, one server and its clients as processes of this machine."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink as sl
from benchmarks.integrations.cases import ALL_KILLED, NOT_FINITE, STAYS_CUT, Case
from benchmarks.integrations.command import main
from benchmarks.integrations.inside import number_of
from benchmarks.integrations.lines import Lines
from benchmarks.integrations.running import CaseFailed, Running
from benchmarks.relay import Direction
from streamlink.model import GeneratedModel

__all__ = ["require_empty_spool", "run", "until"]

APP = "benchmarks.integrations.appfl_app"
LOST_SECONDS = 30.0  # how long a failure case waits for a client that is lost
SOON_SECONDS = 120.0  # for what takes a moment, or imports on a busy machine
WHOLE_SECONDS = 24 * 3600.0  # a run as a whole has a limit already
Process = subprocess.Popen[bytes]


def run(running: Running) -> None:
    """Run the case to its end."""
    if running.case.line == "second":
        store_first_model(running.case, running.folder / "global")
    if running.case.mode == "tls":
        make_certificates(running)
    if running.case.failure is not None:
        FAILURES[running.case.failure](running)
        require_empty_spool(running)
        return
    server, sites = started(running)
    for site in sites:
        running.finish(site, seconds=WHOLE_SECONDS)
    finish(running, server)
    held = running.marks("ended", "server")[-1]["objects"]
    if held:
        raise CaseFailed(f"the server has {held} objects left")
    require_empty_spool(running)


def finish(running: Running, server: Process) -> None:
    """Wait for the server's end; without us it may abort in gRPC's threads after its last line."""
    status = running.end_of(server)
    if status and (running.case.is_ours or not running.marks("ended", "server")):
        raise CaseFailed(f"the server ended with status {status}")


def require_empty_spool(running: Running) -> None:
    """Wait until nothing is left of what clients have put: the server has ended."""
    if running.case.is_ours:
        until(lambda: not spooled(running), f"the server has left {spooled(running)} in its spool")


def spooled(running: Running) -> list[str]:
    """Return the names of the folders in the spool; each server has one of its own."""
    return [path.name for path in (running.folder / "spool").iterdir()]


def until(holds: Callable[[], bool], otherwise: str) -> None:
    """Wait until a condition holds.

    Raises:
        CaseFailed: it did not come to that.
    """
    give_up_at = time.monotonic() + SOON_SECONDS
    while not holds():
        if time.monotonic() > give_up_at:
            raise CaseFailed(otherwise)
        time.sleep(0.05)


def start_server(running: Running, port: int, objects: str = "127.0.0.1:0") -> Process:
    """Start the server; its object port is in the mark ``listening``."""
    timeout = LOST_SECONDS if running.case.failure else 3600.0
    program = [running.python, "-m", f"{APP}.server", port, running.folder, timeout, objects]
    return running.start("server", program)


def start_sites(
    running: Running, port: int, lines: Lines | None = None, env: dict[str, str] | None = None
) -> list[Process]:
    """Start all clients, once the server listens, and let them train, once all are there.

    Args:
        running: the case.
        port: of APPFL's service.
        lines: those on which the first client reaches the models' server.
        env: variables of the first client.
    """
    sites = ready_sites(running, port, lines, env)
    (running.folder / "all-are-ready").touch()
    return sites


def ready_sites(
    running: Running, port: int, lines: Lines | None = None, env: dict[str, str] | None = None
) -> list[Process]:
    """Start all clients, and return them when all have the first model; none trains yet."""
    first = running.until("listening", "server")["objects"]
    objects = lines.behind if lines else ports_of(first)
    sites = [start_site(running, 1, port, lines.address if lines else objects, env)]
    others = range(2, running.case.clients + 1)
    sites += [start_site(running, number, port, objects) for number in others]
    for site in sites:
        running.until("ready", running.side_of(site), seconds=WHOLE_SECONDS)
    return sites


def start_site(
    running: Running, number: int, port: int, objects: str, env: dict[str, str] | None = None
) -> Process:
    """Start one client."""
    program = [running.python, "-m", f"{APP}.client", f"127.0.0.1:{port}"]
    return running.start(f"site-{number}", [*program, objects, number], env=env)


def ports_of(first: int) -> str:
    """Return where clients dial a server of models: its port of sessions, and that of bytes."""
    return f"127.0.0.1:{first}-{first + 1}"


def make_certificates(running: Running) -> None:
    """Let APPFL make its certificates: its own command, with its defaults (127.0.0.1)."""
    program = "from appfl.comm.grpc.setup_ssl import setup_ssl; setup_ssl()"
    answers = f"{running.folder / 'tls'}\n" + "\n" * 5
    done = subprocess.run(
        [running.python, "-c", program], input=answers, capture_output=True, text=True, timeout=300
    )
    if done.returncode or not (running.folder / "tls" / "server.crt").exists():
        raise CaseFailed(f"APPFL made no certificates: {done.stdout[-500:]}{done.stderr[-500:]}")


def refuse_strangers(running: Running, port: int, objects: int) -> None:
    """Check who stands at the models' port, and that a client without APPFL's token has no way in.

    The certificate there must be APPFL's own; the stranger's error must be that of APPFL's
    authenticator, which gives nobody else the token of that port.
    """
    trusted = ssl.create_default_context(cafile=running.folder / "tls" / "ca.crt")
    trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT  # APPFL's authority is an older kind
    with socket.create_connection(("127.0.0.1", objects), timeout=60) as line:
        trusted.wrap_socket(line, server_hostname="127.0.0.1").close()
    stranger = start_site(
        running, 0, port, ports_of(objects), {"CASE_AUTH_TOKEN": "not the shared secret"}
    )
    if not running.end_of(stranger, seconds=300):
        raise CaseFailed("a client with another token was let in")
    log = (running.folder / "site-0.log").read_text()
    if "Invalid Authentication Tokens" not in log:
        raise CaseFailed(f"a stranger failed for another reason: {log[-1000:]}")


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
    half = running.case.size_bytes // 2
    lines, port = running.lines(), free_port()
    server = start_server(running, port, objects=lines.behind)
    running.until("listening", "server")
    # In the first global model, in a client's first one, and in one of a later round.
    cuts: list[tuple[int, Direction]] = [(half, "down"), (half, "up"), (3 * half, "up")]
    lines.reset_after(*cuts)
    for site in start_sites(running, port, lines):
        running.finish(site)
    running.finish(server)
    if lines.missed:
        raise CaseFailed(f"the line was not cut after these bytes: {lines.missed}")
    running.said = f"the round went on after {lines.resets} resets of the objects' line"


def stays_cut(running: Running) -> None:
    """Cut a client's line of the objects for good, in its second model: as if it were killed."""
    lines, port = running.lines(), free_port()
    server = start_server(running, port, objects=lines.behind)
    running.until("listening", "server")
    lines.cut_after(3 * running.case.size_bytes // 2)
    sites = start_sites(running, port, lines)
    if not running.end_of(sites[0], seconds=300):
        raise CaseFailed("a client without a line to the models ended well")
    if lines.missed:
        raise CaseFailed("nothing was cut")
    ends_with_error(running, server, sites[1:])


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


def all_killed(running: Running) -> None:
    """Kill all clients while nobody waits for anybody: the server ends by itself."""
    port = free_port()
    server = start_server(running, port)
    for site in ready_sites(running, port):
        running.kill(site)
    running.finish(server, seconds=300)
    if "all clients were lost" not in (running.folder / "server.log").read_text():
        raise CaseFailed("the server does not say why it has ended")
    running.said = "the server ended by itself"


def not_finite(running: Running) -> None:
    """Let the second client diverge: where its update is refused, all who wait hear its name."""
    server, sites = started(running)
    for number, site in enumerate(sites, 1):
        is_hit = running.case.line == "second" and (number == 2 or running.case.mode != "async")
        status, log = running.end_of(site, seconds=300), running.folder / f"site-{number}.log"
        if bool(status) != is_hit:
            raise CaseFailed(f"client {number} ended with status {status}")
        if is_hit and "in the update of site-2 is NaN" not in log.read_text():
            raise CaseFailed(f"client {number} does not say whose update was not finite")
    running.finish(server, seconds=300)
    running.said = "the error named site-2" if is_hit else "site-1 ended with whatever came"


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
    if len(found := spooled(running)) != 1:
        raise CaseFailed(f"the new server has {found} in its spool, not its own folder alone")
    again.kill()  # it alone: what watches over its folder lives on, and removes it
    running.said = "the clients ended with APPFL's error; a new server started in the same folder"


def started(running: Running, env: dict[str, str] | None = None) -> tuple[Process, list[Process]]:
    """Start the server and its clients."""
    port = free_port()
    server = start_server(running, port)
    objects = running.until("listening", "server")["objects"]
    if running.case.mode == "tls" and running.case.is_ours:
        refuse_strangers(running, port, objects)
    return server, start_sites(running, port, env=env)


def ends_with_error(running: Running, server: Process, sites: list[Process]) -> None:
    """Wait for the end of a job that has lost a client: clients with an error, the server well.

    With an asynchronous scheduler nobody waits for anybody: the others do what is left.
    """
    if running.case.mode == "async":
        for site in sites:
            running.finish(site, seconds=300)
        running.finish(server, seconds=300)
        running.said = "the others went on, and the server ended when they had left"
        return
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
    STAYS_CUT: stays_cut,
    ALL_KILLED: all_killed,
    NOT_FINITE: not_finite,
}


if __name__ == "__main__":
    main("appfl")
