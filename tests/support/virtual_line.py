"""What lies between two virtual ends: slow, bounded, and as faulty as the relay of the benchmarks.

A line knows no frames' meaning. It says of each when it arrives, if it does; order is always kept,
as TCP keeps it. Times in seconds, from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

NEVER = float("inf")


class Kind(Enum):
    """What goes wrong."""

    STALL = "nothing gets through, and nothing is lost"
    HOLE = "what is said, or on its way, is swallowed, and nobody is told"
    REFUSE = "no new call can be made; the one that is there goes on"
    CUT = "the call breaks"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong once.

    ``side`` is whose frames a stall or a hole meets, or which end alone hears of a cut at once;
    empty: both. A hole that swallowed anything ends with the call, as a resumed connection does.
    """

    kind: Kind
    at: float
    seconds: float = 0.0
    side: str = ""

    @property
    def until(self) -> float:
        """When it is over."""
        return self.at + self.seconds

    def meets(self, side: str) -> bool:
        """Whether it is about what ``side`` says."""
        return self.side in ("", side)


class VirtualLine:
    """Two directions, each named after the end that speaks.

    Args:
        latency: from one end to the other.
        jitter: what is added to it, in turn, for one frame after another.
        rates: bytes per second by end; one that is missing has no limit.
        faults: what goes wrong, in any order.
    """

    def __init__(
        self,
        latency: float,
        jitter: tuple[float, ...] = (),
        rates: dict[str, float] | None = None,
        faults: Iterable[Fault] = (),
    ) -> None:
        self._latency, self._jitter = latency, jitter or (0.0,)
        self._rates = rates or {}
        self._faults = sorted(faults, key=lambda fault: fault.at)
        self._cuts = [fault for fault in self._faults if fault.kind is Kind.CUT]
        self._holes_with_loss: set[Fault] = set()
        self._said = 0
        self._free_at: dict[str, float] = {}
        self._arrived_at: dict[str, float] = {}

    def new_call(self) -> None:
        """Forget what the call before left behind."""
        self._free_at.clear()
        self._arrived_at.clear()
        self._holes_with_loss.clear()

    def carry(self, side: str, nbytes: int, *, now: float) -> float | None:
        """Return when what ``side`` says now arrives; None: it is swallowed."""
        starts = max(now, self._free_at.get(side, 0.0))
        rate = self._rates.get(side, 0.0)
        self._free_at[side] = starts + (nbytes / rate if rate else 0.0)
        jitter = self._jitter[self._said % len(self._jitter)]
        self._said += 1
        arrives = self._free_at[side] + self._latency + jitter
        for stall in self._of(Kind.STALL, side):
            if stall.at <= arrives < stall.until:
                arrives = stall.until
        arrives = max(arrives, self._arrived_at.get(side, 0.0))
        for hole in self._of(Kind.HOLE, side):
            if hole.at <= arrives and now < hole.until:
                self._holes_with_loss.add(hole)
                return None
        self._arrived_at[side] = arrives
        return arrives

    def cut_now(self, now: float) -> Fault | None:
        """Return a cut that is due, or that ends a hole; each once."""
        for hole in self._holes_with_loss:
            if hole.until <= now:
                self._holes_with_loss.discard(hole)
                return Fault(Kind.CUT, hole.until)
        if self._cuts and self._cuts[0].at <= now:
            return self._cuts.pop(0)
        return None

    def open_at(self, now: float) -> float:
        """Return when a new call can be made, ``now`` or later."""
        for refusal in self._of(Kind.REFUSE):
            if refusal.at <= now < refusal.until:
                now = refusal.until
        return now

    def next_time(self) -> float:
        """Return when something happens here next that nobody waits for."""
        times = [fault.at for fault in self._cuts[:1]]
        times += [hole.until for hole in self._holes_with_loss]
        return min(times, default=NEVER)

    def _of(self, kind: Kind, side: str = "") -> list[Fault]:
        return [
            each for each in self._faults if each.kind is kind and (not side or each.meets(side))
        ]
