"""What a process says of itself over the operator's socket, and what it lets itself be told.

A status is a plain mapping, as JSON has it. Sizes are bytes, spans are seconds, points in time are
seconds since 1970.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from streamlink.errors import StoreError
from streamlink.link import HasTraffic, Totals
from streamlink.link.server import Peer, Server
from streamlink.operate.control import Answer, ControlError
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.report import ClientProgress

__all__ = ["JobDesk", "Memory", "Rates", "Reception", "TransferDesk"]

_RATE_SECONDS = (0.2, 30.0)  # how old the sample before may be that a rate is taken from
_SHORT_SECONDS = 0.5  # where there is none, bytes are counted for so long


class Memory:
    """Resident memory of this process, over what it was when this was made."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.base_bytes = self._process.memory_info().rss

    def facts(self, peak_bytes: int | None = None) -> dict[str, Any]:
        """Return what is resident now, and what may be (bytes)."""
        now = self._process.memory_info().rss
        return {
            "resident_bytes": now,
            "base_bytes": self.base_bytes,
            "over_base_bytes": max(0, now - self.base_bytes),
            "peak_bytes": peak_bytes,
        }


class Rates:
    """Bytes per second of each peer and direction, from one question to the next."""

    def __init__(self, of: HasTraffic, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._of = of
        self._clock = clock
        self._lock = threading.Lock()
        self._before: tuple[float, Mapping[tuple[str, str], Totals]] | None = None

    def now(self) -> tuple[Mapping[tuple[str, str], Totals], dict[tuple[str, str], float]]:
        """Return the totals so far, and the rates (bytes per second)."""
        with self._lock:
            before = self._before
        shortest, longest = _RATE_SECONDS
        if before is None or not shortest <= self._clock() - before[0] <= longest:
            before = self._clock(), self._of.traffic.totals()
            threading.Event().wait(_SHORT_SECONDS)
        at, totals = self._clock(), self._of.traffic.totals()
        with self._lock:
            self._before = at, totals
        seconds = max(at - before[0], 1e-6)
        return totals, {
            key: max(0, total.bytes - before[1].get(key, Totals()).bytes) / seconds
            for key, total in totals.items()
        }


class Reception:
    """Answers for a process that is starting, until a desk takes over."""

    def __init__(self) -> None:
        self._desk: Answer | None = None

    def hand_over(self, desk: Answer) -> None:
        """Let ``desk`` answer from now on."""
        self._desk = desk

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer as the desk does.

        Raises:
            ControlError: there is none yet.
        """
        if self._desk is None:
            raise ControlError("this process is still starting; ask again in a moment")
        return self._desk(question)


class JobDesk:
    """Answers for a server that runs a job.

    Args:
        server: where its clients are.
        job: the job.
        memory: made before the first channel.
        ledger: where the job's rounds are noted: it tells whether the job is over, once this is.
    """

    def __init__(
        self, server: Server, job: ScatterAndGather, memory: Memory, ledger: Path | None = None
    ) -> None:
        self._server = server
        self._job = job
        self._memory = memory
        self._ledger = "" if ledger is None else str(ledger.absolute())
        self._rates = Rates(server)
        self._began = time.time()

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer ``{"do": "status" | "abort" | "drop" | "readmit", ...}``.

        Raises:
            ControlError: it is no such question.
            RoundError: there is no such client.
            StoreError: the order holds, but not after a restart; says why.
        """
        reason, client = _text(question, "reason", "no reason given"), _text(question, "client")
        match question.get("do"):
            case "status":
                return self.status()
            case "abort":
                self._job.abort(reason)
                return {"done": "the job ends; the last whole model stands"}
            case "drop":
                return {"done": self._drop(client, reason)}
            case "readmit":
                return {"done": self._readmit(client)}
        raise ControlError(f"this end does not know what {question.get('do')!r} is")

    def status(self) -> dict[str, Any]:
        """Return how the job stands."""
        totals, rates = self._rates.now()
        state = self._job.state()
        peers = self._server.peers
        progress = {each.peer: each for each in self._job.client_progress()}
        clients = [
            self._client(peer.name, peer, progress.get(peer.name), totals, rates) for peer in peers
        ]
        here = {peer.name for peer in peers}
        lost = [*state.lost, *(name for name in self._server.barred if name not in state.lost)]
        clients += [
            self._client(name, None, None, totals, rates) for name in lost if name not in here
        ]
        peak = self._job.peak_bytes(max(1, len(peers)))
        return {
            "program": "server",
            "pid": os.getpid(),
            "listens": self._server.address,
            "began": self._began,
            "now": time.time(),
            **{name: value for name, value in asdict(state).items() if name != "lost"},
            "ledger": self._ledger,
            "clients": clients,
            "memory": self._memory.facts(peak),
        }

    def _drop(self, client: str, reason: str) -> str:
        try:
            if self._job.drop(client, reason):
                return f"{client} is thrown out, until it is let in again (--readmit)"
        except StoreError as error:
            raise StoreError(f"{client} is thrown out until this server ends: {error}") from error
        return f"{client} is out already, {self._server.barred.get(client, '')}; that reason stays"

    def _readmit(self, client: str) -> str:
        try:
            if self._job.readmit(client):
                return f"{client} is let in again"
        except StoreError as error:
            raise StoreError(f"{client} is let in until this server ends: {error}") from error
        out = ", ".join(sorted(self._server.barred)) or "none"
        return f"{client} was not thrown out, and nothing changes; thrown out: {out}"

    def _client(
        self,
        name: str,
        peer: Peer | None,
        client: ClientProgress | None,
        totals: Mapping[tuple[str, str], Totals],
        rates: Mapping[tuple[str, str], float],
    ) -> dict[str, Any]:
        presence = "lost" if peer is None else "away" if peer.is_disconnected else "here"
        down, up = totals.get((name, "sent"), Totals()), totals.get((name, "received"), Totals())
        both = down + up
        moving = rates.get((name, "sent"), 0.0), rates.get((name, "received"), 0.0)
        is_working = client is not None and client.is_working and presence == "here"
        return {
            "name": name,
            "presence": presence,
            "thrown_out": self._server.barred.get(name, ""),
            "sent_bytes": client.sent if client else 0,
            "sends_bytes": client.total if client else 0,
            "received_bytes": client.received if client else 0,
            "receives_bytes": (client.returns or client.total) if client else 0,
            "sending_rate": round(moving[0]),
            "receiving_rate": round(moving[1]),
            "works": is_working and not any(moving),
            "held_for": client.held_for if client else "",
            "stalled_by": client.stalled_by if client else "",
            "resumes": both.resumes,
            "repairs": both.repairs,
            "damaged": both.damaged,
            "resent_bytes": both.resent_bytes,
        }


class TransferDesk:
    """Answers for a process that receives one model.

    Args:
        of: whose traffic it is.
        memory: made before the first channel.
        stop: ends the transfer, told why.
    """

    def __init__(self, of: HasTraffic, memory: Memory, stop: Callable[[str], None]) -> None:
        self._memory = memory
        self._stop = stop
        self._rates = Rates(of)
        self._began = self._since = time.time()
        self._now: tuple[str, str, int, int] = ("", "waiting for a sender", 0, 0)
        self.listens = ""
        """Where senders reach it; empty: nowhere yet."""

    def told(self, peer: str, phase: str, done: int, total: int) -> None:
        """Take over how far it is; called for every chunk."""
        if phase != self._now[1]:
            self._since = time.time()
        self._now = peer, phase, done, total

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer ``{"do": "status" | "abort", ...}``.

        Raises:
            ControlError: it is no such question.
        """
        match question.get("do"):
            case "status":
                return self.status()
            case "abort":
                self._stop(_text(question, "reason", "no reason given"))
                return {"done": "the transfer ends; what has come is kept where the store can"}
        raise ControlError(f"a transfer does not know what {question.get('do')!r} is")

    def status(self) -> dict[str, Any]:
        """Return how the transfer stands."""
        totals, rates = self._rates.now()
        peer, phase, done, total = self._now
        moved = sum((each for key, each in totals.items() if key[0] == peer), Totals())
        if phase == "receiving" and not moved.streams:
            phase = "waiting for the next sender"  # this one has left
        return {
            "program": "receive",
            "listens": self.listens,
            "pid": os.getpid(),
            "began": self._began,
            "now": time.time(),
            "phase": phase,
            "since": self._since,
            "peer": peer,
            "received_bytes": done,
            "receives_bytes": total,
            "receiving_rate": round(sum(rate for key, rate in rates.items() if key[0] == peer)),
            "resumes": moved.resumes,
            "repairs": moved.repairs,
            "damaged": moved.damaged,
            "memory": self._memory.facts(),
        }


def _text(question: Mapping[str, Any], name: str, default: str = "") -> str:
    value = question.get(name) or default
    if not isinstance(value, str) or len(value) > 1000:
        raise ControlError(f"{name} is a text of at most 1,000 characters")
    return value
