"""Answers at the operator's socket for a client of a job.

A client has no store of its own, and its server decides what it does. So there is little to order:
to end, and to have another bandwidth limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from streamlink.link import HasTraffic
from streamlink.operate.control import ControlError
from streamlink.operate.status import Memory, Rates, bandwidth, limit, text_of
from streamlink.rounds.report import ClientProgress

__all__ = ["ClientOperator"]


class Member(HasTraffic, Protocol):
    """One site of a job, such as ``Client``."""

    name: str
    tasks_done: int


class ClientOperator:
    """Answers for a process that takes part in a job.

    Args:
        client: it.
        address: of its server.
        doing: returns what it does, such as ``site-1: train, job 'job' round 0``.
        progress: returns how far its task is; none or one.
        limited_by: returns what limits the stream that moves now; empty: nothing.
        memory: made before the first channel.
        stop: ends it; its argument is the reason.
    """

    def __init__(
        self,
        client: Member,
        address: str,
        doing: Callable[[], str],
        progress: Callable[[], Sequence[ClientProgress]],
        limited_by: Callable[[], str],
        memory: Memory,
        stop: Callable[[str], None],
    ) -> None:
        self._client, self._address = client, address
        self._doing, self._progress, self._limited_by = doing, progress, limited_by
        self._memory, self._stop = memory, stop
        self._rates = Rates(client)
        self._began = time.time()

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
                return {"done": "the client is being ended; its job decides how it goes on without"}
            case "limit":
                return {"done": limit(question)}
        raise ControlError(
            f"unknown request {question.get('do')!r}: a client knows status, abort and limit"
        )

    def status(self) -> dict[str, Any]:
        """Return the status of the client. *Sent* is its update, *received* the model."""
        _, rates = self._rates.now()
        moving = {
            direction: round(sum(rate for key, rate in rates.items() if key[1] == direction))
            for direction in ("sent", "received")
        }
        now = next(iter(self._progress()), None)
        return {
            "program": "client",
            "name": self._client.name,
            "server": self._address,
            "pid": os.getpid(),
            "began": self._began,
            "now": time.time(),
            "doing": self._doing(),
            "tasks_done": self._client.tasks_done,
            "phase": now.phase if now else "",
            "sent_bytes": now.sent if now else 0,
            "send_total_bytes": now.total if now else 0,
            "received_bytes": now.received if now else 0,
            "receive_total_bytes": now.returns if now else 0,
            "sending_rate": moving["sent"],
            "receiving_rate": moving["received"],
            "held_for": now.held_for if now else "",
            "stalled_by": self._limited_by(),
            "bandwidth": bandwidth(self._rates),
            "memory": self._memory.facts(),
        }
