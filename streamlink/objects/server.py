"""``ObjectServer``: holds models, gives out references to them, and serves them to clients."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig, ObjectLimits
from streamlink.errors import AbortCode, ObjectError, ObjectRefused, StreamAborted, StreamlinkError
from streamlink.extent import Extent
from streamlink.link import (
    ClientRequest,
    OnTransfer,
    SendTransfer,
    Server,
    send_model,
)
from streamlink.model.copy import copy_model
from streamlink.model.digest import HasBlockHashes, digest_of
from streamlink.model.interfaces import ModelSource, Progress, watch
from streamlink.model.spec import ModelSpec
from streamlink.objects.content import Content
from streamlink.objects.opened import OpenObject
from streamlink.objects.readers import Readers
from streamlink.objects.receiving import Receiving
from streamlink.objects.reference import Reference, Sealer
from streamlink.objects.shelf import Holder, Lease, Shelf
from streamlink.objects.spool import Spool
from streamlink.objects.wire import CLOSE, GET, PUT, READ, REFERENCE, Facts, kind_of
from streamlink.stores.coercion import SourceLike, TargetLike, as_sink, as_source

__all__ = ["ObjectServer"]

logger = logging.getLogger("streamlink.objects")

_LONGEST_NAP_SECONDS = 60.0
_SOON_SECONDS = 1.0  # what a thread may need that only has to end


class ObjectServer:
    """Holds objects for clients, which name them by references; ``listen`` opens it, or ``with``.

    Clients dial it and nobody else. A reference is good until its object expires, is dropped or has
    been read as often as it may be, or until this server ends.

    Args:
        address: where to listen: ``host:port``, where port 0 takes a free one, or ``unix:path``. Or
            a ``Server``, which then serves objects beside what it does already; whoever made it
            opens and closes it.
        config: settings of this end.
        limits: how many objects, how large, and for how long.
        spool: directory for what clients put; None: it is held in memory.
        cancel: ends whatever waits on this server.
        on_transfer: called with the facts of each finished transfer; see ``TransferFacts``.

    Raises:
        SecurityError: the file of tokens cannot be used.
        ValueError: the server serves objects already.
    """

    def __init__(
        self,
        address: str | Server = "127.0.0.1:0",
        *,
        config: LinkConfig | None = None,
        limits: ObjectLimits | None = None,
        spool: Path | str | None = None,
        cancel: CancelToken | None = None,
        on_transfer: OnTransfer | None = None,
        clock: Clock = running_time,
    ) -> None:
        self._owns_server = isinstance(address, str)
        self._server = (
            Server(address, config, cancel=cancel, on_transfer=on_transfer, clock=clock)
            if isinstance(address, str)
            else address
        )
        self._clock = self._server.clock
        self._limits = limits or ObjectLimits()
        self._spool_at = None if spool is None else Path(spool)
        self._spool: Spool | None = None
        self._changed = self._clock.condition()
        self._receiving = Receiving(self._on_shelf, self._changed, self._clock, self._limits)
        self._shelf: Shelf[Content] = Shelf(self._limits, Sealer(), self._clock, self._clock.wall)
        self._sending: dict[Lease[Content], SendTransfer] = {}
        self._calls = itertools.count()
        self._is_listening = self._is_closed = False
        answers = {
            GET: self._get,
            READ: self._read,
            CLOSE: self._close,
            PUT: self._receiving.put,
            REFERENCE: self._receiving.reference,
        }
        for topic, answer in answers.items():
            self._server.serve(topic, partial(_answering, answer))

    # --- the process around it --------------------------------------------------------------

    def listen(self) -> Self:
        """Listen for clients, and return this server; a ``with`` block does it by itself.

        Harmless while it listens already. Whoever calls it calls ``close`` in the end.

        Raises:
            AddressInUse: the address is taken.
            SecurityError: plain text would leave this machine unasked, or a certificate is no good.
            StoreError: another server has the spool, or the disk refuses.
            RuntimeError: this server was closed.
        """
        if self._is_closed:
            raise RuntimeError("this object server was closed; make another one")
        if self._is_listening:
            return self
        if self._spool_at is not None:
            self._spool = self._receiving.spool = Spool(self._spool_at)
        try:
            if self._owns_server:
                self._server.listen()
        except BaseException:
            self._close_spool()
            raise
        self._is_listening = True
        threading.Thread(target=self._expire, name="objects-expire", daemon=True).start()
        return self

    @property
    def port(self) -> int:
        """The port it listens on; 0: a Unix socket, or it has never listened."""
        return self._server.port

    @property
    def address(self) -> str:
        """Where clients on this machine reach it: ``host:port``, or its Unix socket."""
        return self._server.address

    @property
    def nbytes(self) -> int:
        """Bytes of all objects that it holds, those that arrive included."""
        with self._changed:
            return self._shelf.nbytes

    def __len__(self) -> int:
        """How many objects it holds, those that arrive included."""
        with self._changed:
            return len(self._shelf)

    def close(self, reason: str = "the object server is closing") -> None:
        """End all transfers, release all objects, and stop listening; all references end with it.

        A server that was passed in goes on.
        """
        with self._changed:
            self._is_closed = True
            sending = list(self._sending.values())
            self._changed.notify_all()
        for transfer in sending:
            transfer.abort(AbortCode.GOODBYE, reason)
        self._receiving.close(reason)
        if self._owns_server:
            self._server.close(reason)
        with self._on_shelf() as shelf:
            shelf.clear()
        self._close_spool()

    def __enter__(self) -> Self:
        return self.listen()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- what its owner does ----------------------------------------------------------------

    def put(
        self,
        model: SourceLike,
        *,
        readers: Readers = None,
        reads: int | None = None,
        ttl: float | None = None,
        digest: str | None = None,
    ) -> Reference:
        """Hold ``model`` for clients, and return the reference to it. Nothing is copied.

        Args:
            model: a source, a store, a path, a dict of arrays or tensors, or a torch module. Nobody
                may change it until the object is gone; a reader would notice by the digest.
            readers: names of the clients that may read it; None: any client; empty: none.
            reads: how many reads it is good for, over all readers; None: any number.
            ttl: how long it lives (seconds); None: ``limits.ttl``.
            digest: what ``digest_of`` returns for the model, where that is known. None: it is taken
                from the store, or computed here, which reads the model once. Empty: none is stated,
                so a change of arrays before the first read is not noticed.

        Raises:
            ObjectLimit: there are too many objects, or too many bytes of them.
            ModelError: it cannot be read as a model.
            ValueError: readers, reads or ttl make no sense.
            RuntimeError: this server was closed.
        """
        if self._is_closed:
            raise RuntimeError("this object server was closed; make another one")
        source = as_source(model)
        is_ours = source is not model
        try:
            check = watch(source)
            with self._on_shelf() as shelf:
                shelf.check_terms(reads, ttl)
                slot = shelf.reserve(source.spec.nbytes)
            content = Content(
                source.spec,
                lambda: source,
                closes=False,
                shared_bytes=self._limits.shared_bytes,
                check=check,
                release=source.close if is_ours else _nothing,
            )
            try:
                stated = _digest(source) if digest is None else digest
                with self._on_shelf() as shelf:
                    return shelf.fill(
                        slot,
                        content,
                        digest=stated,
                        spec_digest=source.spec.digest.hex(),
                        readers=readers,
                        reads=reads,
                        ttl=ttl,
                    )
            finally:
                with self._on_shelf() as shelf:
                    shelf.cancel(slot)
        except BaseException:
            if is_ours:
                source.close()
            raise

    def open(self, reference: Reference | str) -> OpenObject:
        """Return an object as a source, read range by range; closing it uses up one read.

        It stays readable until it is closed, also when the object expires meanwhile.

        Raises:
            ObjectError: there is no such object, it has expired, or it has no reads left.
        """
        lease, until_closed = self._lease(_parsed(reference), self._own()), ExitStack()
        try:
            source = until_closed.enter_context(self._reading(lease))
        except BaseException:
            self._end(lease, is_complete=False)
            raise

        def close(is_complete: bool) -> None:
            until_closed.close()
            self._end(lease, is_complete=is_complete)

        return OpenObject(source, close)

    def get(
        self, reference: Reference | str, into: TargetLike, progress: Progress | None = None
    ) -> None:
        """Copy an object into arrays, tensors or a store; that is one read.

        Args:
            reference: to the object.
            into: see ``TargetLike``.
            progress: called with the bytes copied.

        Raises:
            ObjectError: there is no such object, it has expired, or it has no reads left.
            SpecMismatch: ``into`` has other tensors.
            SourceChanged: the model was modified since it was put.
        """
        known, sink_for = _parsed(reference), as_sink(into)
        lease, is_complete = self._lease(known, self._own()), False
        try:
            with self._reading(lease) as source:
                lease.content.check()
                copy_model(source, sink_for(source.spec), progress=progress)
                lease.content.check()
            is_complete = True
        finally:
            self._end(lease, is_complete=is_complete)

    def drop(self, reference: Reference | str) -> None:
        """Release an object, and what it holds on the disk; transfers that run may finish.

        Harmless where it is gone already.

        Raises:
            UnknownObject: the reference is of an earlier start of this server.
            ObjectRefused: it is forged.
        """
        with self._on_shelf() as shelf:
            shelf.drop(_parsed(reference))

    # --- what clients ask -------------------------------------------------------------------

    def _get(self, asked: ClientRequest, facts: Facts) -> None:
        lease, is_complete = self._lease(facts.reference, _holder(asked, facts)), False
        try:
            with self._reading(lease) as source:
                self._send(asked, lease, source)
            is_complete = True
        finally:
            self._end(lease, is_complete=is_complete)

    def _read(self, asked: ClientRequest, facts: Facts) -> None:
        lease = self._lease(facts.reference, _holder(asked, facts), goes_on=True)
        with self._reading(lease) as source:
            extent = _inside(facts.extent, source.spec)
            outgoing = asked.send(source.spec, extent=extent)
            try:
                send_model(outgoing, source, check=lease.content.check)
            except StreamAborted as error:
                if not error.by_peer:
                    raise
                # A reader that goes on elsewhere ends the transfer of what it no longer wants.
            finally:
                self._note_had(lease, Extent(extent.start, outgoing.received_bytes))

    def _note_had(self, lease: Lease[Content], extent: Extent) -> None:
        with self._on_shelf() as shelf:
            shelf.note_had(lease, extent)

    def _close(self, asked: ClientRequest, facts: Facts) -> None:
        with self._on_shelf() as shelf:
            lease = shelf.find(facts.reference, _holder(asked, facts))
        if lease is not None:
            with self._changed:
                # What the client has ended is about to end here, and then it is known what it got.
                self._changed.wait_for(lambda: not lease.active, _SOON_SECONDS)
            self._end(lease, is_complete=facts.is_complete)
        asked.reply()

    def _send(self, asked: ClientRequest, lease: Lease[Content], source: ModelSource) -> None:
        transfer = asked.send(source.spec)
        with self._changed:
            self._sending[lease] = transfer
            is_late = self._is_closed or not lease.is_open
        if is_late:
            transfer.abort(AbortCode.STALE_ATTEMPT, "a newer read took the place of this one")
        try:
            send_model(transfer, source, check=lease.content.check)
        finally:
            with self._changed:
                del self._sending[lease]

    # --- the shelf --------------------------------------------------------------------------

    @contextmanager
    def _on_shelf(self) -> Iterator[Shelf[Content]]:
        """Hold the lock within the block; what is released in it is freed afterwards."""
        try:
            with self._changed:
                yield self._shelf
                self._changed.notify_all()
        finally:
            # Without the lock: to remove a model from a disk may take seconds.
            with self._changed:
                released = self._shelf.take_released()
            for content in released:
                _freed(content)

    def _lease(
        self, reference: Reference, holder: Holder, *, goes_on: bool = False
    ) -> Lease[Content]:
        with self._on_shelf() as shelf:
            lease = shelf.find(reference, holder) if goes_on else None
            if lease is None:
                lease = shelf.open(reference, holder)
            over = [self._sending[each] for each in lease.replaced if each in self._sending]
        for transfer in over:
            reason = f"a newer read of {holder.reader!r} took the place of this one"
            transfer.abort(AbortCode.STALE_ATTEMPT, reason)
        return lease

    def _own(self) -> Holder:
        return Holder("", call=str(next(self._calls)))

    @contextmanager
    def _reading(self, lease: Lease[Content]) -> Iterator[ModelSource]:
        with self._on_shelf() as shelf:
            content = shelf.enter(lease)
        try:
            with content.reading() as source:
                yield source
        finally:
            with self._on_shelf() as shelf:
                shelf.leave(lease)

    def _end(self, lease: Lease[Content], *, is_complete: bool) -> None:
        with self._on_shelf() as shelf:
            shelf.close(lease, is_complete=is_complete)

    def _expire(self) -> None:
        """Release what expires, when it does."""
        while not self._is_closed:
            with self._on_shelf() as shelf:
                shelf.expire()
            self._receiving.expire()
            with self._changed:
                times = (self._shelf.next_expiry, self._receiving.next_expiry)
                due = min((time for time in times if time is not None), default=inf)
                nap = min(due - self._clock(), _LONGEST_NAP_SECONDS)
                if nap > 0 and not self._is_closed:
                    self._changed.wait(nap)

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None


def _answering(answer: Callable[[ClientRequest, Facts], None], asked: ClientRequest) -> None:
    """Answer a request; an error of ours goes to the client by its name."""
    try:
        answer(asked, Facts(asked.metadata))
    except ObjectError as error:
        asked.reply(error=str(error), metadata=kind_of(error))


def _inside(extent: Extent, spec: ModelSpec) -> Extent:
    if extent.stop > spec.nbytes:
        raise ObjectRefused(f"bytes {extent} are not inside an object of {spec.nbytes} bytes")
    return extent


def _holder(asked: ClientRequest, facts: Facts) -> Holder:
    caller = facts.caller
    return Holder(asked.peer_name, caller.client, caller.call)


def _parsed(reference: Reference | str) -> Reference:
    return Reference.parse(reference) if isinstance(reference, str) else reference


def _digest(source: ModelSource) -> str:
    if isinstance(source, HasBlockHashes) and source.block_hash(0) is not None:
        return source.digest()
    return digest_of(source)


def _freed(content: Content) -> None:
    try:
        content.release()
    except (StreamlinkError, OSError) as error:
        logger.warning("an object could not be removed: %s", error)


def _nothing() -> None:
    pass
