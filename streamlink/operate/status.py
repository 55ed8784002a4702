"""Answers requests at the operator's socket: the status of a process, and commands to it.

A status is a JSON object. Sizes are in bytes, durations in seconds, points in time in seconds since
1970.
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
from streamlink.link import HasTraffic, Totals, bandwidth_facts, change_bandwidth
from streamlink.link.peer import Peer
from streamlink.link.server import Server
from streamlink.operate.control import Answer, ControlError
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.report import ClientProgress

__all__ = [
    "JobOperator",
    "Memory",
    "Rates",
    "StartingOperator",
    "bandwidth",
    "limit",
    "text_of",
]

# Shorter than this, one chunk more or less decides; longer, it says nothing of the present.
_RATE_SECONDS = (0.2, 30.0)  # the age of the previous sample, if a rate is computed from it
_SHORT_SECONDS = 0.5  # without such a sample, bytes are counted for this long


class Memory:
    """Resident memory of this process, and how much it grew since this object was made."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.base_bytes = self._process.memory_info().rss

    def facts(self, peak_bytes: int | None = None) -> dict[str, Any]:
        """Return the resident memory now, and the limit that the settings imply (bytes)."""
        now = self._process.memory_info().rss
        return {
            "resident_bytes": now,
            "base_bytes": self.base_bytes,
            "over_base_bytes": max(0, now - self.base_bytes),
            "peak_bytes": peak_bytes,
        }


class Rates:
    """Bytes per second of each peer and direction, between two requests."""

    def __init__(self, of: HasTraffic, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._of = of
        self._clock = clock
        self._lock = threading.Lock()
        self._before: tuple[float, Mapping[tuple[str, str], Totals]] | None = None
        self.wire = {"sent": 0.0, "received": 0.0}
        """What all streams moved on the wire by the last ``now`` (bytes per second)."""

    def now(self) -> tuple[Mapping[tuple[str, str], Totals], dict[tuple[str, str], float]]:
        """Return the totals so far, and the rates (bytes per second)."""
        with self._lock:
            before = self._before
        shortest, longest = _RATE_SECONDS
        if before is None or not shortest <= self._clock() - before[0] <= longest:
            before = self._clock(), self._of.traffic.totals()
            # Not under the lock: a second operator must not wait for the first one's half second.
            threading.Event().wait(_SHORT_SECONDS)
        at, totals = self._clock(), self._of.traffic.totals()
        with self._lock:
            self._before = at, totals
        seconds = max(at - before[0], 1e-6)
        self.wire = {
            direction: max(0, _wire(totals, direction) - _wire(before[1], direction)) / seconds
            for direction in ("sent", "received")
        }
        return totals, {
            # A peer that was added to the others and came back counts from 0 again: no negative
            # rate.
            key: max(0, total.bytes - before[1].get(key, Totals()).bytes) / seconds
            for key, total in totals.items()
        }


def bandwidth(rates: Rates) -> dict[str, Any]:
    """Return the limit of this process, and what it moves (bytes per second).

    ``rates`` has been asked for what it moves just now.
    """
    facts, moved = bandwidth_facts(), rates.wire
    return {
        "bwlimit": facts.bwlimit,
        "up_limit": facts.limit.up,
        "down_limit": facts.limit.down,
        "up_rate": round(moved["sent"]),
        "down_rate": round(moved["received"]),
    }


def limit(question: Mapping[str, Any]) -> str:
    """Have the limit that the operator asks for; returns what is in force then.

    Raises:
        ControlError: it is none, or too low.
    """
    try:
        facts = change_bandwidth(text_of(question, "bwlimit"))
    except ValueError as error:
        raise ControlError(str(error)) from error
    return f"the limit is {facts.bwlimit or 'off'}; the process now {facts.limit}"


class StartingOperator:
    """Answers while a process is starting, until its real operator is set."""

    def __init__(self) -> None:
        self._answer: Answer | None = None

    def hand_over(self, answer: Answer) -> None:
        """Let ``answer`` answer from now on."""
        self._answer = answer

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer as the real operator does.

        Raises:
            ControlError: there is none yet.
        """
        if self._answer is None:
            raise ControlError("this process is still starting; ask again in a moment")
        return self._answer(question)


class JobOperator:
    """Answers for a server that runs a job.

    Args:
        server: the server.
        job: the job.
        memory: made before the first channel.
        ledger: the file with the rounds that are done; it shows whether the job is over after this
            process ended.
    """

    def __init__(
        self, server: Server, job: ScatterAndGather, memory: Memory, ledger: Path | None = None
    ) -> None:
        self._server = server
        self._job = job
        self._memory = memory
        self._ledger = "" if ledger is None else str(ledger.absolute())
        self._rates = Rates(server)
        self._began = server.clock.wall()

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer ``{"do": "status" | "abort" | "drop" | "readmit" | "limit", ...}``.

        Raises:
            ControlError: the request is unknown, or a limit is wrong.
            RoundError: there is no such client.
            StoreError: the command takes effect, but could not be stored for a restart; says why.
        """
        reason, client = (
            text_of(question, "reason", "no reason given"),
            text_of(question, "client"),
        )
        match question.get("do"):
            case "status":
                return self.status()
            case "abort":
                self._job.abort(reason)
                return {"done": "the job is being ended; the last whole model stays"}
            case "drop":
                return {"done": self._drop(client, reason)}
            case "readmit":
                return {"done": self._readmit(client)}
            case "limit":
                return {"done": limit(question)}
        raise ControlError(
            f"unknown request {question.get('do')!r}: a server knows status, abort, drop, readmit, "
            "limit"
        )

    def status(self) -> dict[str, Any]:
        """Return the status of the job and its clients."""
        totals, rates = self._rates.now()
        state = self._job.state()
        peers = self._server.peers()
        progress = {each.peer_name: each for each in self._job.client_progress()}
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
            "now": self._server.clock.wall(),
            **{name: value for name, value in asdict(state).items() if name != "lost"},
            "ledger": self._ledger,
            "clients": clients,
            "bandwidth": bandwidth(self._rates),
            "memory": self._memory.facts(peak),
        }

    def _drop(self, client: str, reason: str) -> str:
        try:
            if self._job.drop(client, reason):
                return f"{client} is excluded until it is readmitted (--readmit)"
        except StoreError as error:
            raise StoreError(
                f"{client} is excluded, but only until this server ends: {error}"
            ) from error
        return f"{client} was already {self._server.barred.get(client, '')}; that reason stays"

    def _readmit(self, client: str) -> str:
        try:
            if self._job.readmit(client):
                return f"{client} is readmitted"
        except StoreError as error:
            raise StoreError(
                f"{client} is readmitted, but only until this server ends: {error}"
            ) from error
        excluded = ", ".join(sorted(self._server.barred)) or "none"
        return f"{client} was not excluded, so nothing changes; excluded clients: {excluded}"

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
            "excluded": self._server.barred.get(name, ""),
            "sent_bytes": client.sent if client else 0,
            "send_total_bytes": client.total if client else 0,
            "received_bytes": client.received if client else 0,
            "receive_total_bytes": (client.returns or client.total) if client else 0,
            "sending_rate": round(moving[0]),
            "receiving_rate": round(moving[1]),
            "is_working": is_working and not any(moving),
            "held_for": client.held_for if client else "",
            "stalled_by": client.stalled_by if client else "",
            "resumes": both.resumes,
            "repairs": both.repairs,
            "damaged": both.damaged,
            "resent_bytes": both.resent_bytes,
        }


def _wire(totals: Mapping[tuple[str, str], Totals], direction: str) -> int:
    return sum(total.wire_bytes for key, total in totals.items() if key[1] == direction)


def text_of(question: Mapping[str, Any], name: str, default: str = "") -> str:
    """Return a text of the operator's request, or ``default`` where there is none.

    Raises:
        ControlError: it is no text, or too long.
    """
    value = question.get(name) or default
    # At most 4 KB in UTF-8: a reason is sent to the peers, which accept 8 KiB of text.
    if not isinstance(value, str) or len(value) > 1000:
        raise ControlError(f"{name} is a text of at most 1,000 characters")
    return value
