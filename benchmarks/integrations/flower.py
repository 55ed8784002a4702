"""Flower 1.41 beside itself over streamlink: a SuperLink and SuperNodes as processes, or simulated.

python -m benchmarks.integrations.flower --size 64MB --line bare --line first --line second

Modes: ``processes``; ``tls`` (Flower and streamlink use the same certificate of the server);
``mutual`` (in addition SuperNodes are authenticated by Flower's keys, and by certificates here);
``simulation``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.integrations import inside
from benchmarks.integrations.command import main
from benchmarks.integrations.flower_processes import (
    Federation,
    Tls,
    flwr_run,
    flwr_variables,
    simulated,
)
from benchmarks.integrations.lines import Lines
from benchmarks.integrations.running import CaseFailed, Running
from benchmarks.integrations.sides import processes_of, pss

APP = Path(__file__).with_name("flower_app")
REPOSITORY = Path(__file__).resolve().parents[2]
ROUND_SECONDS = {None: 3600.0, "stopped": 120.0}
"""The limit of a round. Only a node that stands still is to reach it: the other has replied long
before, also on a busy machine, where a process of Flower takes half a minute to start."""
FAILED_ROUND_SECONDS = 600.0  # with other failures, where nothing is to wait for it
LOADED_SECONDS = 60.0
STILL_LOOKS = 3
SOON = {"timeouts": {"reconnect_timeout": 10, "rejoin_timeout": 10}}


def run(running: Running) -> None:
    """Run the case to Flower's own end."""
    env = variables(running)
    if running.case.mode == "simulation":
        simulated(running, APP, env)
        mark_rounds(running)
        say(running)
        return
    lines = running.lines() if running.case.failure == "cut" else None
    sites = [f"site-{number + 1}" for number in range(running.case.clients)]
    is_mutual = running.case.mode == "mutual"
    tls = Tls(running.folder / "certs", sites) if running.case.mode != "processes" else None
    federation = Federation(running, env, tls=tls)
    server = settings_file(running, "server.yaml", security=security_of(tls, "server", is_mutual))
    federation.start_link(
        *(["--enable-supernode-auth"] if is_mutual else []),
        STREAMLINK_LISTEN=lines.behind if lines else "127.0.0.1:0",
        STREAMLINK_CONFIG=str(server),
    )
    for number, site in enumerate(sites):
        config = [f"partition-id={number}", *files_of(tls, site, is_mutual)]
        if lines is not None:  # the others are to see nothing of it
            dialled = lines.address if site == sites[-1] else lines.behind
            config.append(f'streamlink-server="{dialled}"')
        words = register(running, env, tls, site) if tls and is_mutual else []
        federation.start_node(" ".join(config), *words)
    mark_idle(running)
    if lines is not None:  # in the first round a short one, after which the transfer resumes
        lines.reset_after((running.case.size_bytes // 2, "down"))
    job = flwr_run(running, APP, env)
    if running.case.failure:
        disturb(running, federation.nodes, lines)
    running.finish(job, seconds=3600)
    mark_rounds(running)
    say(running)
    federation.close()


def security_of(tls: Tls | None, name: str, is_mutual: bool) -> dict[str, str]:
    """Return the section of the settings for one end, by the files that Flower has."""
    if tls is None:
        return {}
    certificate, key = map(str, tls.pair(name))
    own = {"certificate": certificate, "key": key}
    if name == "server":
        return own | ({"ca": str(tls.ca)} if is_mutual else {})
    return {"ca": str(tls.ca)} | (own if is_mutual else {})


def files_of(tls: Tls | None, site: str, is_mutual: bool) -> list[str]:
    """Return what the configuration of a node has for TLS."""
    return [f'streamlink-{n}="{p}"' for n, p in security_of(tls, site, is_mutual).items()]


def register(running: Running, env: dict[str, str], tls: Tls, site: str) -> list[str]:
    """Register a node by its key and name; return what its SuperNode is started with."""
    key = tls.node_key(site)
    words = ["supernode", "register", key.with_suffix(".pub"), "case", "--name", site]
    done = running.start("driver", [running.python.parent / "flwr", *words], env=env)
    running.finish(done)
    return ["--auth-supernode-private-key", str(key)]


def say(running: Running) -> None:
    """Report what a failure did to the rounds, as Flower saw it."""
    if not running.marks("result"):
        raise CaseFailed("the ServerApp gave no result")
    if running.case.failure:
        for end in running.marks("round ends"):
            errors = "".join(f"; {each}" for each in end["errors"])
            running.said += f"round {end['number']}: {end['good']} good replies{errors}\n"


def variables(running: Running) -> dict[str, str]:
    limit = ROUND_SECONDS.get(running.case.failure, FAILED_ROUND_SECONDS)
    return {
        **flwr_variables(running),
        "PYTHONPATH": f"{APP / 'measuring'}{os.pathsep}{REPOSITORY}",
        "STREAMLINK_CONFIG": str(settings_file(running, "streamlink.yaml")),
        "STREAMLINK_LISTEN": "127.0.0.1:0",
        "STREAMLINK_CASE_FOLDER": str(running.folder),
        "STREAMLINK_ROUND_TIMEOUT": str(limit),
    }


def settings_file(running: Running, name: str, **sections: Any) -> Path:
    """Write settings of streamlink; a failure is seen in seconds that would take minutes."""
    path = running.folder / name
    path.write_text(yaml.safe_dump({**(SOON if running.case.failure else {}), **sections}))
    return path


def mark_idle(running: Running) -> None:
    """Say for Flower's long-lived processes that no model is in them yet."""
    wait_until_loaded(running)
    here = running.variables("")
    begin = time.monotonic()
    inside.wait_for_looks(str(running.marks_file))
    with open(here["STREAMLINK_MARKS"], "a") as file:
        for pid, side in processes_of(running.name).items():
            for event, at in (("idle", begin), ("idle ended", time.monotonic())):
                line = {"event": event, "side": side, "pid": pid, "at": at}
                file.write(json.dumps(line) + "\n")


def wait_until_loaded(running: Running) -> None:
    """Wait until no process grows: the executors of SuperNodes import for seconds after these."""
    before: dict[int, int] = {}
    still, give_up_at = 0, time.monotonic() + LOADED_SECONDS
    while still < STILL_LOOKS and time.monotonic() < give_up_at:
        time.sleep(1.0)
        now = {pid: pss(pid) for pid in processes_of(running.name)}
        grown = now.keys() != before.keys() or sum(now.values()) > sum(before.values()) + 1_000_000
        still, before = 0 if grown else still + 1, now


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


def disturb(running: Running, nodes: list[subprocess.Popen[bytes]], lines: Lines | None) -> None:
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
        for site in range(1, len(nodes)):
            running.until("hit me", f"site-{site}", seconds=600)
        (running.folder / "restart").touch()
        running.until("restarted", "server")
    elif lines is not None:
        if lines.missed:
            raise CaseFailed("nothing was cut in the first round")
        lines.cut_after(running.case.size_bytes // 2)
    go_on.touch()
    running.until("round ends", "server", seconds=600, count=2)
    if lines is not None:
        lines.mend()
    if running.case.failure == "stopped":
        node = psutil.Process(nodes[-1].pid)
        for each in (*node.children(recursive=True), node):
            each.resume()


if __name__ == "__main__":
    main("flower")
