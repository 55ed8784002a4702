"""One number of bytes, dealt to the streams of a process by need; nobody is ever below its minimum.

Pure: no lock, no clock. A client *claims* a seat, which reserves the minimums of all streams that
it may have. In a round that averages in lockstep a stream that moves may need one that waits; so
what could wait is the whole client, before it is admitted, and never a stream of one that is here.
Seats whose reserve does not fit wait in order of arrival.

What no seat reserves is dealt to the streams that want it: max-min fair shares, as in water-filling
(Bertsekas and Gallager, "Data Networks", 6.5.2). A stream that wants less than the level has what
it wants, all others have the level. What was dealt may be promised to a peer already, and is never
taken: a stream above its share gives back what it does not hold when it is next looked at
(``settle``), and one below its share gets what is free by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, NamedTuple, Protocol

__all__ = ["DealObserver", "MemoryBudget", "Need", "NoPlace"]


class Need(NamedTuple):
    """What a stream needs of the budget (bytes)."""

    wanted: int
    """What it could use in all."""
    held: int
    """What is in use, or promised to its peer."""


class NoPlace(Exception):
    """A seat has as many streams as it has places for."""


class DealObserver(Protocol):
    """A test's hook, for all budgets of this process; called where their owners hold the lock."""

    def settling(self, budget: MemoryBudget, stream: Hashable, need: Need) -> None:
        """A stream's need is about to be dealt with."""

    def settled(self, budget: MemoryBudget, stream: Hashable) -> None:
        """It was dealt with."""

    def left(self, budget: MemoryBudget, stream: Hashable) -> None:
        """A stream has left."""


@dataclass(slots=True)
class _Seat:
    free: list[int]
    """Minimums that no stream has, the best last."""
    reserve: int
    streams: list[Hashable] = field(default_factory=list)
    """In the order in which they came."""
    is_vacated: bool = False


@dataclass(slots=True)
class _Share:
    seat: Hashable
    minimum: int
    wanted: int = 0
    """Beyond the minimum, rounded up; see ``_rounded``."""
    extra: int = 0
    """Dealt beyond the minimum."""


class MemoryBudget:
    """Deals ``total_bytes``; the sum of all reserves and of what is dealt never exceeds it."""

    observer: ClassVar[DealObserver | None] = None
    """For tests."""

    def __init__(self, total_bytes: int) -> None:
        if total_bytes <= 0:
            raise ValueError(f"total_bytes={total_bytes} is not positive")
        self.total_bytes = total_bytes
        self.reserved_bytes = 0
        """Of the seats that are taken."""
        self.extra_bytes = 0
        """Dealt beyond that."""
        self._seats: dict[Hashable, _Seat] = {}
        self._waiting: dict[Hashable, _Seat] = {}
        self._shares: dict[Hashable, _Share] = {}
        self._wants: Counter[int] = Counter()  # how many streams want so much beyond their minimum
        self._spare = self._expected = 0
        self._level: float | None = None  # None: to be computed

    # --- seats ------------------------------------------------------------------------

    def claim(self, seat: Hashable, places: Sequence[tuple[int, int]]) -> bool:
        """Reserve the minimums of a client's streams, now or when they fit; returns whether now.

        Args:
            seat: names it.
            places: how many streams it may have with which minimum (count, bytes), the best first.

        Raises:
            ValueError: it has been claimed before, or its minimums could never fit.
        """
        if seat in self._seats or seat in self._waiting:
            raise ValueError(f"seat {seat!r} was claimed before")
        free = [nbytes for count, nbytes in reversed(places) for _ in range(count)]
        reserve = sum(free)
        if not 0 < reserve <= self.total_bytes:
            raise ValueError(f"places of {reserve} bytes are not within 1 to {self.total_bytes}")
        self._waiting[seat] = _Seat(free, reserve)
        # Room for one more is not dealt, so the next client does not wait for others to give back.
        self._spare = max(self._spare, reserve)
        self._level = None
        self._admit()
        return seat in self._seats

    def expect(self, nbytes: int) -> None:
        """Keep ``nbytes`` for seats from now on, those that are taken included: never deal them.

        A client that comes then need not wait for streams that hold what they were promised.
        """
        self._expected = max(self._expected, nbytes)
        self._level = None

    def has(self, seat: Hashable) -> bool:
        """Whether the minimums of ``seat`` are reserved."""
        return seat in self._seats

    def vacate(self, seat: Hashable) -> None:
        """Free a seat once its last stream has left it, or stop waiting for it."""
        if self._waiting.pop(seat, None) is not None:
            self._level = None
            self._admit()
        elif (taken := self._seats.get(seat)) is not None:
            taken.is_vacated = True
            self._free_if_over(seat, taken)

    # --- streams ----------------------------------------------------------------------

    def join(self, seat: Hashable, stream: Hashable) -> int:
        """Add a stream of the client that has ``seat``; returns what it has (bytes).

        Raises:
            NoPlace: the seat has no place left, or is none.
            ValueError: the stream has joined before.
        """
        if stream in self._shares:
            raise ValueError(f"stream {stream!r} has joined before")
        taken = self._seats.get(seat)
        if taken is None or taken.is_vacated or not taken.free:
            raise NoPlace
        minimum = taken.free.pop()
        taken.streams.append(stream)
        self._shares[stream] = _Share(seat, minimum)
        return minimum

    def settle(self, stream: Hashable, need: Need) -> int:
        """Deal with a stream's need; returns what it may use from now on (bytes).

        Nothing is taken of what it holds: that may be more for a while.
        """
        if self.observer is not None:
            self.observer.settling(self, stream, need)
        share = self._shares[stream]
        self._want(share, need.wanted - share.minimum)
        target = int(min(share.wanted, self._fair()))
        if share.extra < target:
            self._deal(share, min(target - share.extra, max(0, self._free_bytes)))
        elif share.extra > target:
            kept = max(target, need.held - share.minimum)
            self._deal(share, min(kept, share.extra) - share.extra)
            self._admit()
        if self.observer is not None:
            self.observer.settled(self, stream)
        return share.minimum + min(share.extra, target)

    def leave(self, stream: Hashable) -> None:
        """Remove a stream, and return everything that it has. Harmless when it has left."""
        share = self._shares.pop(stream, None)
        if share is None:
            return
        self._want(share, 0)
        self._deal(share, -share.extra)
        seat = self._seats[share.seat]
        seat.streams.remove(stream)
        self._promote(seat, share.minimum)
        self._free_if_over(share.seat, seat)
        self._admit()
        if self.observer is not None:
            self.observer.left(self, stream)

    def dealt(self, stream: Hashable) -> int:
        """Return what a stream has (bytes)."""
        share = self._shares[stream]
        return share.minimum + share.extra

    def minimum(self, stream: Hashable) -> int:
        """Return what a stream has in any case (bytes)."""
        return self._shares[stream].minimum

    @property
    def dealt_bytes(self) -> int:
        """What is reserved or dealt."""
        return self.reserved_bytes + self.extra_bytes

    # --- small parts ------------------------------------------------------------------

    @property
    def _kept_back(self) -> int:
        """What is for seats: those that are taken, those that wait or the next one, and more."""
        waiting = sum(seat.reserve for seat in self._waiting.values())
        return max(self.reserved_bytes + max(waiting, self._spare), self._expected)

    @property
    def _free_bytes(self) -> int:
        return self.total_bytes - self._kept_back - self.extra_bytes

    def _fair(self) -> float:
        """Return the level: the most that a stream has beyond its minimum."""
        if self._level is None:
            self._level = self._new_level()
        return self._level

    def _new_level(self) -> float:
        left = max(0, self.total_bytes - self._kept_back)
        hungry = self._wants.total()
        for want in sorted(self._wants):
            if want * hungry > left:
                return left // hungry
            count = self._wants[want]
            left, hungry = left - want * count, hungry - count
        return inf

    def _want(self, share: _Share, nbytes: int) -> None:
        wanted = _rounded(nbytes)
        if wanted == share.wanted:
            return
        if share.wanted:
            self._wants[share.wanted] -= 1
            if not self._wants[share.wanted]:
                del self._wants[share.wanted]
        if wanted:
            self._wants[wanted] += 1
        share.wanted, self._level = wanted, None

    def _deal(self, share: _Share, nbytes: int) -> None:
        share.extra += nbytes
        self.extra_bytes += nbytes

    def _admit(self) -> None:
        """Give seats to those that wait, in order, as far as there is room."""
        while self._waiting:
            name, seat = next(iter(self._waiting.items()))
            if seat.reserve > self.total_bytes - self.dealt_bytes:
                return
            self._seats[name] = self._waiting.pop(name)
            self.reserved_bytes += seat.reserve
            self._level = None

    def _promote(self, seat: _Seat, place: int) -> None:
        """Give a place that is free again to the stream that has waited longest for a better."""
        for stream in seat.streams:
            share = self._shares[stream]
            if share.minimum < place:
                share.minimum, place = place, share.minimum
        seat.free.append(place)
        seat.free.sort()

    def _free_if_over(self, name: Hashable, seat: _Seat) -> None:
        if seat.is_vacated and not seat.streams:
            del self._seats[name]
            self.reserved_bytes -= seat.reserve
            self._level = None
            self._admit()


def _rounded(nbytes: int) -> int:
    """Round up to one of four steps between two powers of two: needs change often, levels seldom.

    So there are few different needs, however many streams there are.
    """
    if nbytes <= 0:
        return 0
    step = 1 << max(0, nbytes.bit_length() - 3)
    return -(-nbytes // step) * step
