"""``ClientLink``: the client's end; it connects to the server and serves its requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError, StreamTimeout
from streamlink.extent import Extent
from streamlink.link.joining import is_lost, join_again, join_when_free
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.throttle import Throttle
from streamlink.link.transfer_facts import Direction, OnTransfer, TransferNotice
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, Attempt, Request, Update
from streamlink.transport.connect import Dial, dial
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import Session
from streamlink.transport.traffic import Traffic, TrafficCounter

__all__ = ["Assignment", "ClientLink", "TurnLock"]

logger = logging.getLogger("streamlink.client")

_RECHECK_SECONDS = 1.0  # short, so that Ctrl-C interrupts a program that embeds this
_LAST_SECONDS = 5.0  # the longest that ``close`` waits for this client's threads
_LAST_TRY_SECONDS = 2.0  # twice what one try to join again takes


class TurnLock:
    """A lock that one task holds at a time; each of the others waits by its session's clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: list[threading.Event] = []

    def acquire(self, clock: Clock, seconds: float) -> bool:
        """Take the lock; False: other tasks held it for ``seconds``."""
        with self._lock:
            if self._take():
                return True
            has_changed = clock.event()
            self._waiting.append(has_changed)
        has_changed.wait(seconds)
        with self._lock:
            self._waiting = [each for each in self._waiting if each is not has_changed]
            return self._take()

    def release(self) -> None:
        """Let another task take it."""
        with self._lock:
            self._is_taken = False
            for each in self._waiting:
                each.set()

    def _take(self) -> bool:
        is_free, self._is_taken = not self._is_taken, True
        return is_free


class Assignment:
    """One request from the server, as the client's work sees it."""

    def __init__(
        self,
        dialer: Dialer,
        session: Session,
        request: Request,
        known: KnownSpecs,
        on_transfer: OnTransfer | None = None,
    ) -> None:
        self._dialer = dialer
        self._session = session
        self._request = request
        self._known = known
        self._on_transfer = on_transfer
        self._progress = 0
        self._throttle = Throttle(session.clock)
        self._incoming: ReceiveTransfer | None = None
        self._called_off = session.clock.event()
        self._called_off_because = ""

    @property
    def topic(self) -> str:
        """The kind of request."""
        return self._request.topic

    @property
    def attempt(self) -> Attempt:
        """Job, round and attempt it belongs to."""
        return self._request.attempt

    @property
    def metadata(self) -> Mapping[str, str]:
        """Small facts that came with the request."""
        return self._request.metadata

    @property
    def part(self) -> tuple[str, ...]:
        """Patterns of the tensors that are wanted back (see ``model.part``); empty: all."""
        return self._request.part

    @property
    def is_resumed(self) -> bool:
        """Whether the server wants the rest of an update whose beginning another process sent."""
        wanted = self._request.returns_extent
        return wanted is not None and wanted.start > 0

    def incoming(self) -> ReceiveTransfer:
        """Open the stream of the model that comes with the request; the same one each time."""
        if self._incoming is None:
            self._incoming = self._open_incoming()
        return self._incoming

    def _open_incoming(self) -> ReceiveTransfer:
        model = ReceiveTransfer(
            self._session.config,
            clock=self._session.clock,
            stream_id=self._request.sends,
            peer_name=self._session.peer,
            name=f"model from {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            known=self._known,
            extent=self._request.sends_extent,
            notice=self._notice("received"),
        )
        model.hand_to(partial(self._dialer.open_transfer, self._session))
        return model

    def outgoing(self, spec: ModelSpec, update: Update = Update()) -> SendTransfer:
        """Open the stream of the model that goes back."""
        model = SendTransfer(
            self._session.config,
            spec,
            clock=self._session.clock,
            stream_id=self._request.returns,
            peer_name=self._session.peer,
            name=f"update to {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            update=update,
            extent=self._extent_of(spec),
            notice=self._notice("sent"),
        )
        model.hand_to(partial(self._dialer.open_transfer, self._session))
        return model

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
        """
        self.check()
        self._report()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Report progress every few seconds, for work that cannot: only that this process lives."""
        is_over = self._session.clock.event()

        def pulse() -> None:
            while not is_over.wait(self._session.config.timeouts.held_interval):
                self._report()

        thread = threading.Thread(target=pulse, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            self._session.clock.join(thread)

    @contextmanager
    def turn(self, lock: TurnLock, waiting_for: str) -> Iterator[None]:
        """Hold ``lock``; while another task holds it, report to the server that this one waits.

        Raises:
            StreamAborted: the request was cancelled.
        """
        clock, seconds = self._session.clock, self._session.config.timeouts.held_interval
        while not lock.acquire(clock, seconds):
            self.check()
            self.incoming().hold("busy", waiting_for)
        try:
            yield
        finally:
            lock.release()

    def check(self) -> None:
        """Raise ``StreamAborted`` if the request was cancelled, or why its session has ended."""
        if self._called_off.is_set():
            raise StreamAborted(
                AbortCode.STALE_ATTEMPT, self._called_off_because, by_peer=True, who="the server"
            )
        if self._session.error is not None:
            raise self._session.error

    def call_off(self, reason: str) -> None:
        """Note that the server cancelled the request; the work ends at its next ``check``."""
        self._called_off_because = reason
        self._called_off.set()

    def _report(self) -> None:
        if self._throttle.is_due():
            self._progress += 1
            self._session.report_progress(self._request, self._progress)

    def reply(
        self, *, error: str = "", traceback: str = "", metadata: Mapping[str, str] = NO_ENTRIES
    ) -> None:
        """Answer the request."""
        self._session.reply(self._request, error=error, traceback=traceback, metadata=metadata)

    def decline(self, error: StreamlinkError) -> None:
        """Answer with ``error`` before any work, and release the stream of the model to come."""
        if self._incoming is not None:
            self._incoming.abort(AbortCode.CANCELLED, str(error))
            self.close(self._incoming)
        self.reply(error=str(error))

    def close(self, *transfers: ReceiveTransfer | SendTransfer) -> None:
        """Release streams that have ended."""
        for transfer in transfers:
            transfer.hand_to(self._session.withdraw)


class ClientLink:
    """A client's connection to a server; ``start`` opens it, or its ``with`` block.

    A session that is lost is replaced by another: a server that was killed and started again is
    joined again, for as long as ``rejoin_timeout`` allows. Its former requests are cancelled.

    Args:
        address: the server's ``host:port``, or ``unix:path``.
        name: of this client; no two clients of a server may share one.
        serve: called with each request of the server, in a thread of its own.
        config: settings of this end; chunk size and limits are negotiated with the server.
        cancel: ends every wait of this client.
        on_transfer: called with the facts of each finished transfer; see ``TransferFacts``.
        dial: makes what reaches the server; another one goes over other carriers.
    """

    _dialer: Dialer
    _session: Session
    _keeper: threading.Thread

    def __init__(
        self,
        address: str,
        *,
        name: str,
        serve: Callable[[Assignment], None],
        config: LinkConfig | None = None,
        cancel: CancelToken | None = None,
        on_transfer: OnTransfer | None = None,
        clock: Clock = running_time,
        dial: Dial = dial,
    ) -> None:
        self._address, self._name = address, name
        self._clock, self._dial = clock, dial
        self._config, self._cancel = config or LinkConfig(), cancel or CancelToken()
        require_known(self._config.stream.encodings)
        self._on_transfer = on_transfer
        self._traffic = TrafficCounter(clock=clock)
        self._serve = serve
        self._known = KnownSpecs(self._config.limits.max_tensors)
        self._assignments: set[Assignment] = set()
        self._changed = clock.condition()
        self._rejoin_seconds = self._config.timeouts.rejoin_timeout
        self._is_closing, self._is_over = clock.event(), clock.event()
        self._is_started = False
        self._error: StreamlinkError | None = None

    def start(self) -> Self:
        """Connect, and return this client once the server has let it in.

        Harmless once it has connected. It may be called again after one of the errors of
        streamlink, say where the server is not up yet.

        Raises:
            ConnectFailed: nobody answers at the address within ``connect_timeout``.
            StreamAborted: the server refused us; its reason says why.
            AuthenticationFailed: one end does not accept the other's certificate, token or name.
            SecurityError: plain text would leave this machine unasked, or a certificate is no good.
            Cancelled: ``cancel`` was, before there was a session.
            RuntimeError: this client was closed.
        """
        if self._is_closing.is_set():
            raise RuntimeError(f"the client {self._name!r} was closed; make another one")
        if self._is_started:
            return self
        self._dialer = self._dial(
            self._address,
            self._config,
            name=self._name,
            clock=self._clock,
            traffic=self._traffic,
            cancel=self._cancel,
        )
        try:
            self._session = join_when_free(
                self._connect, self._name, self._config.timeouts, self._cancel, self._clock
            )
            self._keeper = threading.Thread(target=self._keep, name="keep-session", daemon=True)
            self._keeper.start()
        except StreamlinkError:
            self._dialer.close()
            raise
        except BaseException:  # an interrupt, which may come when the thread already runs
            self._is_closing.set()
            self._dialer.close()
            raise
        self._is_started = True
        return self

    @property
    def is_started(self) -> bool:
        """Whether it has connected, whatever became of the connection since."""
        return self._is_started

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the last session has ended; False: not within ``seconds``.

        Raises:
            Cancelled: the token was, before that.
            RuntimeError: it was not started.
        """
        self._require_started()
        with self._cancel.calling(lambda _: self._wake()), self._changed:
            self._changed.wait_for(
                lambda: self._is_over.is_set() or self._cancel.is_cancelled, seconds
            )
        if not self._is_over.is_set():
            self._cancel.check()
        return self._is_over.is_set()

    def wait_finished(self) -> None:
        """Wait until the last session has ended and no task is being done.

        Raises:
            Cancelled: the token was, before that.
            RuntimeError: it was not started.
        """
        self._require_started()
        with self._cancel.calling(lambda _: self._wake()), self._changed:
            while not self._is_over.is_set() or self._assignments:
                self._cancel.check()
                self._changed.wait(_RECHECK_SECONDS)

    @property
    def traffic(self) -> Traffic:
        """What all streams of this client have moved."""
        return self._traffic

    @property
    def error(self) -> StreamlinkError | None:
        """Why the last session ended, once it has."""
        return self._error

    def close(self, reason: str = "the client is closing") -> None:
        """Say goodbye and drop the connections; ``cancel`` ends the wait for the answer."""
        self._is_closing.set()
        if not self._is_started:
            return
        if self._cancel.is_cancelled:  # there is still a moment for a goodbye
            self._close(reason)
            return
        with self._cancel.calling(lambda _: self._session.abort(AbortCode.GOODBYE, reason)):
            self._close(reason)

    def _close(self, reason: str) -> None:
        self._session.close(reason)
        # Joining again may be in its last try: it must not lose its connection halfway.
        self._clock.join(self._keeper, _LAST_TRY_SECONDS)
        self._dialer.close()
        self._clock.join(self._keeper, _LAST_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _require_started(self) -> None:
        if not self._is_started:
            raise RuntimeError(
                f"the client {self._name!r} is not connected; use it in a with block, or call "
                "start() first"
            )

    # --- sessions -----------------------------------------------------------------------

    def _connect(self, seconds: float | None = None) -> Session:
        # One per session: a restarted server numbers its requests from 1 again, so a late cancel of
        # the old session must not find a request of the new one.
        tasks: dict[int, Assignment] = {}

        def called_off(number: int, reason: str) -> None:
            if (assignment := tasks.get(number)) is not None:
                assignment.call_off(reason)

        return self._dialer.connect(
            lambda session, request: self._on_request(tasks, session, request),
            called_off,
            seconds=seconds,
        )

    def _keep(self) -> None:
        """Wait until the session ends, and open another one whenever it was lost."""
        error: StreamlinkError | None = None
        try:
            while error is None:
                self._session.closed.wait()
                error = self._session.error
                if error is not None and self._rejoin_seconds and is_lost(error):
                    error = self._join_again(error)
        finally:  # also after an unforeseen exception, or ``wait`` would never return
            self._error = error
            self._is_over.set()
            self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _join_again(self, why: StreamlinkError) -> StreamlinkError | None:
        """Open a new session; returns why that was not possible."""
        server, epoch, began = self._session.peer, self._dialer.epoch, self._clock()
        seconds = self._rejoin_seconds
        text = "lost the %s (%s); trying for up to %g s to join again"
        logger.warning(text, server, why, seconds)
        try:
            session = join_again(
                self._connect,
                self._dialer.renew,
                why,
                seconds=seconds,
                is_closing=self._is_closing,
                clock=self._clock,
            )
        except StreamlinkError as error:
            return error
        self._session = session
        if self._is_closing.is_set():
            session.close("the client is closing")
            return why
        how = "had given this client up"
        if self._dialer.epoch != epoch:
            how = "was started again"
        elif isinstance(why, StreamTimeout):
            how = "is the same process, which was out of reach or stood still"
        passed = self._clock() - began
        logger.info("joined the %s again after %.1f s: it %s", server, passed, how)
        return None

    # --- tasks --------------------------------------------------------------------------

    def _on_request(self, tasks: dict[int, Assignment], session: Session, request: Request) -> None:
        assignment = Assignment(self._dialer, session, request, self._known, self._on_transfer)
        with self._changed:
            tasks[request.request_id] = assignment
            self._assignments.add(assignment)

        def serve() -> None:
            try:
                self._serve(assignment)
            finally:
                with self._changed:
                    del tasks[request.request_id]
                    self._assignments.discard(assignment)
                    self._changed.notify_all()

        threading.Thread(target=serve, name=f"task-{request.request_id}", daemon=True).start()
