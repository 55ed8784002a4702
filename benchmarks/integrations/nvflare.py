"""NVIDIA FLARE with and without streamlink: FedAvg in POC mode, or in its simulator.

    python -m benchmarks.integrations.nvflare --size 256MB --arrays 64 --line bare --line first

A POC system is FLARE's own: a server and sites as processes, provisioned with certificates, mutual
TLS between them. The job is hello-numpy's shape: FLARE's FedAvg, a script that trains in place.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import psutil

from benchmarks.integrations.command import main
from benchmarks.integrations.lines import Lines
from benchmarks.integrations.running import CaseFailed, Running

APP = "benchmarks.integrations.nvflare_app.job"
DEAD_SECONDS = 20.0
GIVE_UP_SECONDS = "5"  # of a site that is cut off: to reconnect, and then to join again
SITE_SETTINGS = {
    ("unreachable", 1): {"NVFLARE_STREAMLINK_PORTS": "1-2"},  # the server listens elsewhere
    ("unreachable", 2): {"NVFLARE_STREAMLINK_SERVER": "127.0.0.9"},  # nobody answers there
    ("not installed", 2): {"NVFLARE_NVFLARE_DECOMPOSERS": ""},
    ("wrong setting", 2): {"NVFLARE_STREAMLINK_RECONNECT_TIMEOUT": "soon"},
}
"""What sites have in their environment, by the failure and the number of the site."""
Env = dict[str, str]


def run(running: Running) -> None:
    """Run the case in its mode."""
    if running.case.mode == "simulation":
        job = running.start(
            "server",
            [running.python, "-m", APP, "simulate", running.folder],
            env=_environment(running),
        )
        running.finish(job, seconds=3000)
    else:
        _run_poc(running)


def _environment(running: Running) -> dict[str, str]:
    """Return what every process of FLARE gets: the one line of the integration, and our limits."""
    (running.folder / "tmp").mkdir(exist_ok=True)
    chosen = {
        "TMPDIR": str(running.folder / "tmp"),
        "PATH": f"{running.python.parent}{os.pathsep}{os.environ['PATH']}",
        "NVFLARE_POC_WORKSPACE": str(running.folder / "poc"),
    }
    if running.case.failure == "unfetched":
        chosen["NVFLARE_STREAMLINK_TTL"] = "5"  # seconds: it expires while the round waits
    elif running.case.failure == "cut off":
        chosen["NVFLARE_STREAMLINK_RECONNECT_TIMEOUT"] = GIVE_UP_SECONDS
        chosen["NVFLARE_STREAMLINK_REJOIN_TIMEOUT"] = GIVE_UP_SECONDS
    if running.case.is_ours:
        chosen["NVFLARE_NVFLARE_DECOMPOSERS"] = "streamlink.integrations.nvflare"
        chosen["NVFLARE_STREAMLINK_LISTEN"] = "127.0.0.1"
    return chosen


def _run_poc(running: Running) -> None:
    folder, python, env = running.folder, running.python, _environment(running)
    port = _free_port()
    running.finish(running.start("setup", [python, "-m", APP, "provision", folder, port], env=env))
    kits = next((folder / "poc").glob("*/prod_00"))
    if running.case.failure:
        _expect_failures(kits / "server")
    lines = running.lines() if running.case.failure in ("cut", "cut off") else None
    if lines is not None:
        host, _, ports = lines.behind.rpartition(":")
        env |= {"NVFLARE_STREAMLINK_LISTEN": host, "NVFLARE_STREAMLINK_PORTS": ports}
        _plan_cuts(running, lines)
    server = _start(running, "server", kits / "server", env)
    sites = [
        _start(
            running,
            f"site-{number}",
            kits / f"site-{number}",
            env | SITE_SETTINGS.get((running.case.failure or "", number), {}),
        )
        for number in range(1, running.case.clients + 1)
    ]
    if running.case.failure:
        how = (running, server, sites, lines)
        threading.Thread(target=_disturb, args=how, daemon=True).start()
    _submit(running, (server, *sites), env)
    if running.case.failure == "restarted":  # as FLARE does it: with the next job
        _submit(running, (server, *sites), env)
    if lines is not None:
        _expect_cuts(running, lines)
    _expect_warnings(running)
    for process in (server, *sites):
        process.terminate()
    for process in (server, *sites):
        try:
            process.wait(120)  # a busy machine takes that long to remove what they have
        except subprocess.TimeoutExpired:
            process.kill()
    if left := [path.name for path in (folder / "tmp").glob("streamlink-*")]:
        raise CaseFailed(f"left behind: {left}")


def _submit(running: Running, parents: tuple[subprocess.Popen[bytes], ...], env: Env) -> None:
    """Submit the job, and wait for its end, which is the one to expect in this case."""
    idle = ",".join(f"{running.side_of(each)}={each.pid}" for each in parents)
    words = [running.python, "-m", APP, "submit", running.folder, idle]
    before = len(running.marks("job ended"))
    running.finish(running.start("setup", words, env=env), seconds=3600)
    ended = running.until("job ended", count=before + 1)["status"]
    running.said += f"the job ended as {ended}\n"
    failing = ("killed", "stopped", "restarted", "wrong setting")
    may_fail = before == 0 and running.case.failure in failing
    if ended != "FINISHED:COMPLETED" and not may_fail:
        raise CaseFailed(running.said)


def _expect_failures(server: Path) -> None:
    """Let FLARE notice a dead site after seconds; its own default is ten minutes."""
    for path in (server / "local").glob("resources.json*"):
        config = json.loads(path.read_text())
        config["servers"][0]["heart_beat_timeout"] = DEAD_SECONDS
        path.write_text(json.dumps(config))


def _disturb(
    running: Running,
    server: subprocess.Popen[bytes],
    sites: list[subprocess.Popen[bytes]],
    lines: Lines | None,
) -> None:
    """Make the case's failure happen, in the first round."""
    if running.case.failure in ("killed", "stopped"):
        running.until("received", "site-2", seconds=300.0)
        (running.kill if running.case.failure == "killed" else running.stop)(sites[-1])
    elif running.case.failure == "unfetched":
        running.until("unfetched", "site-2", seconds=300.0)
        running.until("round", "server", seconds=300.0)
        (running.folder / "round-0-is-over").touch()
    elif running.case.failure == "restarted":  # the object server is in the job's process
        running.until("received", seconds=300.0)
        for each in psutil.Process(server.pid).children(recursive=True):
            each.kill()
    elif running.case.failure == "cut off" and lines is not None:
        # Its session is over by then, and FLARE carries the model itself.
        running.until_logged("site-1", "this end reports: ")
        lines.mend()


def _plan_cuts(running: Running, lines: Lines) -> None:
    """Let the lines be cut in the first round."""
    half = running.case.size_bytes // 2
    if running.case.failure == "cut off":
        lines.cut_after(half)
    else:  # in a model that a site fetches, and in one that it puts
        lines.reset_after((half, "down"), (half, "up"))


def _expect_cuts(running: Running, lines: Lines) -> None:
    """Check that every planned cut has happened: without one the case would show nothing."""
    if lines.missed:
        raise CaseFailed(f"the line was not cut after these bytes: {lines.missed}")


def _expect_warnings(running: Running) -> None:
    """Wait until what a user has to know is in the logs of the ends."""
    if running.case.failure == "unreachable":
        running.until_logged("site-1", "may dial 127.0.0.1:1-2 only", "may dial localhost:1-2 only")
        running.until_logged("site-2", "no server answers at 127.0.0.9")
        for site in ("site-1", "site-2"):
            running.until_logged(site, "this end reports: ")
            running.until_logged("server", f"{site}.", seconds=1.0)
        running.until_logged("server", "FLARE carries it. If a firewall is between, open that port")
    elif running.case.failure == "not installed":
        running.until_logged("server", "cannot read a reference; set NVFLARE_NVFLARE_DECOMPOSERS")
    elif running.case.failure == "wrong setting":
        running.until_logged("site-2", "streamlink_reconnect_timeout (NVFLARE_STREAMLINK_RECONNECT")


def _start(running: Running, side: str, kit: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the parent process of the server or of a site, as its startup kit does."""
    at_server = side == "server"
    module = "server.server_train" if at_server else "client.client_train"
    config = "fed_server.json" if at_server else "fed_client.json"
    named = ["org=nvidia", "config_folder=config"] + ([] if at_server else [f"uid={side}"])
    command = ["-m", f"nvflare.private.fed.app.{module}", "-m", kit, "-s", config]
    return running.start(
        side,
        [running.python, "-u", *command, "--set", "secure_train=true", *named],
        env=env,
        cwd=kit,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main("nvflare")
