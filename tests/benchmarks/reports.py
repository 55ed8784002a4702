"""Synthetic reports of the large-model example."""

from __future__ import annotations

import math
from typing import Any

MIB = 1 << 20


def process(role: str, name: str, *, extra_mib: float = 60, points: int = 400) -> dict[str, Any]:
    """Return one process's entry: memory that rises to ``extra_mib`` over a base of 80 MiB."""
    wave = [math.sin(math.pi * n / points) ** 2 for n in range(points)]
    return {
        "role": role,
        "name": name,
        "base_rss_bytes": 80 * MIB,
        "peak_rss_bytes": int((80 + extra_mib) * MIB),
        "cpu_seconds": 12.5,
        "rss": [[n * 0.05, int((80 + extra_mib * w) * MIB)] for n, w in enumerate(wave)],
    }


def report(*, clients: int = 2, server_mib: float = 60, budget_mib: float = 150) -> dict[str, Any]:
    """Return a report with one server and some clients."""
    names = [f"site-{number}" for number in range(1, clients + 1)]
    return {
        "commit": "0123456789ab",
        "verified": True,
        "model_bytes": 64 * 16 * 10**6,
        "keys": 64,
        "clients": clients,
        "rounds": 3,
        "wire_bytes_sent": 1,
        "wire_bytes_received": 1,
        "seconds": 20.0,
        "rounds_seconds": [7.0, 6.5, 6.5],
        "final_digest": "00",
        "server_peak_bytes": int(budget_mib * MIB),
        "processes": [
            process("server", "server", extra_mib=server_mib),
            *(process("client", name, extra_mib=40) for name in names),
        ],
    }
