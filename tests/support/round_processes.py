"""A whole job as processes, for the table of outcomes: the server's rules and each client's fate.

``python -m tests.support.round_processes server JSON`` and ``... client JSON`` tell facts, one JSON
object a line, as ``tests.support.processes`` does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

import streamlink as sl
from tests.support.peers import ODD, WAIT, Array, initial, trained
from tests.support.processes import ROOT, fact, tell

LINK = {
    "stream": {"chunk_bytes": 4096, "min_chunk_bytes": 1024, "window_bytes": 16384},
    "timeouts": {
        "heartbeat_interval": 0.2,
        "session_timeout": 4.0,
        "reconnect_timeout": 1.0,
    },
}
STOPS_AT = "bf16"
"""Clients that stop, die or fail do it at the first range of this tensor."""


def server(facts: Mapping[str, Any]) -> None:
    """Run the rounds; tell the port, each report, and the final digest."""
    store = sl.open_store(facts["store"])
    rules = sl.RoundConfig.model_validate(facts["rules"])
    with sl.Server("127.0.0.1:0", sl.LinkConfig.model_validate(LINK)) as listening:
        tell(port=listening.port)
        listening.wait_for_peers(facts["clients"], WAIT)
        job = sl.ScatterAndGather(
            listening,
            store,
            rules,
            spool=facts["spool"],
            on_event=lambda e: tell(event=e.what.value),
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
    tell(digest=sl.digest_of(store.open()))


def client(facts: Mapping[str, Any]) -> None:
    """Take part until the server says goodbye; what happens at ``STOPS_AT`` is its ``fate``."""
    number, fate = facts["number"], facts["fate"]
    work, once = trained(number), threading.Event()

    def function(tensor: sl.TensorSpec, start: int, values: Array) -> Array:
        result = work(tensor, start, values)
        if tensor.name != STOPS_AT or once.is_set():
            return result
        once.set()
        tell(at=STOPS_AT)
        match fate:
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "hang":
                signal.pause()
            case "raise":
                raise ValueError("the data set is empty")
            case "nan":
                result = np.full_like(result, np.nan)
            case "short":
                result = result[:-1]
        return result

    metrics = {"loss": float(facts.get("loss", number))}
    executor = sl.StreamingExecutor(
        function, weight=facts.get("weight", 1.0), metrics=lambda: metrics
    )
    link = sl.LinkConfig.model_validate(LINK)
    with suppress(sl.StreamlinkError):
        with sl.Client(f"127.0.0.1:{facts['port']}", f"site-{number}", executor, link) as site:
            site.run()


class Job:
    """The processes of one job; all are killed at its end."""

    def __init__(
        self, folder: Path, *, gather: str, fates: Mapping[int, str], **rules: Any
    ) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        store = sl.open_store(folder / "model")
        sl.copy_model(sl.ArrayModel(initial()), store.begin(ODD))
        settings = {"min_clients": 2, "num_rounds": 1, "gather": gather, **rules}
        self.server = self._start(
            "server",
            store=str(folder / "model"),
            spool=str(folder / "spool"),
            clients=len(fates),
            rules=settings,
        )
        port = fact(self.server, "port")
        self._port: int = port["port"] if isinstance(port, dict) else port
        self.clients = {number: self.client(number, fate) for number, fate in fates.items()}

    def client(self, number: int, fate: str = "", **facts: Any) -> subprocess.Popen[str]:
        """Start one more client."""
        return self._start("client", port=self._port, number=number, fate=fate, **facts)

    def reached(self, number: int) -> subprocess.Popen[str]:
        """Wait until a client is where its fate awaits it."""
        fact(self.clients[number], "at")
        return self.clients[number]

    def model(self) -> dict[str, Array]:
        """Return what the server's store holds."""
        source = sl.open_model(self._folder / "model")
        arrays = {
            tensor.name: np.empty(tensor.shape, tensor.numpy_dtype)
            for tensor in source.spec.tensors
        }
        sl.copy_model(source, sl.ArrayModel(arrays))
        return arrays

    @property
    def spooled(self) -> list[Path]:
        """What is left in the spool."""
        return list((self._folder / "spool").rglob("*"))

    def _start(self, role: str, **facts: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", __name__, role, json.dumps(facts)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._running.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


if __name__ == "__main__":
    {"server": server, "client": client}[sys.argv[1]](json.loads(sys.argv[2]))
