"""``ObjectClient``: fetches objects by their references, and puts its own, over one session."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.closing import Closing
from streamlink.config import LinkConfig
from streamlink.errors import ObjectError, RequestRefused
from streamlink.extent import Extent
from streamlink.link import Answer, ClientLink, OnTransfer, Receipt, receive_model, send_model
from streamlink.model.interfaces import HasIdentity, ModelSource, watch
from streamlink.objects.attempts import Attempts
from streamlink.objects.endings import Drop, Ending, Endings
from streamlink.objects.lazy import LazySource
from streamlink.objects.lines import Lines
from streamlink.objects.opened import OpenObject
from streamlink.objects.readers import Readers, checked_readers
from streamlink.objects.reference import Reference
from streamlink.objects.targets import Place
from streamlink.objects.wire import DROP, GET, PUT, READ, REFERENCE, Caller, Terms, error_of
from streamlink.stores.coercion import SourceLike, TargetLike, as_source, as_target

__all__ = ["ObjectClient", "ObjectProgress"]

logger = logging.getLogger("streamlink.objects")

ObjectProgress = Callable[[str, int, int], None]
"""``progress(phase, done, total)``: how far a transfer is (bytes). Any thread may call it, also the
one that reads the network."""


def _ignore(phase: str, done: int, total: int) -> None:
    pass


class ObjectClient(Closing):
    """Fetches and puts objects; ``start`` connects it, or its ``with`` block.

    It never listens, and it dials only the server that it was made for: a reference has no address.
    A session that is lost is replaced by another, and calls go on where they stopped. Any thread
    may use it, and several at the same time.

    Args:
        address: the server's ``host:port``, or ``unix:path``.
        name: of this client: what the readers of an object are compared with. No two clients of a
            server may share one.
        config: settings of this end.
        cancel: ends every wait of this client.
        on_transfer: called with the facts of each finished transfer; see ``TransferFacts``.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str,
        config: LinkConfig | None = None,
        cancel: CancelToken | None = None,
        on_transfer: OnTransfer | None = None,
        clock: Clock = running_time,
    ) -> None:
        self.name = name
        self._clock = clock
        self._config = config or LinkConfig()
        self._cancel = cancel or CancelToken()
        self._id = secrets.token_hex(8)
        self._lines = Lines(clock)
        self._link = ClientLink(
            address,
            name=name,
            config=self._config,
            cancel=self._cancel,
            on_transfer=on_transfer,
            clock=clock,
        )
        self._endings = Endings(self._link, clock, self._cancel)

    def start(self) -> Self:
        """Connect, and return this client once the server has let it in.

        Harmless once it has connected.

        Raises:
            ConnectFailed: nobody answers at the address within ``connect_timeout``.
            Cancelled: this client's token was cancelled, before there was a session.
            StreamlinkError: as ``ClientLink.start``, such as that the server refused us.
            RuntimeError: this client was closed.
        """
        self._link.start()
        return self

    @property
    def is_over(self) -> bool:
        """Whether its session has ended for good: every call fails, and another client is needed.

        It ends where the server says goodbye or refuses this client, or is lost for longer than
        ``reconnect_timeout`` and then ``rejoin_timeout``.
        """
        return self._link.is_over

    def close(self) -> None:
        """Let the server count the last reads, say goodbye and drop the connections.

        In a process that was forked while it was open it does nothing: the client is the parent's.
        """
        if self._link.is_inherited:
            return
        try:
            self._endings.close()
        finally:
            self._link.close()

    def __enter__(self) -> Self:
        return self.start()

    # --- what it is for ---------------------------------------------------------------------

    def get(
        self,
        reference: Reference | str,
        into: TargetLike,
        *,
        timeout: float | None = None,
        progress: ObjectProgress = _ignore,
        cancel: CancelToken | None = None,
    ) -> Receipt:
        """Fetch a whole object into ``into``; returns once it is committed there.

        After a lost connection it goes on where it stopped. Where the session was lost as well, or
        this process was started again, that needs a target that can be resumed, such as a directory
        of safetensors; others begin again.

        Args:
            reference: to the object.
            into: see ``TargetLike``. A sink that is no ``ModelInPlace`` gets one attempt only.
            timeout: the most that it may take (seconds); None: while it makes progress.
            progress: called with how far it is; see ``ObjectProgress``.
            cancel: ends this call, as this client's own token does.

        Raises:
            UnknownObject: the server does not have it: it was started again, or has released it.
            ObjectExpired: its time is over.
            ObjectRefused: it is meant for others, no read is left, or the reference is forged.
            InvalidReference: the text is not a reference.
            ChecksumError: it is not what was put.
            ModelError: ``into`` has other tensors, or nothing can be received into it.
            StoreError: this end's disk is full or broken.
            CommunicationTimeout: ``timeout`` is over, or the server makes no progress.
            Cancelled: a token was cancelled.
            StreamlinkError: the server was lost for too long.
        """
        known = as_reference(reference)
        place = Place(as_target(into), known, self._config.timeouts.partial_expiry)
        caller = Caller(self._id, secrets.token_hex(8))
        attempts = self._attempts(f"object {known.id[:8]}", timeout, cancel)

        def on_phase(phase: str, done: int) -> None:
            attempts.note(done)
            progress(phase, done, known.nbytes)

        def attempt() -> Receipt:
            facts = {"ref": str(known), **caller.facts()}
            with self._ask(GET, facts, attempts) as answer:
                return receive_model(
                    answer.receive(),
                    lambda model: place.sink(model.spec),
                    place.resumed,
                    on_phase,
                    digest=known.digest,
                )

        try:
            receipt = attempts.make(attempt, is_once=place.is_good_once)
        except BaseException:
            self._endings.tell(Ending(known, caller, is_complete=False))
            raise
        self._endings.note(Ending(known, caller, is_complete=True))
        return receipt

    def open(
        self,
        reference: Reference | str,
        *,
        kept_bytes: int = 4 << 20,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> OpenObject:
        """Return an object that is fetched while it is read: a source, and a mapping of tensors.

        Reading in order is as fast as ``get``; elsewhere a read costs a round trip. In memory are
        the window of a stream and little more. Closing it uses up one read; until then one is
        reserved for this client.

        Args:
            reference: to the object.
            kept_bytes: how much of what was read last is kept, so that a step back costs nothing
                (bytes); two chunks at least.
            timeout: the most that one read may take (seconds); None: while it makes progress.
            cancel: ends all reads, as this client's own token does.

        Raises:
            UnknownObject: the server does not have it: it was started again, or has released it.
            ObjectExpired: its time is over; also for each read after that.
            ObjectRefused: it is meant for others, no read is left, or the reference is forged.
            InvalidReference: the text is not a reference.
            SpecMismatch: the server sends another model than the reference states.
            CommunicationTimeout: ``timeout`` is over, or the server makes no progress.
            Cancelled: a token was cancelled; also for each read after that.
            StreamlinkError: the server was lost for too long.
        """
        known, caller = as_reference(reference), Caller(self._id, secrets.token_hex(8))

        def ask(extent: Extent, attempts: Attempts) -> Answer:
            part = {"start": str(extent.start), "stop": str(extent.stop)}
            return self._ask(READ, {"ref": str(known), **caller.facts(), **part}, attempts)

        def attempts() -> Attempts:
            return self._attempts(f"object {known.id[:8]}", timeout, cancel)

        def close(is_complete: bool) -> None:
            source.close()
            self._endings.tell(Ending(known, caller, is_complete))

        try:
            # At least two chunks: what is asked for must still be there when its chunk has come.
            kept = max(kept_bytes, 2 * self._config.stream.chunk_bytes)
            source = LazySource(known, ask, attempts, self._lines, kept)
        except BaseException:
            self._endings.tell(Ending(known, caller, is_complete=False))
            raise
        return OpenObject(source, close)

    def put(
        self,
        model: SourceLike,
        *,
        readers: Readers = (),
        reads: int | None = None,
        ttl: float | None = None,
        timeout: float | None = None,
        progress: ObjectProgress = _ignore,
        cancel: CancelToken | None = None,
    ) -> Reference:
        """Send a model to the server, which holds it; returns once the server has it whole.

        After a lost connection it goes on where it stopped. Where the session was lost as well,
        that needs a server with a spool; where this process was started again, also a model with an
        identity, such as files. What has arrived of such a model stays at the server when this call
        fails; of any other it is released.

        Args:
            model: a source, a store, a path, a dict of arrays or tensors, or a torch module. Nobody
                may change it meanwhile.
            readers: names of the clients that may read it, besides the server; None: any client.
            reads: how many reads it is good for, over all readers; None: any number.
            ttl: how long it lives (seconds); None: the server's ``limits.ttl``.
            timeout: the most that it may take (seconds); None: while it makes progress.
            progress: called with how far it is; see ``ObjectProgress``.
            cancel: ends this call, as this client's own token does.

        Raises:
            ObjectLimit: the server holds too many objects, or too many bytes of them.
            ObjectRefused: the server does not accept the terms.
            SourceChanged: the model was modified meanwhile.
            ModelError: it cannot be read as a model.
            ValueError: readers make no sense.
            CommunicationTimeout: ``timeout`` is over, or the server makes no progress.
            Cancelled: a token was cancelled.
            StreamlinkError: the server's disk is full, or it was lost for too long.
        """
        source = as_source(model)
        try:
            terms = Terms(source.spec.nbytes, checked_readers(readers), reads, ttl)
            attempts = self._attempts("the object that is put", timeout, cancel)
            return self._put(source, terms, attempts, progress)
        finally:
            if source is not model:
                source.close()

    def drop(self, reference: Reference | str) -> None:
        """Release an object that this client has put; transfers that run may finish.

        Harmless where it is gone already. A server that does not answer within 2 s hears of it
        later, while this client is open.

        Raises:
            UnknownObject: the reference is of an earlier start of the server.
            ObjectRefused: another client has put it, or the server itself; or it is forged.
            InvalidReference: the text is not a reference.
        """
        try:
            self._endings.ask(Drop((("ref", str(as_reference(reference))),)))
        except RequestRefused as refused:
            raise error_of(refused, DROP) from refused

    # --- small parts ------------------------------------------------------------------------

    def _put(
        self, source: ModelSource, terms: Terms, attempts: Attempts, progress: ObjectProgress
    ) -> Reference:
        caller = Caller(self._id, secrets.token_hex(8))
        # One check for all attempts, since the server may keep bytes of the first.
        check = watch(source)
        known = source.identity() if isinstance(source, HasIdentity) else ""
        identity = sha256(known.encode()).hexdigest() if known else caller.call
        who = {"identity": identity, **caller.facts()}

        def on_phase(phase: str, done: int) -> None:
            attempts.note(done)
            progress(phase, done, terms.nbytes)

        def attempt() -> Reference:
            with self._ask(PUT, {**who, **terms.facts()}, attempts) as answer:
                if "whole" not in answer.metadata:
                    outgoing = answer.send(source.spec)
                    send_model(outgoing, source, on_phase=on_phase, check=check)
            with self._ask(REFERENCE, who, attempts) as answer:
                return Reference.parse(answer.metadata.get("ref", ""))

        try:
            return attempts.make(attempt)
        except BaseException as error:
            # Nobody can continue what has no identity. A limit was exceeded before anything came.
            if not known and not isinstance(error, ObjectError):
                self._endings.tell(Drop(tuple(who.items())))
            raise

    def _attempts(self, what: str, timeout: float | None, cancel: CancelToken | None) -> Attempts:
        return Attempts(
            self._config,
            self._clock,
            (self._cancel, cancel),
            timeout,
            what,
            is_over=lambda: self._link.wait(0),
        )

    def _ask(self, topic: str, facts: Mapping[str, str], attempts: Attempts) -> Answer:
        try:
            return self._link.ask(topic, metadata=facts, cancel=attempts.cancel)
        except RequestRefused as refused:
            raise error_of(refused, topic) from refused


def as_reference(reference: Reference | str) -> Reference:
    """Return the reference that this is, or that this text is."""
    return reference if isinstance(reference, Reference) else Reference.parse(reference)
