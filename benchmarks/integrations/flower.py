"""Flower 1.41 beside itself over streamlink: a SuperLink and SuperNodes as processes, or simulated.

python -m benchmarks.integrations.flower --size 64MB --line bare --line first --line second
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from benchmarks.integrations.command import main
from benchmarks.integrations.running import CaseFailed, Running
from benchmarks.integrations.sides import processes_of
from benchmarks.relay import Relay, Step

APP = Path(__file__).with_name("flower_app")
REPOSITORY = Path(__file__).resolve().parents[2]
IDLE_SECONDS = 1.0
END_SECONDS = 60.0
FAILED_ROUND_SECONDS = 60.0


def run(running: Running) -> None:
    """Run the case to Flower's own end."""
    env = variables(running)
    if running.case.mode == "simulation":
        simulate(running, env)
        return
    programs = running.python.parent
    port, listen, *node_ports = free_ports(2 + running.case.clients)
    env["STREAMLINK_LISTEN"] = f"127.0.0.1:{listen}"
    relay = running.relay(f"127.0.0.1:{listen}") if running.case.failure == "cut" else None
    write_connection(running.folder / "home", f"127.0.0.1:{port}", "insecure = true")
    plain = ["--insecure", "--port"]
    link = running.start(
        "server",
        [programs / "flower-superlink", *plain, port, "--disable-runtime-dependency-installation"],
        env=env,
    )
    wait_for(port)
    nodes = [
        running.start(
            f"site-{number + 1}",
            [
                *(programs / "flower-supernode", *plain, node_port),
                *("--superlink", f"127.0.0.1:{port}", "--node-config"),
                f"partition-id={number}{dials(relay, number + 1 == running.case.clients)}",
            ],
            env=env,
        )
        for number, node_port in enumerate(node_ports)
    ]
    for number in range(len(nodes)):
        wait_for_line(running.folder / f"site-{number + 1}.log", "SuperNode ID")
    mark_idle(running)
    job = running.start("driver", [programs / "flwr", "run", APP, "case", "--stream"], env=env)
    if running.case.failure:
        disturb(running, nodes, relay)
    running.finish(job, seconds=3600)
    mark_rounds(running)
    say(running)
    for process in (*nodes, link):
        process.terminate()
    for process in (*nodes, link):
        running.end_of(process, seconds=END_SECONDS)
    if processes := running.left_behind(END_SECONDS):  # Flower's executors look every few seconds
        raise CaseFailed(f"left behind: {processes}")
    left = [path.name for path in (running.folder / "tmp").glob("streamlink-*")]
    if left:
        raise CaseFailed(f"left behind: {left}")


def simulate(running: Running, env: dict[str, str]) -> None:
    """Run the case in Flower's own simulation, with the SuperLink that ``flwr run`` starts."""
    port, other = free_ports(2)
    ports = {
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port),
        "FLWR_LOCAL_CONTROL_API_PORT": str(other),
    }
    env |= {**ports, "UV_FIND_LINKS": str(wheel(running.folder / "wheel"))}
    write_connection(
        running.folder / "home", ":local:", f"options.num-supernodes = {running.case.clients}"
    )
    command = [running.python.parent / "flwr", "run", APP, "case", "--stream"]
    running.finish(running.start("server", command, env=env), seconds=3600)
    mark_rounds(running)
    say(running)
    for pid in processes_of(running.name):  # Flower leaves its SuperLink to the next run
        os.kill(pid, signal.SIGTERM)
    if processes := running.left_behind(END_SECONDS):
        raise CaseFailed(f"left behind: {processes}")


def wheel(folder: Path) -> Path:
    """Build this checkout as a wheel: ``flwr run`` makes an environment of its own with uv."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    return folder


def say(running: Running) -> None:
    """Report what a failure did to the rounds, as Flower saw it."""
    if not running.marks("result"):
        raise CaseFailed("the ServerApp gave no result")
    if running.case.failure:
        for end in running.marks("round ends"):
            errors = "".join(f"; {each}" for each in end["errors"])
            running.said += f"round {end['number']}: {end['good']} good replies{errors}\n"


def dials(relay: Relay | None, is_last: bool) -> str:
    """Return the setting of a node that dials the relay in the place of the server."""
    return f' streamlink-server="127.0.0.1:{relay.port}"' if relay is not None and is_last else ""


def variables(running: Running) -> dict[str, str]:
    home, config = running.folder / "home", running.folder / "streamlink.yaml"
    home.mkdir()
    (running.folder / "tmp").mkdir()
    config.write_text("{}\n")
    if running.case.failure:  # to see in seconds what else takes minutes
        config.write_text("timeouts: {reconnect_timeout: 10, rejoin_timeout: 10}\n")
    paths = [str(running.python.parent), os.environ["PATH"]]
    return {
        "PATH": os.pathsep.join(paths),
        "PYTHONPATH": f"{APP / 'measuring'}{os.pathsep}{REPOSITORY}",
        "FLWR_HOME": str(home),
        "TMPDIR": str(running.folder / "tmp"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "STREAMLINK_CONFIG": str(config),
        "STREAMLINK_LISTEN": "127.0.0.1:0",
        "STREAMLINK_CASE_FOLDER": str(running.folder),
        "STREAMLINK_ROUND_TIMEOUT": str(FAILED_ROUND_SECONDS) if running.case.failure else "3600",
    }


def write_connection(home: Path, address: str, more: str) -> None:
    text = f'[superlink]\ndefault = "case"\n\n[superlink.case]\naddress = "{address}"\n{more}\n'
    (home / "config.toml").write_text(text)


def mark_idle(running: Running) -> None:
    """Say for Flower's long-lived processes that no model is in them yet."""
    here = running.variables("")
    begin = time.monotonic()
    time.sleep(IDLE_SECONDS)
    with open(here["STREAMLINK_MARKS"], "a") as file:
        for pid, side in processes_of(running.name).items():
            for event, at in (("idle", begin), ("idle ended", time.monotonic())):
                line = {"event": event, "side": side, "pid": pid, "at": at}
                file.write(json.dumps(line) + "\n")


def mark_rounds(running: Running) -> None:
    """Say how long each round was, the start of its client processes taken off."""
    begun = {each["number"]: each["at"] for each in running.marks("round begins")}
    starts = [(each["at"], each["seconds"]) for each in running.marks("process begun")]
    with open(running.variables("")["STREAMLINK_MARKS"], "a") as file:
        for end in running.marks("round ends"):
            begin = begun[end["number"]]
            within = [seconds for at, seconds in starts if begin < at < end["at"]]
            line = {"event": "round", "side": "server", "pid": os.getpid(), "at": end["at"]}
            line |= {"number": end["number"], "whole": end["at"] - begin}
            line |= {"seconds": end["at"] - begin - max(within, default=0.0)}
            file.write(json.dumps(line) + "\n")


def disturb(running: Running, nodes: list[subprocess.Popen[bytes]], relay: Relay | None) -> None:
    """Do to the last client, in round 2, what the case says, and let the rest go on."""
    last, go_on = f"site-{len(nodes)}", running.folder / "go-on"
    if running.case.failure == "unfetched":
        return
    hit = running.until("hit me", last, seconds=600)
    if running.case.failure == "killed":
        os.kill(hit["pid"], signal.SIGKILL)
    elif running.case.failure == "stopped":
        running.stop(nodes[-1])
    elif running.case.failure == "restarted":
        (running.folder / "restart").touch()
        running.until("restarted", "server")
    elif relay is not None:
        half = Step(action=_cut, after_bytes=running.case.size_bytes // 2)
        relay.play([half])
    go_on.touch()
    running.until("round ends", "server", seconds=600, count=2)
    if relay is not None:
        relay.allow()
    if running.case.failure == "stopped":
        node = psutil.Process(nodes[-1].pid)
        for each in (*node.children(recursive=True), node):
            each.resume()


def _cut(relay: Relay) -> None:
    relay.refuse()
    relay.reset()


def free_ports(count: int) -> list[int]:
    """Return ports that are free now: Flower takes no 0."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for(port: int, seconds: float = 120.0) -> None:
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise CaseFailed(f"nobody listens on port {port}")


def wait_for_line(path: Path, text: str, seconds: float = 120.0) -> None:
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        if path.exists() and text in path.read_text(errors="replace"):
            return
        time.sleep(0.1)
    raise CaseFailed(f"{path.name} never said {text!r}")


if __name__ == "__main__":
    main("flower")
