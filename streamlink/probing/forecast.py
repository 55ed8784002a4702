"""How long one round takes over a line that was measured. Arithmetic only.

Counted is the time on the line, and what encodings cost the processor, which overlaps it. Not
counted are the work of the client, disks, and other clients that share the server's line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
        yield Round(executor, "auto", best.down_seconds, best.up_seconds, best.seconds)


def _round(executor: str, nbytes: int, measured: Measured, cost: EncodingCost) -> Round:
    if executor == "streaming":
        # The answer to a range leaves while the next one arrives: both ways at once.
        down = _leg(nbytes, measured.down_both, cost) + measured.down.start_seconds
        up = _leg(nbytes, measured.up_both, cost) + measured.up.start_seconds
        return Round(executor, cost.name, down, up, max(down, up) + measured.loaded.median)
    down, up = _leg(nbytes, measured.down, cost), _leg(nbytes, measured.up, cost)
    return Round(executor, cost.name, down, up, down + up)


def _leg(nbytes: int, speed: Speed, cost: EncodingCost) -> float:
    """Return the time of one direction: that of its slowest part, since all work at once."""
    line = speed.seconds_for(nbytes * cost.share)
    return max(line, nbytes / cost.encode, nbytes / cost.decode)
