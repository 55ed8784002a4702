"""What one finished transfer was: facts for the program that embeds this, and a log line."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from streamlink.clock import Clock
from streamlink.errors import StreamlinkError
from streamlink.model.rounding import RoundingError, RoundingMeter
from streamlink.protocol.frames import Attempt
from streamlink.protocol.stats import StreamStats

__all__ = ["OnTransfer", "TransferFacts", "TransferNotice"]

logger = logging.getLogger("streamlink.transfer")

Direction = Literal["sent", "received"]
ARROWS = {"sent": "→", "received": "←"}


@dataclass(frozen=True, slots=True)
class TransferFacts:
    """The facts of one finished transfer, as ``on_transfer`` gets them.

    An update that is resumed on another stream, after a restart of its client, counts as two
    transfers: one that failed, and one of the rest of the bytes.
    """

    peer_name: str
    """The name of the other end; ``server`` at a client, the address at a ``send``."""
    direction: Literal["sent", "received"]
    """From this end's side."""
    attempt: Attempt | None
    """The job, round and attempt it belonged to; None for ``send`` and ``receive``."""
    bytes: int
    """How many arrived; those from an interrupted transfer do not count."""
    wire_bytes: int
    """How many were sent for them, without headers: fewer than ``bytes`` if ``stream.encodings``
    saved some."""
    total_bytes: int
    """Of the whole model."""
    seconds: float
    """How long bytes were on their way: without a client's task, waits for other clients, and
    broken connections. A receiver counts from the first byte; 0: too short to measure."""
    rate: float | None
    """Bytes sent per second in that time; None: too few to measure."""
    lasted_seconds: float
    """From the request to the end, everything included."""
    chunks: int
    resumes: int
    """How often it was resumed over another connection."""
    carrier: str
    """What carried it, such as ``grpc`` or ``tcp``; the last one, if it changed over."""
    repairs: int
    """Chunks that arrived damaged and were sent again."""
    digest: str
    """Of what was transferred, hexadecimal; empty where it failed."""
    error: StreamlinkError | None = None
    """Why it failed; None: the receiver has committed it."""
    rounding: RoundingError | None = None
    """Sender: what lossy formats have changed, as it was measured; None: nothing was rounded."""

    @property
    def outcome(self) -> Literal["done", "failed"]:
        """How it ended."""
        return "done" if self.error is None else "failed"


OnTransfer = Callable[[TransferFacts], None]
"""``on_transfer(facts)``: called once for each finished transfer, also if it failed after its first
chunk. It runs in one of the transfer's threads, so it must be quick; an exception that it
raises is logged and ignored."""


class TransferNotice:
    """Reports once how a transfer ended; several threads may notice it, and the first one counts.

    Args:
        peer_name: the other end's name.
        direction: from this end's side.
        attempt: what it belongs to; an attempt without a job counts as None.
        on_transfer: called with the facts, which are always logged.
        clock: measures how long it lasted.
    """

    def __init__(
        self,
        peer_name: str,
        direction: Direction,
        attempt: Attempt | None = None,
        on_transfer: OnTransfer | None = None,
        *,
        clock: Clock,
    ) -> None:
        self._peer_name = peer_name
        self._direction: Direction = direction
        self._attempt = attempt if attempt is not None and attempt.job else None
        self._on_transfer = on_transfer
        self._clock, self._began_at = clock, clock()
        self._lock = threading.Lock()
        self._is_told = False
        self.meter: RoundingMeter | None = None
        """Measures what rounding changes in what is sent."""

    @property
    def rounding(self) -> RoundingError | None:
        """What rounding has changed so far; None: nothing is rounded."""
        return self.meter.measured if self.meter is not None else None

    def done(self, stats: StreamStats, digest: str) -> RoundingError | None:
        """The receiver has committed it; returns what rounding has changed."""
        self._end(stats, digest, None)
        return self.rounding

    def failed(self, stats: StreamStats, error: StreamlinkError) -> None:
        """It failed; reported only if a chunk of it had been sent."""
        # Otherwise a client that is refused again and again would be reported as often; why it was
        # refused is logged where that happens.
        if stats.chunks:
            self._end(stats, "", error)

    def _end(self, stats: StreamStats, digest: str, error: StreamlinkError | None) -> None:
        with self._lock:
            if self._is_told:
                return
            self._is_told = True
        facts = TransferFacts(
            peer_name=self._peer_name,
            direction=self._direction,
            attempt=self._attempt,
            bytes=stats.moved_bytes,
            wire_bytes=stats.wire_bytes,
            total_bytes=stats.total_bytes,
            seconds=stats.moving_seconds,
            rate=stats.mean_rate,
            lasted_seconds=self._clock() - self._began_at,
            chunks=stats.chunks,
            resumes=stats.resumes,
            carrier=stats.carrier,
            repairs=stats.repairs,
            digest=digest,
            error=error,
            rounding=self.rounding,
        )
        # Without the lock: what listens is the user's code.
        _log(facts)
        self._tell(facts)

    def _tell(self, facts: TransferFacts) -> None:
        if self._on_transfer is None:
            return
        try:
            self._on_transfer(facts)
        except Exception:
            logger.exception("on_transfer raised for a transfer with %s", facts.peer_name)


def _log(facts: TransferFacts) -> None:
    # At debug: the streams of a failed attempt end together, and its reason is logged once.
    level = logging.INFO if facts.error is None else logging.DEBUG
    event, noted = f"transfer {facts.outcome}", _noted(facts)
    # The line has these in words already, or only a program compares them.
    named = {"peer", "direction", "digest", "rate_bytes_per_second", "lasted_seconds", "reason"}
    shown = {name: fact for name, fact in noted.items() if name not in named}
    if facts.rate is not None:
        shown["rate"] = f"{facts.rate / 1e6:.4g}MB/s"
    text = " ".join(f"{name}={_value(fact)}" for name, fact in shown.items())
    why = f": {facts.error}" if facts.error is not None else ""
    # Structured, for the JSON log.
    extra = {"event": event, "facts": noted, "is_summary": True}
    arrow = ARROWS[facts.direction]
    logger.log(level, "%s %s %s %s%s", event, arrow, facts.peer_name, text, why, extra=extra)


def _noted(facts: TransferFacts) -> dict[str, Any]:
    noted: dict[str, Any] = {"peer": facts.peer_name, "direction": facts.direction}
    if facts.attempt is not None:
        noted |= {"round": facts.attempt.round, "attempt": facts.attempt.attempt}
    noted |= {"bytes": facts.bytes, "seconds": round(facts.seconds, 6)}
    if facts.wire_bytes != facts.bytes:
        noted["wire_bytes"] = facts.wire_bytes
    noted["lasted_seconds"] = round(facts.lasted_seconds, 3)
    if facts.rate is not None:
        noted["rate_bytes_per_second"] = round(facts.rate)
    noted |= {"chunks": facts.chunks, "repairs": facts.repairs, "resumes": facts.resumes}
    noted["carrier"] = facts.carrier
    if facts.rounding is not None:
        noted |= {f"rounding_{name}": fact for name, fact in asdict(facts.rounding).items()}
    return noted | (
        {"digest": facts.digest} if facts.error is None else {"reason": str(facts.error)}
    )


def _value(fact: Any) -> str:
    return f"{fact:.4g}" if isinstance(fact, float) else str(fact)
