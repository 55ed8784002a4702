"""The bare sockets that were fastest in the committed report of ``raw``, as a peer.

So the reference is chosen before the run that is judged, as ``longline`` does it. In that run they
move their bytes in turn with all others; only the size of their buffers comes from the report.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peers import Peer
from benchmarks.sockets import ways

__all__ = ["REPORT", "fastest"]

REPORT = Path(__file__).resolve().parent / "results" / "raw.json"
COMMAND = "python -m benchmarks raw --json benchmarks/results/raw.json"


def fastest(kind: str, report: Path = REPORT) -> Peer:
    """Return the peer of a kind (``raw TCP`` or ``raw TLS``) that had the best median.

    Raises:
        LookupError: there is no report, or it does not know such a peer.
    """
    if not report.exists():
        raise LookupError(f"{report} is missing: the reference is measured first, by `{COMMAND}`")
    name = json.loads(report.read_text(encoding="utf-8"))["results"]["raw"]["best"].get(kind)
    known = {way.peer.name: way.peer for way in ways("with TLS")}
    if name not in known:
        raise LookupError(f"{report} has no {kind}; measure it by `{COMMAND}`")
    return known[name]
