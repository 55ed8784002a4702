"""What a peer's module is given in each of its two processes, and what it says through it.

A peer has two functions, ``send(end)`` and ``receive(end)``, each in a process of its own. One of
them listens and says so; the other one dials, and waits for the word. The clock runs from that word
to the moment when both have said that they are finished: the receiver has the whole model then, and
the sender knows whatever its protocol lets it know. Times are those of ``time.monotonic``, which
all processes of a machine share. Imported in the environments of the peers: the standard library
and NumPy only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from benchmarks.links import trees
from benchmarks.links.payload import Arrays, Payload, digest
from benchmarks.worker import Port, peak_rss_bytes, reset_peak

__all__ = ["End", "run"]

Role = Literal["send", "receive"]


class End:
    """One end of one transfer.

    Attributes:
        payload: what is moved.
        host: the address of the far end.
        number: the port to dial; 0 for the end that listens.
        variant: which of the peer's ways it is; empty where it has one only.
        folder: an empty folder, which is removed after the end of this process.
    """

    def __init__(self, port: Port, facts: Mapping[str, Any]) -> None:
        self._port = port
        self.payload = Payload(**facts["payload"])
        self.host, self.number = str(facts["host"]), int(facts["number"])
        self.variant = str(facts["variant"])
        self.folder = Path(facts["folder"])

    @property
    def address(self) -> str:
        """``HOST:PORT`` to dial; of the end that listens, with port 0."""
        return f"{self.host}:{self.number}"

    def base(self) -> None:
        """Take this moment as the base of memory: all is imported, and no model is here."""
        reset_peak()
        self._port.tell("base", base_rss_bytes=trees.rss_bytes(trees.members(os.getpid())))

    def listening(self, number: int) -> None:
        """Say at which port this end listens, on all addresses or on ``host``."""
        self._port.tell("listening", number=number)

    def wait_for_go(self) -> None:
        """Say that this end is connected, as far as its protocol can be; return at the word."""
        self._port.tell("ready")
        self._port.wait_for("go")
        self._port.tell("started", at=time.monotonic())

    def finished(self, model: Mapping[str, Any], **facts: Any) -> None:
        """Stop this end's clock, then say what it sent or received.

        Args:
            model: the arrays, by the names of the payload.
            facts: what else is to be kept with the result; JSON. ``connecting_seconds`` are taken
                off the time and added to that of the start.
        """
        self.finished_later(lambda: model, **facts)

    def finished_later(self, model: Callable[[], Mapping[str, Any]], **facts: Any) -> None:
        """Stop this end's clock, as ``finished`` does, where the arrays have to be read first."""
        self.finished_elsewhere(time.monotonic(), lambda: digest(model()), **facts)

    def finished_elsewhere(self, at: float, digest: Callable[[], str], **facts: Any) -> None:
        """Say that this end was finished at ``at``, where another process has the arrays.

        Args:
            at: by ``time.monotonic``; 0 where nobody at this end learns of it.
            digest: returns that of the model, once the clock is over.
            facts: as of ``finished``.
        """
        self._port.tell("finished", at=at, peak_rss_bytes=peak_rss_bytes(), **facts)
        self._port.wait_for("verify")
        self._port.tell("verified", digest=digest())
        self._port.wait_for("end")

    def source(self) -> Arrays:
        """Return the model to send."""
        return self.payload.model()

    def target(self) -> Arrays:
        """Return arrays to receive into."""
        return self.payload.blank()


def run(port: Port, module: str, role: Role, **facts: Any) -> None:
    """Be one end of a transfer: what a process of ``benchmarks.worker`` does."""
    getattr(import_module(module), role)(End(port, facts))
