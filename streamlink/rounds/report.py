"""What is said of a round: its report, how far each client is, and its lines in the log."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from streamlink.errors import StreamlinkError
from streamlink.link.server import Exchange, is_peers_turn
from streamlink.link.transfer import WAITING

__all__ = [
    "ClientProgress",
    "RoundReport",
    "ended",
    "log_round",
    "log_traceback",
    "progress_of",
    "wait_reply_of",
]

logger = logging.getLogger("streamlink.rounds")

_REPLY_SECONDS = 1.0  # a client's reply follows the end of its stream on another connection
_TRACEBACK_LINES, _TRACEBACK_WIDTH = 100, 500  # most of a client's traceback that is logged


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What one round gave."""

    round: int
    attempt: int
    seconds: float
    weights: dict[str, float]
    """Contributors and their weights: exactly those whose whole update is in the new model."""
    metrics: dict[str, float]
    """Averaged with the same weights as the model."""
    failures: dict[str, str] = field(default_factory=dict)
    """Clients that were asked and are not in it, and why."""
    metadata: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Small facts each contributor's task gave back."""
    recovered: tuple[str, ...] = ()
    """Contributors whose update was in the spool already when a killed server came back."""
    client_metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Each contributor's own metrics, as its task reported them, before they were averaged."""


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """How far one client is, for progress bars. Bytes."""

    peer: str
    phase: str
    sent: int
    received: int
    total: int
    """Of the model that is sent."""
    returns: int = 0
    """Of the model that comes; 0: not known yet."""
    held_for: str = ""
    """Whom its update waits for; empty: nobody."""
    stalled_by: str = ""
    """What limits its update now: ``network``, ``reader``, ``held``; empty: it has not begun."""
    is_working: bool = False
    """Whether it has the whole model, and nothing of its update waits here: it computes."""


def log_round(report: RoundReport) -> None:
    """Log a line of facts for a round that is done."""
    text = f"round {report.round} done in {report.seconds:.1f} s: {len(report.weights)} updates"
    facts = {"event": "round done", "facts": asdict(report)}
    logger.info("%s in the new model", text, extra=facts)


def progress_of(exchange: Exchange) -> ClientProgress:
    """Return how far one client is."""
    down, up = exchange.outgoing.stats, exchange.incoming.stats
    total = exchange.outgoing.spec.nbytes
    phase = "committing" if up.is_all_received else "streaming"
    if exchange.outgoing.is_waiting or exchange.incoming.is_waiting:
        phase = WAITING
    return ClientProgress(
        exchange.peer, phase, down.received_bytes, up.received_bytes, total,
        up.total_bytes, up.held_for or down.held_for, up.stalled_by or down.stalled_by,
        is_peers_turn(down, up),
    )  # fmt: skip


def ended(exchanges: Iterable[Exchange], counted: Container[str]) -> list[ClientProgress]:
    """Return how those stand at the end of a round whose updates are ``counted``."""
    return [
        replace(progress_of(each), phase="done", held_for="", stalled_by="", is_working=False)
        for each in exchanges
        if each.peer in counted
    ]


def wait_reply_of(exchange: Exchange) -> Mapping[str, str]:
    """Wait until the client has heard that its update counts: no goodbye may overtake that.

    Returns:
        What its task gave back; nothing where it left before it could say so.
    """
    try:
        reply = exchange.wait_reply(_REPLY_SECONDS)
    except StreamlinkError as error:
        logger.debug("%s left before its reply: %s", exchange.peer, error)
        return {}
    return reply.metadata if reply is not None else {}


def log_traceback(exchange: Exchange) -> None:
    """Log what a client's task raised, as its client tells it right after the stream's end."""
    try:
        reply = exchange.wait_reply(_REPLY_SECONDS)
    except StreamlinkError:
        return  # the client is gone; why is in the round's own error
    if reply is None or not reply.traceback:
        return
    logger.error("%s: the task raised %s", exchange.peer, reply.error[:_TRACEBACK_WIDTH])
    # A line each: it came from outside, and a record's line breaks are escaped.
    lines = reply.traceback.splitlines()[-_TRACEBACK_LINES:]
    if lines[-1] == reply.error:
        lines.pop()  # the line above has said it
    for line in lines:
        logger.error("%s: | %s", exchange.peer, line[:_TRACEBACK_WIDTH])
