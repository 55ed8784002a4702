"""``Shelf``: which objects there are, who may still read them, and when each is released.

Pure bookkeeping: it holds contents that it knows nothing about, reads a clock, and neither waits
nor locks; its owner does. What nobody needs any more is collected, and the owner takes it with
``take_released`` and frees it.

A read begins with ``open``, which reserves one of the object's reads, and ends with ``close``,
which uses it up or returns it. Within it, bytes move between ``enter`` and ``leave`` only: an
object that expires meanwhile is kept until the last ``leave``, and nobody enters it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamlink.config import ObjectLimits
from streamlink.errors import (
    ObjectError,
    ObjectExpired,
    ObjectLimit,
    ObjectRefused,
    UnknownObject,
)
from streamlink.extent import Extent
from streamlink.model.ranges import RangeSet
from streamlink.objects.readers import Readers, may_read
from streamlink.objects.reference import Reference, Sealer

__all__ = ["Holder", "Lease", "Shelf", "Slot"]

T = TypeVar("T")

_MOST_RANGES = 4096  # of what one reader has got (count)
_REMEMBERED = 4096  # objects that are gone, and why, so that an error can say it


@dataclass(frozen=True, slots=True)
class Holder:
    """Who reads: one call of one client, over all of its attempts."""

    reader: str
    """The client's name; empty: the server itself."""
    session: str = ""
    """Its session. A client has one at a time, so a new one means that the old one is over."""
    call: str = ""
    """Names the call; the client chooses it at random and repeats it with each attempt."""

    def replaces(self, other: Holder) -> bool:
        """Return whether a read of ``other`` can only be an earlier attempt of this reader."""
        is_same_call = self.session == other.session and self.call == other.call
        return self.reader == other.reader and (is_same_call or self.session != other.session)


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for an object that is on its way."""

    id: str
    nbytes: int


@dataclass(slots=True, eq=False)
class _Held(Generic[T]):
    reference: Reference
    content: T
    expires: float
    reads_left: int | None
    owner: str = ""
    """The client that has put it; empty: the server itself."""
    leases: set[Lease[T]] = field(default_factory=set)
    active: int = 0
    gone: ObjectError | None = None
    """Why nobody may enter it any more."""


@dataclass(slots=True, eq=False)
class Lease(Generic[T]):
    """One read that has begun: see ``Shelf.open``."""

    holder: Holder
    held: _Held[T]
    replaced: tuple[Lease[T], ...] = ()
    """Earlier attempts of the same reader, whose place this one took: end them."""
    is_open: bool = True
    active: int = 0
    """How many ranges move just now (count)."""
    had: RangeSet = field(default_factory=RangeSet)
    """The bytes that its reader has got."""

    @property
    def has_all(self) -> bool:
        """Whether its reader has got every byte; assumed of one that reads many small ranges."""
        nbytes = self.held.reference.nbytes
        return len(self.had) > _MOST_RANGES or (nbytes > 0 and self.had.is_complete(nbytes))

    @property
    def is_of_use(self) -> bool:
        """Whether its reader may go on: it is open, and the object is here."""
        return self.is_open and self.held.gone is None

    @property
    def content(self) -> T:
        """The content of the object."""
        return self.held.content

    @property
    def reference(self) -> Reference:
        """The reference to the object."""
        return self.held.reference


class Shelf(Generic[T]):
    """The objects of one server.

    Args:
        limits: how many, how large, and for how long.
        sealer: makes and checks their references.
        clock: the time that they expire by.
        wall: the same for people: it goes into the references.
    """

    def __init__(
        self,
        limits: ObjectLimits,
        sealer: Sealer,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._limits, self._sealer = limits, sealer
        self._clock, self._wall = clock, wall
        self._held: dict[str, _Held[T]] = {}
        self._slots: dict[str, Slot] = {}
        self._gone: OrderedDict[str, ObjectError] = OrderedDict()
        self._released: list[T] = []

    # --- what there is ----------------------------------------------------------------------

    def __len__(self) -> int:
        """How many objects there are, those on their way and those still being read included."""
        return len(self._held) + len(self._slots)

    @property
    def nbytes(self) -> int:
        """Their bytes."""
        held = sum(each.reference.nbytes for each in self._held.values())
        return held + sum(slot.nbytes for slot in self._slots.values())

    @property
    def next_expiry(self) -> float | None:
        """When ``expire`` has something to do next; None: nothing expires."""
        alive = (each.expires for each in self._held.values() if each.gone is None)
        return min(alive, default=None)

    def take_released(self) -> list[T]:
        """Return the contents that nobody needs since the last call."""
        released, self._released = self._released, []
        return released

    # --- putting ----------------------------------------------------------------------------

    def check_terms(self, reads: int | None, ttl: float | None) -> float:
        """Return the time to live that these terms mean.

        Raises:
            ValueError: ``reads`` or ``ttl`` is not positive.
            ObjectLimit: ``ttl`` is above the limit.
        """
        if reads is not None and reads < 1:
            raise ValueError(f"reads is {reads}; it is at least 1, or None for any number")
        seconds = self._limits.ttl if ttl is None else ttl
        if not seconds > 0:
            raise ValueError(f"ttl is {seconds} s; it must be positive")
        if seconds > self._limits.max_ttl:
            raise ObjectLimit(
                f"a time to live of {seconds:g} s was asked for; this server permits "
                f"{self._limits.max_ttl:g} s (max_ttl)"
            )
        return seconds

    def reserve(self, nbytes: int) -> Slot:
        """Keep room for an object of ``nbytes`` that is on its way.

        Raises:
            ObjectLimit: there is none.
        """
        self.expire()
        if len(self) >= self._limits.max_objects:
            raise ObjectLimit(
                f"the server holds {len(self)} objects, the most it may (max_objects); read or "
                "drop some, or wait until they expire"
            )
        if self.nbytes + nbytes > self._limits.max_bytes:
            raise ObjectLimit(
                f"an object of {nbytes} bytes does not fit: the server holds {self.nbytes} bytes "
                f"of at most {self._limits.max_bytes} (max_bytes); read or drop some objects, or "
                "wait until they expire"
            )
        slot = Slot(self._sealer.new_id(), nbytes)
        self._slots[slot.id] = slot
        return slot

    def cancel(self, slot: Slot) -> None:
        """Give the room back; harmless when called twice."""
        self._slots.pop(slot.id, None)

    def fill(
        self,
        slot: Slot,
        content: T,
        *,
        digest: str,
        spec_digest: str,
        readers: Readers,
        reads: int | None,
        ttl: float | None,
        owner: str = "",
    ) -> Reference:
        """Put ``content`` in its place, and return the reference to it; its time begins now.

        ``owner`` is the client that may drop it.

        Raises:
            ValueError: the readers, the reads or the time to live make no sense.
            ObjectLimit: the time to live is above the limit.
            UnknownObject: the room was given back meanwhile.
        """
        seconds = self.check_terms(reads, ttl)
        if self._slots.get(slot.id) is not slot:
            raise UnknownObject("the server was closed, or this object was given up meanwhile")
        reference = self._sealer.seal(
            id=slot.id,
            nbytes=slot.nbytes,
            digest=digest,
            spec_digest=spec_digest,
            expires_at=self._wall() + seconds,
            readers=readers,
        )
        self.cancel(slot)
        self._held[slot.id] = _Held(reference, content, self._clock() + seconds, reads, owner)
        return reference

    # --- reading ----------------------------------------------------------------------------

    def open(self, reference: Reference, holder: Holder) -> Lease[T]:
        """Begin to read an object: one of its reads is reserved until ``close``.

        Raises:
            UnknownObject: it is not here, or the reference is of an earlier start of the server.
            ObjectExpired: its time is over.
            ObjectRefused: the reference is forged, it is meant for others, or no read is left.
        """
        held = self._find(reference)
        if holder.reader and not may_read(reference.readers, holder.reader):
            raise ObjectRefused(
                f"{_what(reference)} is not meant for {holder.reader!r}; whoever puts it has to "
                "name that client among its readers"
            )
        replaced = self._make_room(held, holder)
        lease = Lease(holder, held, replaced)
        held.leases.add(lease)
        return lease

    def find(self, reference: Reference, holder: Holder) -> Lease[T] | None:
        """Return the read that this very call has begun; None: it has none.

        Raises:
            UnknownObject: the reference is of an earlier start of the server.
            ObjectRefused: it is forged.
        """
        self._sealer.check(reference)
        held = self._held.get(reference.id)
        leases = () if held is None else held.leases
        return next((lease for lease in leases if lease.holder == holder), None)

    def enter(self, lease: Lease[T]) -> T:
        """Begin to move bytes of the object; returns its content, which stays until ``leave``.

        Raises:
            ObjectError: the object is gone, or the lease was closed.
        """
        self.expire()
        if not lease.is_open:
            raise ObjectRefused(
                f"{_what(lease.reference)}: a newer read of {lease.holder.reader!r} took the place "
                "of this one"
            )
        if lease.held.gone is not None:
            raise _again(lease.held.gone)
        lease.active += 1
        lease.held.active += 1
        return lease.content

    def note_had(self, lease: Lease[T], extent: Extent) -> None:
        """Note which bytes the reader has got."""
        if not lease.has_all:
            lease.had.add(extent.start, extent.stop)

    def leave(self, lease: Lease[T]) -> None:
        """End what ``enter`` began."""
        lease.active -= 1
        lease.held.active -= 1
        self._release_if_over(lease.held)

    def close(self, lease: Lease[T], *, is_complete: bool) -> None:
        """End a read; one that is complete, or has got every byte, is used up.

        Harmless when called twice.
        """
        if lease not in lease.held.leases:
            return
        lease.is_open = False
        held = lease.held
        held.leases.discard(lease)
        if (is_complete or lease.has_all) and held.reads_left is not None:
            held.reads_left -= 1
            if held.reads_left == 0:
                self._end(held, _read_up(held.reference))
        self._release_if_over(held)

    # --- releasing --------------------------------------------------------------------------

    def drop(self, reference: Reference, by: str = "") -> None:
        """Release an object; transfers that run may finish. Harmless where it is gone already.

        Args:
            reference: to the object.
            by: the client that asks for it; empty: the server itself, which may drop any.

        Raises:
            UnknownObject: the reference is of an earlier start of the server.
            ObjectRefused: it is forged, or ``by`` has not put the object.
        """
        self._sealer.check(reference)
        if (held := self._held.get(reference.id)) is not None:
            if by and by != held.owner:
                raise ObjectRefused(f"{_what(reference)} was not put by {by!r}, so it stays")
            self._end(held, UnknownObject(f"{_what(reference)} was dropped at the server"))

    def expire(self) -> None:
        """Release what has expired, except where bytes move."""
        now = self._clock()
        for held in [each for each in self._held.values() if each.expires <= now]:
            self._end(held, _expired(held.reference))

    def clear(self) -> None:
        """Release everything, even where bytes move."""
        self._released += [held.content for held in self._held.values()]
        for held in self._held.values():
            held.gone = held.gone or UnknownObject("the server is closed")
        self._held.clear()
        self._slots.clear()

    # --- small parts ------------------------------------------------------------------------

    def _find(self, reference: Reference) -> _Held[T]:
        self._sealer.check(reference)
        self.expire()
        held = self._held.get(reference.id)
        gone = self._gone.get(reference.id) if held is None else held.gone
        if held is None and gone is None:
            is_old = reference.expires_at <= self._wall()
            gone = _expired(reference) if is_old else _released(reference)
        if held is None or gone is not None:
            assert gone is not None
            raise _again(gone)
        return held

    def _make_room(self, held: _Held[T], holder: Holder) -> tuple[Lease[T], ...]:
        """Return the leases that make room for one more; they are closed."""
        # Always, and not only where no read is left: an attempt that is over may still hold one.
        over = tuple(lease for lease in held.leases if holder.replaces(lease.holder))
        others = held.leases.difference(over)
        if held.reads_left is not None and len(others) >= held.reads_left:
            names = ", ".join(sorted({lease.holder.reader or "the server" for lease in others}))
            raise ObjectRefused(
                f"{_what(held.reference)} has no reads left: {names} reads it now; try again when "
                "that has ended, or put it with more reads"
            )
        for lease in over:
            lease.is_open = False
            held.leases.discard(lease)
        return over

    def _end(self, held: _Held[T], why: ObjectError) -> None:
        if held.gone is None:
            held.gone = self._gone[held.reference.id] = why
            while len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)
        self._release_if_over(held)

    def _release_if_over(self, held: _Held[T]) -> None:
        is_here = self._held.get(held.reference.id) is held
        if is_here and held.gone is not None and not held.active:
            del self._held[held.reference.id]
            self._released.append(held.content)


def _what(reference: Reference) -> str:
    return f"object {reference.id[:8]}"


def _expired(reference: Reference) -> ObjectError:
    return ObjectExpired(
        f"{_what(reference)} has expired; put it again, with a longer ttl if it is read this late"
    )


def _read_up(reference: Reference) -> ObjectError:
    return ObjectRefused(f"{_what(reference)} has no reads left; put it again, with more reads")


def _released(reference: Reference) -> ObjectError:
    return UnknownObject(f"{_what(reference)} was released at the server; put it again")


def _again(error: ObjectError) -> ObjectError:
    """Return the error anew: one that several threads raise would collect their tracebacks."""
    return type(error)(str(error))
