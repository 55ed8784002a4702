"""Answers at the operator's socket for a process that serves one model to whoever fetches it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from streamlink.link import HasTraffic, StreamStats
from streamlink.link.fetch_desk import Fetch, FetchDesk
from streamlink.operate.control import ControlError
from streamlink.operate.status import Memory, Rates, text_of

__all__ = ["ServeOperator"]


class ServeOperator:
    """Answers for a process that serves one model.

    Args:
        desk: knows the fetchers.
        of: the traffic to report.
        memory: made before the first channel.
        stop: ends the serving; its argument is the reason.
    """

    def __init__(
        self, desk: FetchDesk, of: HasTraffic, memory: Memory, stop: Callable[[str], None]
    ) -> None:
        self._desk, self._memory, self._stop = desk, memory, stop
        self._rates = Rates(of)
        self._began = time.time()
        self.listens = ""
        """The address at which fetchers reach it; empty: it does not listen yet."""

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer ``{"do": "status" | "abort", ...}``.

        Raises:
            ControlError: the request is unknown.
        """
        match question.get("do"):
            case "status":
                return self.status()
            case "abort":
                self._stop(text_of(question, "reason", "no reason given"))
                return {"done": "the serving is being ended; fetchers keep what can be resumed"}
        raise ControlError(
            f"unknown request {question.get('do')!r}: a served model knows status and abort"
        )

    def status(self) -> dict[str, Any]:
        """Return how many fetches are done, and how far each of the others is."""
        _, rates = self._rates.now()
        return {
            "program": "serve",
            "listens": self.listens,
            "pid": os.getpid(),
            "began": self._began,
            "now": time.time(),
            "served": self._desk.served,
            "count": self._desk.count,
            "clients": [
                _fetcher(each, each.transfer.stats, rates.get((each.peer_name, "sent"), 0.0))
                for each in self._desk.fetches
                if each.transfer is not None
            ],
            "memory": self._memory.facts(),
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
