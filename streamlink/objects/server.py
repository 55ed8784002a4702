"""``ObjectServer``: holds models, gives out references to them, and serves them to clients."""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from streamlink.cancel import CancelToken, checked
from streamlink.clock import Clock, running_time
from streamlink.closing import Closing
from streamlink.config import LinkConfig, ObjectLimits
from streamlink.errors import LocalProtocolError, ObjectError
from streamlink.link import Answers, ClientRequest, OnTransfer, Registration, Server
from streamlink.model.copy import copy_model
from streamlink.model.digest import HasBlockHashes, digest_of
from streamlink.model.interfaces import ModelSource, Progress, watch
from streamlink.objects.content import Content
from streamlink.objects.holding import Holding
from streamlink.objects.opened import OpenObject
from streamlink.objects.readers import Readers
from streamlink.objects.receiving import Receiving
from streamlink.objects.reference import Reference
from streamlink.objects.sending import Sending
from streamlink.objects.shelf import Holder, Lease
from streamlink.objects.spool import Spool
from streamlink.objects.wire import CLOSE, DROP, GET, PUT, READ, REFERENCE, Facts, kind_of
from streamlink.stores.coercion import SourceLike, TargetLike, as_sink, as_source

__all__ = ["ObjectServer"]

logger = logging.getLogger("streamlink.objects")

_SOON_SECONDS = 1.0  # what a thread may need that only has to end


class ObjectServer(Closing):
    """Holds objects for clients, which name them by references; ``listen`` opens it, or ``with``.

    Clients dial it and nobody else. A reference is good until its object expires, is dropped or has
    been read as often as it may be, or until this server ends.

    Args:
        address: where to listen: ``host:port``, where port 0 takes a free one, or ``unix:path``. Or
            a ``Server``, which then serves objects beside what it does already; whoever made it
            opens and closes it. It serves the objects of one object server at a time.
        config: settings of this end.
        limits: how many objects, how large, and for how long.
        spool: directory for what clients put; None: it is held in memory.
        cancel: ends whatever waits on this server, ``put`` and ``get`` too. A ``Server`` that is
            passed in has a token of its own, which does that.
        on_transfer: called with the facts of each finished transfer; see ``TransferFacts``.

    Raises:
        SecurityError: the file of tokens cannot be used.
        ValueError: the server serves objects already, or ``cancel`` is not its token.
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
        if cancel is not None and cancel is not self._server.cancel:
            raise ValueError("a server that is passed in has its own token; give ``cancel`` to it")
        self._clock = self._server.clock
        self._limits = limits or ObjectLimits()
        self._spool_at = None if spool is None else Path(spool)
        self._spool: Spool | None = None
        self._holding = Holding(self._limits, self._clock)
        patience = self._server.config.timeouts.rejoin_timeout
        self._sending = Sending(self._holding, patience)
        self._receiving = Receiving(self._holding)
        self._calls = itertools.count()
        self._is_listening = self._is_closed = False
        topics: tuple[tuple[str, _Answer, Answers], ...] = (
            (GET, self._sending.get, "send"),
            (READ, self._sending.read, "send"),
            (CLOSE, self._sending.close_read, "reply"),
            (PUT, self._receiving.put, "receive"),
            (REFERENCE, self._receiving.reference, "reply"),
            (DROP, self._receiving.drop, "reply"),
        )
        self._topics: list[Registration] = []
        try:
            for topic, answer, how in topics:
                served = self._server.serve(topic, partial(answering, answer), answers=how)
                self._topics.append(served)
        except BaseException:
            self._withdraw("another object server has it")
            raise

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
    def clients(self) -> tuple[str, ...]:
        """Names of the clients that are connected now, in order."""
        return tuple(peer.name for peer in self._server.peers())

    @property
    def nbytes(self) -> int:
        """Bytes of all objects that it holds, those that arrive included."""
        with self._holding.on_shelf() as shelf:
            return shelf.nbytes

    def __len__(self) -> int:
        """How many objects it holds, those that arrive included."""
        with self._holding.on_shelf() as shelf:
            return len(shelf)

    def close(self, reason: str = "the object server is closing") -> None:
        """End all transfers, release all objects, and stop listening; all references end with it.

        A server that was passed in goes on, and may serve those of another object server. One of
        its own waits for clients that are disconnected, as ``Server.close`` does. In a process that
        was forked while it was open it does nothing: all of it is the parent's.
        """
        if self._server.is_inherited:
            return
        with self._holding.changed:
            self._is_closed = True
            self._holding.changed.notify_all()
        self._withdraw(reason)
        self._sending.close(reason)
        self._receiving.close(reason)
        if self._owns_server:
            self._server.close(reason)
        self._holding.close()
        self._close_spool()

    def __enter__(self) -> Self:
        return self.listen()

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
            Cancelled: the server's token was cancelled; nothing is held.
            ValueError: readers, reads, ttl or digest make no sense.
            RuntimeError: this server was closed.
        """
        if self._is_closed:
            raise RuntimeError("this object server was closed; make another one")
        self._server.cancel.check()
        _require_digest(digest)
        source = as_source(model)
        is_ours = source is not model
        try:
            check = watch(source)
            with self._holding.on_shelf() as shelf:
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
                stated = self._digest(source) if digest is None else digest
                with self._holding.on_shelf() as shelf:
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
                with self._holding.on_shelf() as shelf:
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
        lease, until_closed = self._lease(reference), ExitStack()
        try:
            source = until_closed.enter_context(self._holding.reading(lease))
        except BaseException:
            self._holding.end(lease, is_complete=False)
            raise

        def close(is_complete: bool) -> None:
            until_closed.close()
            self._holding.end(lease, is_complete=is_complete)

        return OpenObject(source, close, self._holding.end_later)

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
            Cancelled: the server's token was cancelled; the read is not used up.
        """
        self._server.cancel.check()
        sink_for = as_sink(into)
        lease, is_complete = self._lease(reference), False
        try:
            with self._holding.reading(lease) as source:
                lease.content.check()
                tell = checked(progress, self._server.cancel, until=source.spec.nbytes)
                copy_model(source, sink_for(source.spec), progress=tell)
                lease.content.check()
            is_complete = True
        finally:
            self._holding.end(lease, is_complete=is_complete)

    def drop(self, reference: Reference | str) -> None:
        """Release an object, and what it holds on the disk; transfers that run may finish.

        Harmless where it is gone already.

        Raises:
            UnknownObject: the reference is of an earlier start of this server.
            ObjectRefused: it is forged.
        """
        with self._holding.on_shelf() as shelf:
            shelf.drop(_parsed(reference))

    def forget(self, client: str) -> None:
        """Release what a client has put, once nobody waits for it any more: it was lost, say.

        That is every object of that name, and what has arrived of others. What is read now stays
        until its reader closes it; what arrives now is released as soon as it is here or cut.

        Args:
            client: the name of its session; it may put other objects afterwards.
        """
        self._receiving.forget(client)

    def _digest(self, source: ModelSource) -> str:
        if isinstance(source, HasBlockHashes) and source.block_hash(0) is not None:
            return source.digest()
        return digest_of(source, progress=checked(None, self._server.cancel))

    def _lease(self, reference: Reference | str) -> Lease[Content]:
        self._sending.end_lost()
        with self._holding.on_shelf() as shelf:
            return shelf.open(_parsed(reference), Holder("", call=str(next(self._calls))))

    def _expire(self) -> None:
        """Release what expires, when it does."""
        while not self._is_closed:
            self._receiving.expire()
            self._sending.end_lost()
            with self._holding.on_shelf() as shelf:
                shelf.expire()
            self._holding.wait_expiry(lambda: self._receiving.next_expiry, lambda: self._is_closed)

    def _withdraw(self, reason: str) -> None:
        for topic in self._topics:
            topic.close(reason)

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None


_Answer = Callable[[ClientRequest, Facts], None]


def answering(answer: _Answer, asked: ClientRequest) -> None:
    """Answer a request; an error of ours goes to the client by its name."""
    try:
        answer(asked, Facts(asked.metadata))
    except ObjectError as error:
        try:
            asked.reply(error=str(error), metadata=kind_of(error))
        except LocalProtocolError:  # answered with a stream, which then ends with this error
            raise error from None


def _parsed(reference: Reference | str) -> Reference:
    return Reference.parse(reference) if isinstance(reference, str) else reference


def _require_digest(digest: str | None) -> None:
    if digest and re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise ValueError(
            f"digest={digest[:80]!r} is none: pass what digest_of(model) returns, 64 hexadecimal "
            "digits, None to have it computed, or an empty text to state none"
        )


def _nothing() -> None:
    pass
