"""Answers at the operator's socket for a process that moves one model, or serves one."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from streamlink.link import HasTraffic, StreamStats, Totals
from streamlink.link.fetch_desk import Fetch, FetchDesk
from streamlink.operate.control import ControlError
from streamlink.operate.status import Memory, Rates, bandwidth, limit, text_of

__all__ = ["FetchOperator", "SendOperator", "ServeOperator", "TransferOperator"]

_Moved = Mapping[tuple[str, str], Totals]
_Rates = Mapping[tuple[str, str], float]


class _Operator(ABC):
    """Answers for a process that moves one model, and ends when it is aborted.

    Args:
        of: the traffic to report.
        memory: made before the first channel.
        stop: ends it; its argument is the reason.
    """

    program: ClassVar[str]  # the command that runs it
    subject: ClassVar[str]  # what refuses an unknown request
    aborted: ClassVar[str]  # the answer to ``abort``

    def __init__(self, of: HasTraffic, memory: Memory, stop: Callable[[str], None]) -> None:
        self._memory = memory
        self._stop = stop
        self._rates = Rates(of)
        self._began = time.time()
        self.listens = ""
        """The address at which peers reach it; empty: it does not listen yet."""

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer ``{"do": "status" | "abort" | "limit", ...}``.

        Raises:
            ControlError: the request is unknown, or a limit is wrong.
        """
        match question.get("do"):
            case "status":
                return self.status()
            case "abort":
                self._stop(text_of(question, "reason", "no reason given"))
                return {"done": self.aborted}
            case "limit":
                return {"done": limit(question)}
        raise ControlError(
            f"unknown request {question.get('do')!r}: {self.subject} knows status, abort and limit"
        )

    def status(self) -> dict[str, Any]:
        """Return the status of the process."""
        totals, rates = self._rates.now()
        return {
            "program": self.program,
            "listens": self.listens,
            "pid": os.getpid(),
            "began": self._began,
            "now": time.time(),
            **self._progress(totals, rates),
            "bandwidth": bandwidth(self._rates),
            "memory": self._memory.facts(),
        }

    @abstractmethod
    def _progress(self, totals: _Moved, rates: _Rates) -> dict[str, Any]:
        """Return how far it is."""


class TransferOperator(_Operator):
    """Answers for a process that receives one model."""

    program = "receive"
    subject = "a transfer"
    aborted = "the transfer is being ended; a resumable store keeps its bytes"
    waits: ClassVar[str] = "waiting for a sender"  # the phase before a stream
    waits_again: ClassVar[str] = "waiting for the next sender"
    phase: ClassVar[str] = "receiving"  # the one that needs a stream
    way: ClassVar[tuple[str, str]] = ("received", "receive")  # in the names of the facts

    def __init__(self, of: HasTraffic, memory: Memory, stop: Callable[[str], None]) -> None:
        super().__init__(of, memory, stop)
        self._since = self._began
        self._now: tuple[str, str, int, int] = ("", self.waits, 0, 0)

    def update(self, peer_name: str, phase: str, done: int, total: int) -> None:
        """Record the progress of the transfer; called for every chunk."""
        if phase != self._now[1]:
            self._since = time.time()
        # One assignment, which is atomic in CPython: a status never mixes two updates, and no chunk
        # waits for a lock.
        self._now = peer_name, phase, done, total

    def _progress(self, totals: _Moved, rates: _Rates) -> dict[str, Any]:
        name, phase, done, total = self._now
        ours = [key for key in totals if self._is_ours(key, name)]
        moved = sum((totals[key] for key in ours), Totals())
        if phase == self.phase and not moved.streams:
            phase = self.waits_again  # the last one disconnected
        has, does = self.way
        return {
            "phase": phase,
            "since": self._since,
            "peer_name": name,
            f"{has}_bytes": done,
            f"{does}_total_bytes": total,
            f"{self.phase}_rate": round(sum(rates.get(key, 0.0) for key in ours)),
            "resumes": moved.resumes,
            "repairs": moved.repairs,
            "damaged": moved.damaged,
        }

    def _is_ours(self, key: tuple[str, str], name: str) -> bool:
        """Whether these totals are those of the stream that is shown."""
        return key[0] == name


class FetchOperator(TransferOperator):
    """Answers for a process that fetches one model from ``address``."""

    program = "fetch"
    waits = "connecting"
    waits_again = "connecting again"

    def __init__(
        self, of: HasTraffic, memory: Memory, stop: Callable[[str], None], address: str
    ) -> None:
        super().__init__(of, memory, stop)
        self._now = (address, self.waits, 0, 0)

    def _is_ours(self, key: tuple[str, str], name: str) -> bool:
        return True  # it has one peer, whose own name it learns as it connects


class SendOperator(FetchOperator):
    """Answers for a process that sends one model to ``address``."""

    program = "send"
    aborted = "the transfer is being ended; a resumable store at the other end keeps its bytes"
    phase = "sending"
    way = ("sent", "send")


class ServeOperator(_Operator):
    """Answers for a process that serves one model, whose ``desk`` knows the fetchers."""

    program = "serve"
    subject = "a served model"
    aborted = "the serving is being ended; fetchers keep what can be resumed"

    def __init__(
        self, desk: FetchDesk, of: HasTraffic, memory: Memory, stop: Callable[[str], None]
    ) -> None:
        super().__init__(of, memory, stop)
        self._desk = desk

    def _progress(self, totals: _Moved, rates: _Rates) -> dict[str, Any]:
        return {
            "served": self._desk.served,
            "count": self._desk.count,
            "clients": [
                _fetcher(each, each.transfer.stats, rates.get((each.peer_name, "sent"), 0.0))
                for each in self._desk.fetches
                if each.transfer is not None
            ],
        }


def _fetcher(fetch: Fetch, stats: StreamStats, rate: float) -> dict[str, Any]:
    """Return the facts of one fetcher, under the names that those of a job's client have."""
    return {
        "name": fetch.peer_name,
        "presence": "away" if fetch.is_away else "here",
        "excluded": "",
        "sent_bytes": stats.received_bytes,
        "send_total_bytes": stats.total_bytes,
        "received_bytes": 0,
        "receive_total_bytes": 0,
        "sending_rate": round(rate),
        "receiving_rate": 0,
        "is_working": False,
        "held_for": "",
        "stalled_by": stats.stalled_by,
        "resumes": stats.resumes,
        "repairs": stats.repairs,
        "damaged": 0,
    }
