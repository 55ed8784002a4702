"""How long one round takes over a line that was measured. Arithmetic only.

Counted is the time on the line, over as many connections as are proposed for it, and what encodings
cost the processor, which overlaps it. Not counted are the work of the client, disks, and other
clients that share the server's line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from streamlink.probing.lanes import both_at_once, lanes_for, seconds_over
from streamlink.probing.measured import Measured
from streamlink.probing.speed import Speed

__all__ = ["PLAIN", "EncodingCost", "Round", "forecast"]


@dataclass(frozen=True, slots=True)
class EncodingCost:
    """What an encoding makes of a model on this processor."""

    name: str
    share: float
    """Bytes that travel, of the plain bytes."""
    encode: float
    """Plain bytes per second; infinite: nothing is to do."""
    decode: float


PLAIN = EncodingCost("plain", 1.0, float("inf"), float("inf"))


@dataclass(frozen=True, slots=True)
class Round:
    """The forecast of one round, with one executor and one encoding in both directions."""

    executor: str
    encoding: str
    connections: int
    """The most for each direction, as they are proposed for the line (count)."""
    down_seconds: float
    """Until the client has the model."""
    up_seconds: float
    """From there, or beside it with a streaming executor, until the server has the update."""
    seconds: float


def forecast(nbytes: int, measured: Measured, costs: Sequence[EncodingCost]) -> tuple[Round, ...]:
    """Return the time of a round with each kind of executor and each encoding.

    Args:
        nbytes: of the model; an update is as large.
        measured: the line.
        costs: of the encodings, beside plain; where ``planes`` is among them also of ``auto``.
    """
    every = [PLAIN, *costs]
    return tuple(
        round_ for executor in ("streaming", "whole", "on disk") for each in every
        for round_ in _rounds(executor, nbytes, measured, each)
    )  # fmt: skip


def _rounds(executor: str, nbytes: int, measured: Measured, cost: EncodingCost) -> Iterator[Round]:
    found = _round(executor, nbytes, measured, cost)
    yield found
    if cost.name == "planes":
        # ``auto`` is planes where that is faster, and plain elsewhere.
        plain = _round(executor, nbytes, measured, PLAIN)
        best = min(found, plain, key=lambda each: each.seconds)
        yield replace(best, encoding="auto")


def _round(executor: str, nbytes: int, measured: Measured, cost: EncodingCost) -> Round:
    m, lanes = measured, lanes_for(measured)

    def leg(one: Speed, several: Speed) -> float:
        """Return the time of one direction: that of its slowest part, since all work at once."""
        line = seconds_over(one, several, lanes, nbytes * cost.share)
        return max(line, nbytes / cost.encode, nbytes / cost.decode)

    if executor == "streaming":
        # The answer to a range leaves while the next one arrives: both ways at once.
        down_several = both_at_once(m.down, m.down_both, m.down_several)
        up_several = both_at_once(m.up, m.up_both, m.up_several)
        down = leg(m.down_both, down_several) + m.down.start_seconds
        up = leg(m.up_both, up_several) + m.up.start_seconds
        return Round(executor, cost.name, lanes, down, up, max(down, up) + m.loaded.median)
    down, up = leg(m.down, m.down_several), leg(m.up, m.up_several)
    return Round(executor, cost.name, lanes, down, up, down + up)
