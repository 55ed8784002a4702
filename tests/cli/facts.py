"""Recorded answers of the operator's socket, as a status has them."""

from __future__ import annotations

from typing import Any

GiB = 1 << 30
MEMORY = {
    "resident_bytes": 80 << 20, "base_bytes": 70 << 20, "over_base_bytes": 10 << 20,
    "peak_bytes": 170 << 20,
}  # fmt: skip


def of_a_client(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "name": name, "presence": "here", "excluded": "", "sent_bytes": 4 * GiB,
        "send_total_bytes": 4 * GiB, "received_bytes": GiB, "receive_total_bytes": 4 * GiB,
        "sending_rate": 0, "receiving_rate": 1 << 20, "is_working": False, "held_for": "",
        "stalled_by": "network", "resumes": 0, "repairs": 0, "damaged": 0, "resent_bytes": 0,
        **facts,
    }  # fmt: skip


def of_a_job(count: int, **facts: Any) -> dict[str, Any]:
    return {
        "program": "server", "pid": 4198, "listens": "10.0.0.5:8517", "began": 0.0, "now": 112.0,
        "job": "job", "phase": "gathering", "since": 100.0, "round": 0, "attempt": 1, "updates": 0,
        "rounds_done": 0, "last_rounds": [], "troubles": [], "first_round": 0, "rounds": 5,
        "clients": [of_a_client(f"site-{n}") for n in range(1, count + 1)],
        "memory": MEMORY, "ledger": "", **facts,
    }  # fmt: skip


def of_a_transfer(received: int, total: int) -> dict[str, Any]:
    return {
        "program": "receive", "pid": 4198, "began": 0.0, "now": 112.0, "phase": "receiving",
        "since": 100.0, "peer_name": "me", "received_bytes": received, "receive_total_bytes": total,
        "receiving_rate": 1 << 20, "resumes": 0, "repairs": 0, "damaged": 0, "memory": MEMORY,
    }  # fmt: skip


def of_serving(served: int, **facts: Any) -> dict[str, Any]:
    return {
        "program": "serve", "pid": 4198, "listens": "10.0.0.5:8470", "began": 100.0, "now": 112.0,
        "served": served, "count": None, "clients": [], "memory": MEMORY, **facts,
    }  # fmt: skip
