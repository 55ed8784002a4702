"""A whole job as processes, for the table of outcomes: the server's rules and each client's fate.

They tell facts, one JSON object a line, as ``tests.support.processes`` does, and are forked from
one process that has everything imported.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

import streamlink as sl
from streamlink import logs
from streamlink.closing import Closing
from streamlink.link.send_transfer import SendTransfer
from streamlink.stores import ArrayModel
from tests.support.forked import Fork, Forks, serve_forks
from tests.support.peers import ODD, WAIT, Array, initial, trained
from tests.support.processes import ROOT, fact, tell

LINK: dict[str, Any] = {
    "stream": {"chunk_bytes": 4096, "min_chunk_bytes": 1024, "window_bytes": 16384},
    "timeouts": {
        "heartbeat_interval": 0.2,
        "session_timeout": 4.0,
        "reconnect_timeout": 1.0,
        "rejoin_timeout": 0,
    },
}
STOPS_AT = "bf16"
"""Clients that stop, die or fail do it at the first range of this tensor.

A fate may name another place: ``hang@f64``, ``hang@weight``, ``hang@metrics``.
"""


def server(facts: Mapping[str, Any]) -> None:
    """Run the rounds; tell the port, each report, and the final digest and wire bytes.

    At the event ``pauses_at`` it waits for a line on its standard input. ``log``, where that is
    given, is the file its log goes to, as JSON.
    """
    if facts["log"]:
        logs.configure(file=facts["log"], json=True)

    def on_event(event: sl.RoundEvent) -> None:
        tell(event=event.kind.value)
        if event.kind.value == facts.get("pauses_at"):
            sys.stdin.readline()

    store = sl.open_store(facts["store"])
    rules = sl.RoundConfig.model_validate(facts["rules"])
    link = sl.LinkConfig.model_validate(facts["link"])
    with sl.Server("127.0.0.1:0", link) as listening:
        tell(port=listening.port)
        listening.wait_for_peers(facts["clients"], WAIT)
        job = sl.ScatterAndGather(
            listening,
            store,
            rules,
            spool=facts["spool"],
            on_event=on_event,
        )
        try:
            reports = job.run()
        except sl.StreamlinkError as error:
            tell(failed=type(error).__name__, why=str(error))
        else:
            for report in reports:
                tell(
                    contributors=sorted(report.weights),
                    attempt=report.attempt,
                    failures=report.failures,
                )
        wire = listening.wire_bytes
    tell(digest=sl.digest_of(store.open()), wire=wire)


class _Telling(logging.Handler):
    """Tells the events of a log that have a name."""

    def emit(self, record: logging.LogRecord) -> None:
        if name := getattr(record, "event", ""):
            tell(log=name)


def client(facts: Mapping[str, Any]) -> None:
    """Take part until the server says goodbye; what happens at ``STOPS_AT`` is its ``fate``.

    It tells what becomes of its session, and at the end how many bytes its work has ``seen``.
    """
    sessions = logging.getLogger("streamlink.session")
    sessions.setLevel(logging.INFO)
    sessions.addHandler(_Telling())
    number, (fate, _, place) = facts["number"], facts["fate"].partition("@")
    work, once, seen = trained(number), threading.Event(), 0

    def is_reached(here: str) -> bool:
        if here != (place or STOPS_AT) or once.is_set():
            return False
        once.set()
        tell(at=here)
        if fate == "stop":
            # This thread, and not whichever the system chooses: until that one runs, all others do.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        elif fate == "hang":
            signal.pause()
        elif fate == "wait":
            sys.stdin.readline()
        return True

    def function(tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        nonlocal seen
        seen += values.nbytes
        result = work(tensor, start, values)
        if is_reached(tensor.name):
            match fate:
                case "raise":
                    raise ValueError("the data set is empty")
                case "nan":
                    result = np.full_like(result, np.nan)
                case "short":
                    result = result[:-1]
        return result

    def weight(task: sl.Task) -> float:
        is_reached("weight")
        return float(facts.get("weight", 1.0))

    def metrics() -> dict[str, float]:
        if place == "metrics" and executor.watched is not None:
            _wait_until_consumed(executor.watched[1])
        is_reached("metrics")
        return {"loss": float(facts.get("loss", number))}

    executor = sl.StreamingExecutor(
        function, weight=weight, metrics=metrics, is_pure=facts.get("is_pure", True)
    )
    link = sl.LinkConfig.model_validate(facts["link"])
    try:
        with sl.Client(f"127.0.0.1:{facts['port']}", f"site-{number}", executor, link) as site:
            tell(here=True)
            site.run()
    except sl.StreamlinkError as error:
        tell(ended=str(error))
    tell(seen=seen)


def _wait_until_consumed(update: SendTransfer) -> None:
    """Wait until the server has used all of an update: what dies now has lost nothing of it."""
    while update.stats.consumed_bytes < update.spec.nbytes:
        time.sleep(0.01)


class Job(Closing):
    """The processes of one job; all are killed at its end."""

    def __init__(
        self,
        folder: Path,
        *,
        gather: str,
        fates: Mapping[int, str],
        model: Any = ODD,  # Any, as the others: a dict of rules may be unpacked beside them
        is_pure: Any = True,
        pauses_at: Any = "",
        log: Any = "",
        link: Any = LINK,
        clients_link: Any = None,
        **rules: Any,
    ) -> None:
        self._folder = folder
        self._clients_link = clients_link or link
        self._running: list[Fork] = []
        store = sl.open_store(folder / "model")
        sl.copy_model(ArrayModel(initial(model)), store.begin(model))
        settings = {"min_clients": 2, "num_rounds": 1, "gather": gather, **rules}
        self.server = self._start(
            "server",
            store=str(folder / "model"),
            spool=str(folder / "spool"),
            clients=len(fates),
            rules=settings,
            link=link,
            pauses_at=pauses_at,
            log=str(log),
        )
        port = fact(self.server, "port")
        self._port: int = port["port"] if isinstance(port, dict) else port
        self.clients = {
            number: self.client(number, fate, is_pure=is_pure) for number, fate in fates.items()
        }

    def client(self, number: int, fate: str = "", **facts: Any) -> Fork:
        """Start one more client."""
        given = {"port": self._port, "link": self._clients_link, **facts}
        return self._start("client", number=number, fate=fate, **given)

    def reached(self, number: int) -> Fork:
        """Wait until a client is where its fate awaits it."""
        fact(self.clients[number], "at")
        return self.clients[number]

    def go_on(self, number: int | None = None) -> None:
        """Let a server that pauses, or a client that waits, go on."""
        process = self.server if number is None else self.clients[number]
        process.stdin.write("\n")
        process.stdin.flush()

    def model(self) -> dict[str, Array]:
        """Return what the server's store holds."""
        source = sl.open_model(self._folder / "model")
        arrays = {
            tensor.name: np.empty(tensor.shape, tensor.numpy_dtype)
            for tensor in source.spec.tensors
        }
        sl.copy_model(source, ArrayModel(arrays))
        return arrays

    @property
    def spooled(self) -> list[Path]:
        """What is left in the spool."""
        return list((self._folder / "spool").rglob("*"))

    def _start(self, role: str, **facts: Any) -> Fork:
        process = _forks.start(role, facts)
        self._running.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        for process in self._running:
            process.close()


_forks = Forks(__name__, ROOT)

if __name__ == "__main__":
    serve_forks({"server": server, "client": client})
