"""``Assignment``: one request of the server, with the model that comes and the one in answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    StreamAborted,
    StreamlinkError,
    code_of,
    to_raise,
)
from streamlink.extent import Extent
from streamlink.link.bases import Bases
from streamlink.link.facts import OMITS, own, parse_metrics, to_metadata
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.reports import Reports
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.streams import is_complete
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import Direction, OnTransfer, TransferNotice
from streamlink.model.part import part_of
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import (
    NO_ENTRIES,
    NO_METRICS,
    Attempt,
    Request,
    Update,
    UpdateKind,
)
from streamlink.stores.coercion import SourceLike, TargetLike, as_sink, as_source
from streamlink.stores.versions import Versions
from streamlink.transport.dialer import Dialer
from streamlink.transport.facts import require_sendable
from streamlink.transport.session import Session

__all__ = ["Assignment", "TurnLock"]


class TurnLock:
    """A lock that one task holds at a time; each of the others waits by its session's clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        # An event for each that waits, and no condition: executors make this lock before there is a
        # clock, which only ``acquire`` is given.
        self._waiting: list[threading.Event] = []

    def acquire(self, clock: Clock, seconds: float, cancel: CancelToken | None = None) -> bool:
        """Take the lock; False: other tasks held it for ``seconds``, or until ``cancel``."""
        with self._lock:
            if self._take():
                return True
            has_changed = clock.event()
            self._waiting.append(has_changed)
        # The result does not matter: the lock may have been released just as the time was over, and
        # whoever was woken may find it taken again.
        with (cancel or CancelToken()).calling(lambda _: has_changed.set()):
            has_changed.wait(seconds)
        with self._lock:
            self._waiting = [each for each in self._waiting if each is not has_changed]
            return self._take()

    def release(self) -> None:
        """Let another task take it."""
        with self._lock:
            self._is_taken = False
            # All: the first to run takes the lock, the others report that they wait, and come
            # again.
            for each in self._waiting:
                each.set()

    def _take(self) -> bool:
        is_free, self._is_taken = not self._is_taken, True
        return is_free


class Assignment:
    """One request from the server, as the client's work sees it.

    The client's token ends what waits in it, with ``Cancelled``, and both streams.
    """

    def __init__(
        self,
        dialer: Dialer,
        session: Session,
        request: Request,
        known: KnownSpecs,
        on_transfer: OnTransfer | None = None,
        cancel: CancelToken | None = None,
        *,
        client_name: str = "",
        versions: Versions | None = None,
    ) -> None:
        self.client_name = client_name
        """The name of this client at its server."""
        self._dialer = dialer
        self._session = session
        self._request = request
        self._known = known
        self._on_transfer = on_transfer
        self._cancel = cancel or CancelToken()
        self._bases: Bases | None = None
        if versions is not None:
            # Digests are told to this server alone, and only those of what it has sent itself.
            owner = f"job {request.attempt.job!r} of the {session.peer_name}"
            self._bases = Bases(versions, owner)
        self._reports = Reports(session, request)
        self._incoming: ReceiveTransfer | None = None
        self._outgoing: SendTransfer | None = None
        self._is_answered = self._is_received = False
        self._called_off = session.clock.event()
        self.called_off_because = ""
        """Why the server cancelled the request; empty: it has not."""

    @property
    def topic(self) -> str:
        """The kind of request."""
        return self._request.topic

    @property
    def attempt(self) -> Attempt:
        """Job, round and attempt it belongs to."""
        return self._request.attempt

    @property
    def config(self) -> LinkConfig:
        """The settings of this end."""
        return self._session.config

    @property
    def metadata(self) -> Mapping[str, str]:
        """Small facts that came with the request."""
        return own(self._request.metadata)

    @property
    def metrics(self) -> Mapping[str, float]:
        """Numbers that came with the request."""
        return parse_metrics(self._request.metadata)

    @property
    def has_model(self) -> bool:
        """Whether a model comes with the request."""
        return self._request.sends > 0

    @property
    def wants_model(self) -> bool:
        """Whether the server has a place for a model in the answer."""
        return self._request.returns > 0

    @property
    def sends_model(self) -> bool:
        """Whether the answer's model has begun to move."""
        return self._outgoing is not None

    @property
    def is_answered(self) -> bool:
        """Whether the server has its answer, or the error that ended the work."""
        return self._is_answered

    @property
    def is_called_off(self) -> bool:
        """Whether the server cancelled the request."""
        return self._called_off.is_set()

    @property
    def part(self) -> tuple[str, ...]:
        """Patterns of the tensors that are wanted back (see ``model.part``); empty: all."""
        return self._request.part

    @property
    def is_resumed(self) -> bool:
        """Whether the server wants the rest of an update whose beginning another process sent."""
        wanted = self._request.returns_extent
        return wanted is not None and wanted.start > 0

    # --- one call for each direction --------------------------------------------------------

    def receive(self, into: TargetLike) -> Receipt:
        """Receive the model that comes with the request.

        Args:
            into: where it goes, such as a dict of arrays, a store, or a function that gets its
                ``ModelSpec`` and returns a sink. See ``TargetLike``.

        Raises:
            LocalProtocolError: no model comes with this request, or it was received already.
            ModelError: no model can go into ``into``, or it has other tensors.
            StoreError: the disk is full or broken.
            Cancelled: the client's token was cancelled.
            StreamlinkError: the transfer failed, or the request was called off.
        """
        sink_for = as_sink(into)
        if self._is_received:
            raise LocalProtocolError(
                f"the model of {self.topic!r} was received already; it comes once"
            )
        incoming, self._is_received = self.incoming(), True
        return receive_model(incoming, lambda model: sink_for(model.spec))

    def answer(
        self,
        model: SourceLike | None = None,
        *,
        metadata: Mapping[str, str] = NO_ENTRIES,
        metrics: Mapping[str, float] = NO_METRICS,
    ) -> Receipt | None:
        """Answer the request, and release its streams.

        Args:
            model: what is sent back; it must not change meanwhile. See ``SourceLike``. None:
                nothing.
            metadata: small facts for the server, at most 1,024 entries with those of ``metrics``.
            metrics: numbers for the server.

        Returns:
            The receipt of the model that the server has committed.

        Raises:
            LocalProtocolError: the server wants no model back, the request was answered already,
                or a fact is no text, or there is too much of it.
            ModelError: ``model`` cannot be read.
            StoreError: there is no model at the path, or it cannot be read.
            Cancelled: the client's token was cancelled.
            StreamlinkError: the transfer failed, or the request was called off.
            ValueError: a name in ``metadata`` begins with ``streamlink.``, or a metric is not a
                finite number.
        """
        facts = to_metadata(metadata, metrics)
        require_sendable(facts)  # before the model has gone
        if self._is_answered:
            raise LocalProtocolError(f"the request {self.topic!r} was answered already")
        self.check()
        receipt = None if model is None else self._send(model, metrics)
        self.reply(metadata=facts)
        self.close(*self._streams())
        return receipt

    def _send(self, model: SourceLike, metrics: Mapping[str, float]) -> Receipt:
        source = as_source(model)
        try:
            return send_model(self.outgoing(source.spec), source, metrics)
        finally:
            if source is not model:  # the user's own stays open
                source.close()

    def fail(self, error: BaseException) -> None:
        """Answer with ``error``, which the work has raised, and abort what still moves."""
        text = str(error)
        if not isinstance(error, StreamlinkError):
            text = f"{type(error).__name__}: {error}"
        if not self._is_answered:
            self.reply(error=text)
        for transfer in self._streams():
            if not is_complete(transfer):
                transfer.abort(code_of(error), text)
        self.close(*self._streams())

    def _streams(self) -> list[ReceiveTransfer | SendTransfer]:
        return [each for each in (self._incoming, self._outgoing) if each is not None]

    # --- stream by stream ---------------------------------------------------------------------

    def incoming(self) -> ReceiveTransfer:
        """Open the stream of the model that comes with the request; the same one each time.

        See ``receive_model``.
        """
        if self._incoming is None:
            if not self.has_model:
                raise LocalProtocolError(
                    f"no model comes with the request {self.topic!r}; look at has_model first"
                )
            self._incoming = self._open_incoming()
        return self._incoming

    def _open_incoming(self) -> ReceiveTransfer:
        model = ReceiveTransfer(
            self._session.config,
            clock=self._session.clock,
            stream_id=self._request.sends,
            peer_name=self._session.peer_name,
            name=f"model from {self._session.peer_name}, {self.attempt}",
            attempt=self.attempt,
            known=self._known,
            extent=self._request.sends_extent,
            bases=self._bases,
            keeps=True,
            notice=self._notice("received"),
        )
        self._open(model)
        return model

    def outgoing(self, spec: ModelSpec, update: Update = Update()) -> SendTransfer:
        """Open the stream of the model that goes back; see ``send_model``."""
        if not self.wants_model:
            raise LocalProtocolError(
                f"the server wants no model back for {self.topic!r}; look at wants_model first"
            )
        self._outgoing = model = SendTransfer(
            self._session.config,
            spec,
            clock=self._session.clock,
            stream_id=self._request.returns,
            peer_name=self._session.peer_name,
            name=f"update to {self._session.peer_name}, {self.attempt}",
            attempt=self.attempt,
            update=update,
            extent=self._extent_of(spec),
            lossy=self.config.stream.lossy_up,
            bases=self._bases_of(update),
            notice=self._notice("sent"),
        )
        self._open(model)
        return model

    def _open(self, model: ReceiveTransfer | SendTransfer) -> None:
        model.hand_to(partial(self._dialer.open_transfer, self._session))
        # After that: of a token that is cancelled already the server hears over the stream.
        model.obey(self._cancel)

    def _bases_of(self, update: Update) -> Bases | None:
        """Return what an update may be sent as a difference from: earlier models."""
        is_known = self._incoming is not None and self._incoming.has_spec
        # What is a difference already has nothing in common with the model.
        if self._bases is None or not is_known or update.kind is UpdateKind.DIFFERENCES:
            return None
        whole = self.incoming().spec
        return self._bases.for_part(whole, part_of(whole, self._request.part))

    def _extent_of(self, spec: ModelSpec) -> Extent | None:
        """Return the bytes of the answer that are wanted; None: all."""
        wanted = self._request.returns_extent
        # A model that is too short, such as the empty one of a task that failed, is sent whole: the
        # server then says what is wrong with it.
        return wanted if wanted is not None and wanted.stop <= spec.nbytes else None

    def _notice(self, direction: Direction) -> TransferNotice:
        return TransferNotice(
            "server", direction, self.attempt, self._on_transfer, clock=self._session.clock
        )

    def progress(self) -> None:
        """Report that the work has moved; this restarts the server's *processing* deadline.

        Raises:
            StreamAborted: the request was cancelled.
            Cancelled: the client's token was cancelled.
        """
        self.check()
        self._reports.send()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Report progress every few seconds, for work that cannot: only that this process lives.

        It does not begin to take the model of the request, for which the server waits as long as
        its ``open_timeout``: receive it first.
        """
        with self._reports.alive():
            yield

    @contextmanager
    def turn(self, lock: TurnLock, waiting_for: str) -> Iterator[None]:
        """Hold ``lock``; while another task holds it, report to the server that this one waits.

        Raises:
            StreamAborted: the request was cancelled.
            Cancelled: the client's token was cancelled.
        """
        clock, seconds = self._session.clock, self._session.config.timeouts.held_interval
        while not lock.acquire(clock, seconds, self._cancel):
            self.check()
            # On the stream of the model, which is opened for that: its deadlines run already.
            self.incoming().hold("busy", waiting_for)
        try:
            yield
        finally:
            lock.release()

    def check(self) -> None:
        """Raise ``StreamAborted`` if the request was cancelled, or why its session has ended.

        Raises:
            Cancelled: the client's token was cancelled.
        """
        self._cancel.check()
        if self._called_off.is_set():
            raise StreamAborted(
                AbortCode.STALE_ATTEMPT, self.called_off_because, by_peer=True, who="the server"
            )
        if self._session.error is not None:
            raise to_raise(self._session.error)

    def call_off(self, reason: str) -> None:
        """Note that the server cancelled the request; the work ends at its next ``check``."""
        # The reason first: ``check`` reads it as soon as the event is set.
        self.called_off_because = reason
        self._called_off.set()

    def reply(
        self, *, error: str = "", traceback: str = "", metadata: Mapping[str, str] = NO_ENTRIES
    ) -> None:
        """Answer the request."""
        # An error ends both streams at the server; only a success has to name those that never
        # come.
        facts = metadata if error else {**metadata, **self._omissions()}
        self._session.reply(self._request, error=error, traceback=traceback, metadata=facts)
        self._is_answered = True

    def _omissions(self) -> dict[str, str]:
        """Name the streams that this end has not opened; the server need not wait for them."""
        omitted = []
        if self.has_model and self._incoming is None:
            omitted.append("sends")
        if self.wants_model and self._outgoing is None:
            omitted.append("returns")
        return {OMITS: ",".join(omitted)} if omitted else {}

    def decline(self, error: StreamlinkError) -> None:
        """Answer with ``error`` before any work, and release the stream of the model to come."""
        if self._incoming is not None:
            self._incoming.abort(AbortCode.CANCELLED, str(error))
            self.close(self._incoming)
        self.reply(error=str(error))

    def close(self, *transfers: ReceiveTransfer | SendTransfer) -> None:
        """Release streams that have ended."""
        for transfer in transfers:
            transfer.withdraw(self._session.withdraw)
