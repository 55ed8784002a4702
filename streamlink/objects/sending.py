"""``Sending``: serves objects to the clients that ask for them, whole or range by range."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamlink.errors import (
    AbortCode,
    ObjectLimit,
    ObjectRefused,
    StreamAborted,
    UnknownObject,
)
from streamlink.extent import Extent
from streamlink.link import ClientRequest, Presence, SendTransfer, send_model
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.objects.content import Content
from streamlink.objects.holding import Holding
from streamlink.objects.reference import Reference
from streamlink.objects.shelf import Holder, Lease
from streamlink.objects.wire import Facts

__all__ = ["Sending"]

_MOST_LAZY_READS = 1000  # of one client (count): measured at 1 KiB each
_SOON_SECONDS = 1.0  # what a thread may need that only has to end
_Who = tuple[str, str]  # a client's name, and its session


@dataclass(eq=False, slots=True)
class _LazyReader:
    """The lazy reads of one session of a client, which come and go with it."""

    presence: Presence
    leases: set[Lease[Content]] = field(default_factory=set)
    lost_at: float | None = None
    """When it was seen to be lost; None: it is here."""


class Sending:
    """The reads of all clients.

    Args:
        holding: what the server holds.
        patience: how long a lazy reader may be lost before its read ends (seconds).
    """

    def __init__(self, holding: Holding, patience: float) -> None:
        self._holding, self._changed = holding, holding.changed
        self._patience = patience
        self._running: dict[Lease[Content], SendTransfer] = {}
        self._ranges: set[SendTransfer] = set()  # to lazy readers
        self._readers: dict[_Who, _LazyReader] = {}
        self._closed = ""

    def get(self, asked: ClientRequest, facts: Facts) -> None:
        """Send a whole object, from where the client asks for it."""
        lease, is_complete = self._lease(facts.reference, _holder(asked, facts)), False
        try:
            with self._holding.reading(lease) as source:
                self._send(asked, lease, source)
            is_complete = True
        finally:
            self._end(lease, is_complete=is_complete)

    def read(self, asked: ClientRequest, facts: Facts) -> None:
        """Send a range of an object to a lazy reader."""
        lease = self._lease(facts.reference, _holder(asked, facts), goes_on=True)
        count = self._note_reader(lease, asked.presence)
        if count > _MOST_LAZY_READS:
            self._end(lease, is_complete=False)
            raise ObjectLimit(f"this client has {count - 1} objects open; close some first")
        with self._holding.reading(lease) as source:
            extent = _inside(facts.extent, source.spec)
            outgoing = asked.send(source.spec, extent=extent)
            with self._changed:
                self._ranges.add(outgoing)
                closed = self._closed
            if closed:
                outgoing.abort(AbortCode.GOODBYE, closed)
            try:
                send_model(outgoing, source, check=lease.content.check)
            except StreamAborted as error:
                if not error.by_peer:
                    raise
                # A reader that goes on elsewhere ends the transfer of what it no longer wants.
            finally:
                with self._changed:
                    self._ranges.discard(outgoing)
                self._note_had(lease, Extent(extent.start, outgoing.received_bytes))

    def _note_had(self, lease: Lease[Content], extent: Extent) -> None:
        with self._holding.on_shelf() as shelf:
            shelf.note_had(lease, extent)

    def close_read(self, asked: ClientRequest, facts: Facts) -> None:
        """End a read whose client does not go on with it."""
        with self._holding.on_shelf() as shelf:
            lease = shelf.find(facts.reference, _holder(asked, facts))
        if lease is not None:
            with self._changed:
                # What the client has ended is about to end here, and then it is known what it got.
                self._changed.wait_for(lambda: not lease.active, _SOON_SECONDS)
            self._end(lease, is_complete=facts.is_complete)
        asked.reply()

    def _note_reader(self, lease: Lease[Content], presence: Presence) -> int:
        """Note who reads lazily, and return how many lazy reads this client has."""
        with self._changed:
            reader = self._readers.setdefault(_who(lease), _LazyReader(presence))
            reader.presence = presence
            reader.leases.add(lease)
            name = lease.holder.reader
            return sum(len(each.leases) for who, each in self._readers.items() if who[0] == name)

    def end_lost(self) -> None:
        """End the reads of lazy readers that have gone: they cannot do it any more."""
        with self._changed:
            readers = [(each, tuple(each.leases)) for each in self._readers.values()]
        for reader, leases in readers:
            has_gone = self._has_gone(reader)  # looked up once, however many reads it has
            for lease in leases:
                if has_gone or not lease.is_of_use:
                    self._end(lease, is_complete=False)

    def _has_gone(self, reader: _LazyReader) -> bool:
        """Return whether a reader has left, or has been lost for too long to join again."""
        state, now = reader.presence.state, self._holding.clock()
        with self._changed:
            if state != "lost":
                reader.lost_at = None
                return state == "left"
            if reader.lost_at is None:
                reader.lost_at = now
            return now - reader.lost_at >= self._patience

    def close(self, reason: str) -> None:
        """End all transfers, and refuse others."""
        with self._changed:
            self._closed, running = reason, [*self._running.values(), *self._ranges]
        for transfer in running:
            transfer.abort(AbortCode.GOODBYE, reason)

    # --- small parts --------------------------------------------------------------------------

    def _send(self, asked: ClientRequest, lease: Lease[Content], source: ModelSource) -> None:
        transfer = asked.send(source.spec)
        with self._changed:
            self._running[lease] = transfer
            closed, is_open = self._closed, lease.is_open
        if closed:
            transfer.abort(AbortCode.GOODBYE, closed)
        elif not is_open:
            transfer.abort(AbortCode.STALE_ATTEMPT, "a newer read took the place of this one")
        try:
            send_model(transfer, source, check=lease.content.check)
        finally:
            with self._changed:
                del self._running[lease]

    def _lease(
        self, reference: Reference, holder: Holder, *, goes_on: bool = False
    ) -> Lease[Content]:
        with self._holding.on_shelf() as shelf:
            lease = shelf.find(reference, holder) if goes_on else None
        if lease is not None:
            return lease
        self.end_lost()
        with self._holding.on_shelf() as shelf:
            if self._closed:
                raise UnknownObject(f"no objects are held any more: {self._closed}")
            lease = shelf.open(reference, holder)
            over = [self._running[each] for each in lease.replaced if each in self._running]
        for transfer in over:
            reason = f"a newer read of {holder.reader!r} took the place of this one"
            transfer.abort(AbortCode.STALE_ATTEMPT, reason)
        return lease

    def _end(self, lease: Lease[Content], *, is_complete: bool) -> None:
        with self._changed:
            reader = self._readers.get(_who(lease))
            if reader is not None:
                reader.leases.discard(lease)
                if not reader.leases:
                    del self._readers[_who(lease)]
        self._holding.end(lease, is_complete=is_complete)


def _who(lease: Lease[Content]) -> _Who:
    return lease.holder.reader, lease.holder.session


def _inside(extent: Extent, spec: ModelSpec) -> Extent:
    if extent.stop > spec.nbytes:
        raise ObjectRefused(f"bytes {extent} are not inside an object of {spec.nbytes} bytes")
    return extent


def _holder(asked: ClientRequest, facts: Facts) -> Holder:
    caller = facts.caller
    return Holder(asked.peer_name, caller.client, caller.call)
