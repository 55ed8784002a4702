"""The processes of ``sessions``: the server that is measured, and clients that are many to one."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.arrays import Bytes, digest, make_source, make_target
from benchmarks.processes import Watching
from benchmarks.worker import Port, rss_bytes
from streamlink import LinkConfig, Server
from streamlink.link import Assignment, ClientLink, ClientRequest
from streamlink.stores import MemoryStore

__all__ = ["MEMORY_BYTES", "join", "security", "serve", "settings"]

MEMORY_BYTES = 768 << 20
"""What the server may have for the models of all its clients together: little more than the least
for a thousand of them with the default chunks, which is 768 KiB each."""

_JOIN_SECONDS, _MOVE_SECONDS = 500.0, 280.0
_AT_ONCE = 8  # clients of one process that connect at the same time

# A thousand clients share two cores with the server that is measured; those of a real server do
# not. Each keeps a gRPC for Python that wakes over ten times a second, and thousands of such
# threads contend for four interpreters. Left alone they take both cores: the server's few threads
# hardly run, sessions are lost, and to open them again costs even more.
_NICENESS = 19
_SWITCH_SECONDS = 0.02  # how often a thread that waits for the interpreter wakes to ask for it
_SLACK_NANOSECONDS = 300_000_000  # a timed wait may last so much longer: then many end at once
_SET_TIMER_SLACK = 29  # of Linux's prctl


# --- the server ---------------------------------------------------------------------------


def serve(
    port: Port,
    sessions: int,
    movers: list[str],
    model_bytes: int,
    models: int,
    certificates: str,
) -> None:
    """Admit all, rest, move models with some, and say goodbye to all."""
    model = make_source(model_bytes)
    answers = {name: make_target(model_bytes) for name in movers}
    server = Server(
        "127.0.0.1:0",
        settings(sessions, certificates, "server"),
        serve={"echo": ClientRequest.reply},
    )
    port.mark_base()
    base = _snapshot()
    began = time.monotonic()
    server.listen()
    port.tell("listening", address=server.address)
    port.tell("base_was", **base)
    here = server.wait_for_peers(sessions, _JOIN_SECONDS)
    port.tell("admitted", sessions=len(here), seconds=time.monotonic() - began)
    time.sleep(port.wait_for("rest")["seconds"])
    port.tell("rested", named=_threads_by_name())
    port.wait_for("move")
    for _ in range(models):
        _move(server, model, answers)
    port.tell("moved")
    port.wait_for("close")
    began = time.monotonic()
    server.close("the benchmark is over")
    port.tell("closed", seconds=time.monotonic() - began)


def _move(server: Server, model: Bytes, answers: dict[str, Bytes]) -> None:
    """Send the model to each, and check what comes back."""
    asked = [
        peer.ask("back", {"w": model}, into={"w": answers[peer.name]}, timeout=_MOVE_SECONDS)
        for peer in server.peers()
        if peer.name in answers
    ]
    for each in asked:
        each.result()
    expected = digest(model)
    for name, answer in answers.items():
        if digest(answer) != expected:
            raise RuntimeError(f"the model of {name} came back changed")
        answer.fill(0)


def _snapshot() -> dict[str, int]:
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "rss_bytes": rss_bytes(),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def _threads_by_name() -> dict[str, int]:
    """Count Python's threads by name, numbers and the names of clients left out."""
    names = Counter(re.split(r"[-_ ]?(?:site|\d)", each.name)[0] for each in threading.enumerate())
    below = len(os.listdir("/proc/self/task")) - names.total()
    return {**names, "of gRPC": max(0, below)}


# --- the clients --------------------------------------------------------------------------


def join(port: Port, address: str, names: list[str], certificates: str) -> None:
    """Connect as all of ``names``; then do what is told until told to leave."""
    _leave_processor_to_server()
    port.mark_base()
    links = [
        ClientLink(
            address,
            name=name,
            serve=_answer,
            config=settings(1, certificates, name),
        )
        for name in names
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(ClientLink.start, links))
    port.tell("joined")
    while port.next_command()["event"] != "leave":
        with _Asking(links) as asking:
            port.wait_for("report")
        port.tell("report", longest_seconds=asking.longest_seconds)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(ClientLink.close, links))


def _leave_processor_to_server() -> None:
    """Make all threads that this process starts from now on wake seldom and yield to others."""
    os.nice(_NICENESS)
    sys.setswitchinterval(_SWITCH_SECONDS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, _SLACK_NANOSECONDS, 0, 0, 0)


def _answer(assignment: Assignment) -> None:
    """Send back what comes."""
    store = MemoryStore()
    assignment.receive(store)
    assignment.answer(store.arrays)


class _Asking(Watching):
    """Asks the server small questions, over one session after another, while it is entered."""

    interval_seconds = 0.05

    def __init__(self, links: Sequence[ClientLink]) -> None:
        self._links = itertools.cycle(links)
        self.longest_seconds = 0.0

    def _look(self) -> None:
        began = time.monotonic()
        with next(self._links).ask("echo"):
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


# --- both ---------------------------------------------------------------------------------


def settings(sessions: int, certificates: str, name: str) -> LinkConfig:
    """Return the settings of one end; ``name`` is the folder of its certificate."""
    shared = {"stream": {"memory_bytes": MEMORY_BYTES}} if name == "server" else {}
    return LinkConfig.model_validate(
        {
            **shared,
            "grpc": {"max_clients": sessions},
            "timeouts": {
                # A machine that starts a thousand clients at once is busy.
                "connect_timeout": 300.0,
                "open_timeout": 60.0,
                "session_timeout": 120.0,
            },
            "security": security(certificates, name) if name else {},
        }
    )


def security(certificates: str, name: str) -> dict[str, Path]:
    """Return what ``streamlink certs`` has made for one end; nothing where there is no folder."""
    if not certificates:
        return {}
    folder = Path(certificates, name)
    files: Iterable[str] = ("certificate", "key", "ca")
    return {each: folder / f"{each}.pem" for each in files}
