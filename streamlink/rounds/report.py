"""Reports of rounds: the result of each, the progress of each client, and the log lines."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from streamlink.errors import StreamAborted, StreamlinkError
from streamlink.link.peer_request import PeerRequest, is_peers_turn
from streamlink.link.transfer import WAITING
from streamlink.rounds.evaluate.report import Evaluation

__all__ = [
    "ClientProgress",
    "RoundReport",
    "final_progress",
    "log_round",
    "log_traceback",
    "progress_of",
    "wait_for_reply",
]

logger = logging.getLogger("streamlink.rounds")

# A client's reply is on another call than the end of its update. A busy one formats a traceback
# first, and a round that does not wait for it has no facts of that client, or no cause of its end.
_REPLY_SECONDS = 10.0
_TRACEBACK_LINES, _TRACEBACK_WIDTH = 100, 500  # most of a client's traceback that is logged


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The result of one round."""

    round: int
    attempt: int
    seconds: float
    weights: dict[str, float]
    """The contributors, whose whole update is in the new model, and their weights."""
    metrics: dict[str, float]
    """Averaged with the same weights as the model."""
    failures: dict[str, str] = field(default_factory=dict)
    """Clients that were asked and did not contribute, and why."""
    metadata: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Small facts that each contributor's task returned, among them ``digest`` of its update. Where
    lossy formats are used ``rounding_down`` and ``rounding_up`` say what they changed."""
    recovered: tuple[str, ...] = ()
    """Contributors whose update a restarted server found in its spool."""
    client_metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Each contributor's own metrics, as its task reported them, before they were averaged."""
    evaluation: Evaluation | None = None
    """What the clients found of the new model; None: it was not evaluated."""
    scheduled: dict[str, str] = field(default_factory=dict)
    """The scheduled facts that its tasks had, such as the learning rate (``schedules``)."""
    is_best: bool = False
    """Whether the new model was the best so far, by ``best_metric``."""
    stopped: str = ""
    """Why the job ended early after this round (``patience``); empty: it did not."""


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """How far one client is, for progress bars. Bytes."""

    peer_name: str
    phase: str
    sent: int
    received: int
    total: int
    """Of the model that is sent."""
    returns: int = 0
    """Of the model that comes; 0: not known yet."""
    held_for: str = ""
    """The client that its update waits for; empty: none."""
    stalled_by: str = ""
    """What limits its update now: ``network``, ``reader``, ``held``; empty: it has not begun."""
    is_working: bool = False
    """Whether it has the whole model, and nothing of its update waits here: it computes."""


def log_round(report: RoundReport) -> None:
    """Log a round that is done, with its facts."""
    text = f"round {report.round} done in {report.seconds:.1f} s: {len(report.weights)} updates"
    facts = {"event": "round done", "facts": asdict(report)}
    logger.info("%s in the new model", text, extra=facts)


def progress_of(exchange: PeerRequest) -> ClientProgress:
    """Return how far one client is."""
    down, up = exchange.outgoing.stats, exchange.incoming.stats
    total = exchange.outgoing.spec.nbytes
    phase = "committing" if up.is_all_received else "streaming"
    if exchange.outgoing.is_waiting or exchange.incoming.is_waiting:
        phase = WAITING
    return ClientProgress(
        exchange.peer_name, phase, down.received_bytes, up.received_bytes, total,
        up.total_bytes, up.held_for or down.held_for, up.stalled_by or down.stalled_by,
        is_peers_turn(down, up),
    )  # fmt: skip


def final_progress(
    exchanges: Iterable[PeerRequest], counted: Container[str]
) -> list[ClientProgress]:
    """Return the progress, at the end of a round, of the clients whose updates ``counted``."""
    return [
        replace(progress_of(each), phase="done", held_for="", stalled_by="", is_working=False)
        for each in exchanges
        if each.peer_name in counted
    ]


def wait_for_reply(exchange: PeerRequest) -> Mapping[str, str]:
    """Wait for the client's reply, the acknowledgement that it knows that its update counts.

    Only then may the server say goodbye: on another stream that could overtake *commit*.

    Returns:
        The small facts that its task returned; none if it left before it replied. And what lossy
        formats changed of the model that it was sent.
    """
    rounding = exchange.outgoing.rounding
    ours = {} if rounding is None else {"rounding_down": str(rounding)}
    try:
        reply = exchange.wait_reply(_REPLY_SECONDS)
    except StreamlinkError as error:
        logger.debug("%s left before its reply: %s", exchange.peer_name, error)
        return ours
    return {**reply.metadata, **ours} if reply is not None else ours


def log_traceback(exchange: PeerRequest, error: BaseException | None) -> None:
    """Log what a client's task raised; the reply with it follows the end of the stream.

    Args:
        exchange: the request that has failed.
        error: what ended its update here.
    """
    # No reply follows what this end refused, or has waited for in vain. A client aborts both
    # streams; if the abort of the model's comes first, our own sender aborts the update's.
    errors = error, exchange.outgoing.error
    is_told = any(isinstance(each, StreamAborted) and each.by_peer for each in errors)
    try:
        reply = exchange.wait_reply(_REPLY_SECONDS if is_told else 0.0)
    except StreamlinkError:
        return  # the client is lost; the round's own error has the reason
    if reply is None or not reply.traceback:
        return
    logger.error("%s: the task raised %s", exchange.peer_name, reply.error[:_TRACEBACK_WIDTH])
    # One record for each line: the text is a peer's, so line breaks in a record are escaped.
    lines = reply.traceback.splitlines()[-_TRACEBACK_LINES:]
    if lines[-1] == reply.error:
        lines.pop()  # logged above
    for line in lines:
        logger.error("%s: | %s", exchange.peer_name, line[:_TRACEBACK_WIDTH])
