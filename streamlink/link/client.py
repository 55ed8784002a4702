"""``ClientLink``: the client's end; it connects to the server and serves its requests."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Self

from streamlink.cancel import CancelToken, joined
from streamlink.clock import Clock, running_time
from streamlink.closing import Closing
from streamlink.config import LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import (
    AbortCode,
    Cancelled,
    StreamAborted,
    StreamlinkError,
    StreamTimeout,
    to_raise,
)
from streamlink.link.asking import Answer, ask_server
from streamlink.link.assignment import Assignment
from streamlink.link.joining import Patience, is_goodbye, is_lost, join_again, join_when_free
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.transfer_facts import OnTransfer
from streamlink.protocol.frames import NO_ENTRIES, Request
from streamlink.stores.versions import Versions
from streamlink.transport.connect import Dial, dial
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import GOODBYE_SECONDS, Session
from streamlink.transport.traffic import Traffic, TrafficCounter

__all__ = ["ClientLink"]

logger = logging.getLogger("streamlink.client")

_RECHECK_SECONDS = 1.0  # short, so that Ctrl-C interrupts a program that embeds this
_CANCELLED_SECONDS = 1.0  # what a cancelled client waits for the answer to its goodbye
_LAST_SECONDS = 5.0  # the longest that ``close`` waits for this client's threads
_LAST_TRY_SECONDS = 2.0  # twice what one try to join again takes


class ClientLink(Closing):
    """A client's connection to a server; ``start`` opens it, or its ``with`` block.

    A session that is lost is replaced by another: a server that was killed and started again is
    joined again, for as long as ``rejoin_timeout`` allows. Its former requests are cancelled.

    Args:
        address: the server's ``host:port``, or ``unix:path``.
        name: of this client; no two clients of a server may share one.
        serve: called with each request of the server, in a thread of its own; None: this client
            only asks, and refuses requests.
        config: settings of this end; chunk size and limits are negotiated with the server.
        cancel: ends every wait of this client, those of ``serve`` too.
        cancels_work: whether ``cancel`` ends what ``serve`` does. A client of a job passes False:
            its tasks end when it closes, since to the server it has left then, and may come back.
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
        serve: Callable[[Assignment], None] | None = None,
        config: LinkConfig | None = None,
        cancel: CancelToken | None = None,
        cancels_work: bool = True,
        on_transfer: OnTransfer | None = None,
        clock: Clock = running_time,
        dial: Dial = dial,
    ) -> None:
        self._address, self._name = address, name
        self._clock, self._dial = clock, dial
        self._config, self._cancel = config or LinkConfig(), cancel or CancelToken()
        require_known(self._config.stream.encodings)
        self._work_cancel = self._cancel if cancels_work else CancelToken()
        self._on_transfer = on_transfer
        self._traffic = TrafficCounter(clock=clock)
        self._serve = serve
        self._known = KnownSpecs(self._config.limits.max_tensors)
        self._assignments: set[Assignment] = set()
        self._changed = clock.condition()
        self._rejoin_seconds = self._config.timeouts.rejoin_timeout
        self._is_closing, self._is_over = clock.event(), clock.event()
        self._is_started = False
        self._versions: Versions | None = None
        self._error: StreamlinkError | None = None
        # Models whose commit may be on its way to the server, which a goodbye would overtake.
        self._committed: weakref.WeakSet[ReceiveTransfer] = weakref.WeakSet()

    def start(self) -> Self:
        """Connect, and return this client once the server has let it in.

        Harmless once it has connected. It may be called again after one of the errors of
        streamlink, such as while the server is not up yet.

        Raises:
            ConnectFailed: nobody answers at the address within ``connect_timeout``, or other
                sessions of this process have all of ``memory_bytes``.
            StreamAborted: the server refused us; its reason says why.
            AuthenticationFailed: one end does not accept the other's certificate, token or name.
            SecurityError: plain text would leave this machine unasked, or a certificate is no good.
            Cancelled: ``cancel`` was, before there was a session.
            RuntimeError: this client was closed.
            StoreError: the directory ``stream.kept`` cannot be used.
            ValueError: another server or client of this process has another ``memory_bytes``.
        """
        if self._is_closing.is_set():
            raise RuntimeError(f"the client {self._name!r} was closed; make another one")
        if self._is_started:
            return self
        # Before it connects: what an earlier process has kept is read once, and nobody waits yet.
        if (kept := self._config.stream.kept) is not None and self._versions is None:
            self._versions = Versions(
                kept,
                "kept-client",
                self._name,
                most=self._config.stream.kept_versions,
                most_bytes=self._config.stream.kept_bytes,
            )
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

    def ask(
        self,
        topic: str,
        *,
        metadata: Mapping[str, str] = NO_ENTRIES,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> Answer:
        """Ask the server, over the session that is kept; returns what it answers.

        While a lost session is being replaced it waits for the next one, and while
        ``limits.max_open_requests`` are not answered for a place among them. One that was called
        off keeps its place until the server's handler has ended.

        Args:
            topic: which of the server's handlers is asked; see ``Server.serve``.
            metadata: small facts for it, at most 1,024 entries.
            timeout: how long to wait for the answer (seconds); None: while the server reports
                progress, or until ``communication_timeout`` has passed without.
            cancel: ends the wait and the answer's transfer, as this client's own token does.

        Returns:
            Facts, and a model to receive or to send. Close it, or use it in a ``with`` block.

        Raises:
            LocalProtocolError: a fact or the topic is no text, or there is too much of it.
            RequestRefused: the server's handler failed, or refuses.
            TopicNotServed: the server has no handler for this topic.
            ServerBusy: it has no room for another request just now; ask again later.
            CommunicationTimeout: there was no answer in time.
            StreamAborted: the session was lost or ended meanwhile. Whether the server has done
                what it was asked is then not known; ask again over the next session.
            Cancelled: a token was cancelled.
            RuntimeError: this client was not started.
        """
        self._require_started()
        until = None if timeout is None else self._clock() + timeout
        with joined(self._cancel, cancel) as either:
            session = self._live_session(until, either)
            left = None if until is None else max(0.0, until - self._clock())
            reply = ask_server(session, topic, metadata, left, either)
        return Answer(
            self._dialer,
            session,
            topic,
            reply,
            self._known,
            self._on_transfer,
            cancel=(self._cancel,) if cancel is None else (self._cancel, cancel),
            on_committed=self._note_committed,
        )

    def _note_committed(self, transfer: ReceiveTransfer) -> None:
        with self._changed:
            self._committed.add(transfer)

    def _live_session(self, until: float | None, cancel: CancelToken) -> Session:
        """Return the session that stands, or the next one.

        Raises:
            StreamlinkError: there will be none.
        """
        with cancel.calling(lambda _: self._wake()), self._changed:
            while self._session.is_ending and not self._is_over.is_set():
                cancel.check()
                left = None if until is None else until - self._clock()
                if left is not None and left <= 0:
                    break
                self._changed.wait(_RECHECK_SECONDS if left is None else left)
        cancel.check()
        if self._is_over.is_set():
            closed = StreamAborted(AbortCode.GOODBYE, "this client was closed", by_peer=False)
            raise closed if self._error is None else to_raise(self._error)
        return self._session

    @property
    def is_over(self) -> bool:
        """Whether the last session has ended: the server is lost for good, or said goodbye."""
        return self._is_over.is_set()

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
        # A token that is cancelled while the session begins aborts it there, and that end may be
        # noted before this wait has begun. A server's goodbye counts all the same.
        if not is_goodbye(self._error):
            self._cancel.check()

    @property
    def traffic(self) -> Traffic:
        """What all streams of this client have moved."""
        return self._traffic

    @property
    def error(self) -> StreamlinkError | None:
        """Why the last session ended, once it has."""
        return self._error

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, and its parent opened it."""
        return self._is_started and self._dialer.is_inherited

    def close(self, reason: str = "the client is closing") -> None:
        """Say goodbye and drop the connections; ``cancel`` ends the wait for the answer.

        In a process that was forked while it was open it does nothing: the client is the parent's.
        """
        if self.is_inherited:
            return
        self._is_closing.set()
        try:
            self._leave(reason)
        finally:
            if self._versions is not None:
                self._versions.close()

    def _leave(self, reason: str) -> None:
        if not self._is_started:
            return
        if self._cancel.is_cancelled:  # there is still a moment for a goodbye
            self._close(reason, _CANCELLED_SECONDS)
            return
        with self._cancel.calling(lambda _: self._session.abort(AbortCode.GOODBYE, reason)):
            self._close(reason, GOODBYE_SECONDS)

    def _close(self, reason: str, seconds: float) -> None:
        self._wait_committed(self._clock() + min(seconds, _LAST_TRY_SECONDS))
        self._session.close(reason, seconds)
        # Joining again may be in its last try: it must not lose its connection halfway.
        self._clock.join(self._keeper, _LAST_TRY_SECONDS)
        self._dialer.close()
        self._clock.join(self._keeper, _LAST_SECONDS)

    def _wait_committed(self, until: float) -> None:
        """Wait until the server knows of our commits: a goodbye could overtake them."""
        with self._changed:
            committed = list(self._committed)
        for transfer in committed:
            if not self._session.is_disconnected:
                transfer.wait_over(max(0.0, until - self._clock()))

    def __enter__(self) -> Self:
        return self.start()

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

        def called_off(session: Session, number: int, reason: str) -> None:
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
        lasting = self._config.timeouts.session_timeout
        patience = Patience(self._rejoin_seconds, lasting=lasting, now=self._clock())
        try:
            while error is None:
                self._session.closed.wait()
                error = self._session.error
                if error is not None and self._rejoin_seconds and is_lost(error):
                    error = self._join_again(error, patience.lost(self._clock()))
                    patience.joined(self._clock())
        finally:  # also after an unforeseen exception, or ``wait`` would never return
            self._error = error
            self._is_over.set()
            self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _join_again(self, why: StreamlinkError, seconds: float) -> StreamlinkError | None:
        """Open a new session within ``seconds``; returns why that was not possible."""
        server, epoch, began = self._session.peer_name, self._dialer.epoch, self._clock()
        if seconds <= 0:
            logger.warning("lost the %s again (%s); rejoin_timeout is used up", server, why)
            return why
        text = "lost the %s (%s); trying for up to %.3g s to join again"
        logger.warning(text, server, why, seconds)
        try:
            session = join_again(
                self._connect,
                self._dialer.renew,
                why,
                seconds=seconds,
                at_once=seconds == self._rejoin_seconds,
                is_closing=self._is_closing,
                clock=self._clock,
            )
        except StreamlinkError as error:
            return error
        with self._changed:
            self._session = session
            self._changed.notify_all()
        # ``close`` may have said goodbye to the session before this one only.
        if self._is_closing.is_set():
            session.close("the client is closing")
            return why
        how = "had given this client up"
        if self._dialer.epoch != epoch:
            how = "was started again"
        elif isinstance(why, StreamTimeout):
            how = "is the same process, which was out of reach or stood still"
        elif isinstance(why, StreamAborted) and not why.by_peer:
            how = "is the same process, and what it had sent arrived damaged"
        passed = self._clock() - began
        logger.info("joined the %s again after %.1f s: it %s", server, passed, how)
        return None

    # --- tasks --------------------------------------------------------------------------

    def _on_request(self, tasks: dict[int, Assignment], session: Session, request: Request) -> None:
        if (work := self._serve) is None:
            session.reply(request, error=f"this client only asks; it does no {request.topic!r}")
            return
        assignment = Assignment(
            self._dialer,
            session,
            request,
            self._known,
            self._on_transfer,
            self._work_cancel,
            client_name=self._name,
            versions=self._versions,
        )
        with self._changed:
            # Before its thread starts: a cancel that follows at once must find it.
            tasks[request.request_id] = assignment
            self._assignments.add(assignment)

        def forget() -> None:
            with self._changed:
                del tasks[request.request_id]
                self._assignments.discard(assignment)
                self._changed.notify_all()

        def serve() -> None:
            try:
                work(assignment)
                self._look_for_answer(assignment)
            except BaseException as error:
                # The server hears it at once, and need not wait for its deadline; also of
                # ``sys.exit``, which ends this thread only.
                self._log_failure(assignment, error)
                assignment.fail(error)
            finally:
                forget()

        try:
            threading.Thread(target=serve, name=f"task-{request.request_id}", daemon=True).start()
        except BaseException:  # no thread left: the session answers the request with that
            forget()
            raise

    def _look_for_answer(self, assignment: Assignment) -> None:
        # No failure: another thread may have taken it, and answer later.
        if not (assignment.is_answered or assignment.is_called_off):
            logger.warning(
                "%s: the function that was given the request %r returned without an answer; the "
                "server waits until answer() is called",
                self._name, assignment.topic,
            )  # fmt: skip

    def _log_failure(self, assignment: Assignment, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            logger.warning("%s: the work on %r %s", self._name, assignment.topic, error)
            return
        if isinstance(error, StreamAborted) and error.by_peer and assignment.sends_model:
            # Nothing is wrong here, and no line of this end is to blame.
            text = "the server did not take the answer of %r to %r: %s"
            logger.warning(text, self._name, assignment.topic, error.reason)
            return
        if assignment.is_called_off:  # whatever that made of the work, it is no fault of this end
            text = "%s: the server called the work on %r off: %s"
            logger.warning(text, self._name, assignment.topic, assignment.called_off_because)
            return
        logger.exception("the work on %r failed", assignment.topic)
