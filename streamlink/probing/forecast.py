"""How long one round takes over a line that was measured. Arithmetic only.

Counted is the time on the line, over as many connections as are proposed for it, and what encodings
cost the processor, which overlaps it. Not counted are the work of the client, disks, and other
clients that share the server's line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from streamlink.encodings.registry import AUTO, offered
from streamlink.probing.lanes import lanes_for, seconds_over
from streamlink.probing.measured import Measured
from streamlink.probing.speed import Speed

__all__ = ["PLAIN", "STREAMING", "EncodingCost", "Round", "forecast"]

STREAMING = "streaming"
"""The executor that answers range by range, and so uses both directions at once."""


@dataclass(frozen=True, slots=True)
class EncodingCost:
    """What an encoding makes of a model on this processor."""

    name: str
    share: float
    """Bytes that travel, of the plain bytes."""
    encode: float
    """Plain bytes per second; infinite: nothing is to do."""
    decode: float
    is_lossy: bool = False
    """Whether it rounds. The share is then that of the format, and not measured."""


PLAIN = EncodingCost("plain", 1.0, float("inf"), float("inf"))


@dataclass(frozen=True, slots=True)
class Round:
    """The forecast of one round, with one executor and one encoding in both directions."""

    executor: str
    encoding: str
    is_lossy: bool
    """Whether that rounds."""
    connections: int
    """The most for each direction (count): as proposed for the line, if that was measured."""
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
        costs: of the encodings, beside plain; where there is one that ``auto`` uses, also of that.
    """
    return tuple(
        round_
        for executor in (STREAMING, "whole", "on disk")
        for round_ in _rounds(executor, nbytes, measured, costs)
    )


def _rounds(
    executor: str, nbytes: int, measured: Measured, costs: Sequence[EncodingCost]
) -> Iterator[Round]:
    """Yield plain, what loses nothing, ``auto``, and what does lose something."""
    lossy = [each for each in costs if each.is_lossy]
    lossless = [PLAIN, *(each for each in costs if not each.is_lossy)]
    found = [_round(executor, nbytes, measured, each) for each in lossless]
    yield from found
    candidates = [each for each in found if each.encoding in (PLAIN.name, *offered((AUTO,)))]
    if len(candidates) > 1:
        # Range by range it takes what is faster; here it is one of them for the whole model.
        yield replace(min(candidates, key=lambda each: each.seconds), encoding=AUTO)
    yield from (_round(executor, nbytes, measured, each) for each in lossy)


def _round(executor: str, nbytes: int, measured: Measured, cost: EncodingCost) -> Round:
    m, lanes = measured, lanes_for(measured)
    if executor == STREAMING and m.down_both_several is None:
        lanes = 1  # several were not measured in both directions at once

    def leg(one: Speed, several: Speed | None) -> float:
        """Return the time of one direction: that of its slowest part, since all work at once."""
        line = seconds_over(one, several or one, lanes, nbytes * cost.share)
        return max(line, nbytes / cost.encode, nbytes / cost.decode)

    if executor == STREAMING:
        # The answer to a range leaves while the next one arrives: both ways at once.
        down = leg(m.down_both, m.down_both_several) + m.down.start_seconds
        up = leg(m.up_both, m.up_both_several) + m.up.start_seconds
        seconds = max(down, up) + m.loaded.median
    else:
        down, up = leg(m.down, m.down_several), leg(m.up, m.up_several)
        seconds = down + up
    return Round(executor, cost.name, cost.is_lossy, lanes, down, up, seconds)
