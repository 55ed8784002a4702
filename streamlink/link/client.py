"""``ClientLink``: a client's side: reach the server, and serve what it asks for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError, StreamTimeout
from streamlink.link.naming import once_free
from streamlink.link.pace import Pace
from streamlink.link.receive_transfer import KnownSpecs, ReceiveTransfer
from streamlink.link.rejoin import is_lost, join_again
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.transfer_facts import Direction, OnTransfer, TransferNotice
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, Attempt, Request, Update
from streamlink.transport.connect import dial
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import Session
from streamlink.transport.traffic import Traffic

__all__ = ["Assignment", "ClientLink"]

logger = logging.getLogger("streamlink.client")

_RECHECK_SECONDS = 1.0  # short, so that an embedder's Ctrl-C is heard
_LAST_SECONDS = 5.0  # most that the end of a client waits for its own threads
_LAST_TRY_SECONDS = 2.0  # one try to join again takes up to half of it


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
        self._pace = Pace()
        self._incoming: ReceiveTransfer | None = None
        self._called_off = threading.Event()
        self._called_off_because = ""

    @property
    def topic(self) -> str:
        """What is asked for."""
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
    def goes_on(self) -> bool:
        """Whether an update is to go on at a mark: a process before this one sent its beginning."""
        return self._request.returns_from > 0

    def incoming(self) -> ReceiveTransfer:
        """Open the stream of the model that comes with the request; the same one each time."""
        if self._incoming is None:
            self._incoming = self._open_incoming()
        return self._incoming

    def _open_incoming(self) -> ReceiveTransfer:
        model = ReceiveTransfer(
            self._session.config,
            stream_id=self._request.sends,
            peer=self._session.peer,
            name=f"model from {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            known=self._known,
            start=self._request.sends_from,
            notice=self._notice("received"),
        )
        model.hand_to(partial(self._dialer.open_transfer, self._session))
        return model

    def outgoing(self, spec: ModelSpec, update: Update = Update()) -> SendTransfer:
        """Open the stream of the model that goes back."""
        model = SendTransfer(
            self._session.config,
            spec,
            stream_id=self._request.returns,
            peer=self._session.peer,
            name=f"update to {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            update=update,
            start=self._request.returns_from,
            notice=self._notice("sent"),
        )
        model.hand_to(partial(self._dialer.open_transfer, self._session))
        return model

    def _notice(self, direction: Direction) -> TransferNotice:
        return TransferNotice("server", direction, self.attempt, self._on_transfer)

    def progress(self) -> None:
        """Say that the work has moved; keeps the server's *processing* clock from expiring.

        Raises:
            StreamAborted: nobody waits for the answer any more.
        """
        self.check()
        self._report()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Say for work that cannot report: this process lives, and so the work may go on."""
        is_over = threading.Event()

        def pulse() -> None:
            while not is_over.wait(self._session.config.timeouts.held_interval):
                self._report()

        thread = threading.Thread(target=pulse, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    @contextmanager
    def turn(self, lock: threading.Lock, waiting_for: str) -> Iterator[None]:
        """Hold ``lock``; while somebody else does, the server is told that this task waits.

        Raises:
            StreamAborted: nobody waits for the answer any more.
        """
        while not lock.acquire(timeout=self._session.config.timeouts.held_interval):
            self.check()
            self.incoming().hold("busy", waiting_for)
        try:
            yield
        finally:
            lock.release()

    def check(self) -> None:
        """Raise ``StreamAborted`` where nobody waits for the answer any more."""
        if self._called_off.is_set():
            raise StreamAborted(
                AbortCode.STALE_ATTEMPT, self._called_off_because, by_peer=True, who="the server"
            )
        if self._session.error is not None:
            raise self._session.error

    def call_off(self, reason: str) -> None:
        """Note that nobody waits for the answer any more; the work hears it when it looks."""
        self._called_off_because = reason
        self._called_off.set()

    def _report(self) -> None:
        if self._pace.is_due():
            self._progress += 1
            self._session.report_progress(self._request, self._progress)

    def reply(
        self, *, error: str = "", traceback: str = "", metadata: Mapping[str, str] = NO_ENTRIES
    ) -> None:
        """Answer the request."""
        self._session.reply(self._request, error=error, traceback=traceback, metadata=metadata)

    def decline(self, error: StreamlinkError) -> None:
        """Answer that nothing was done, and let go of the model that would have come."""
        if self._incoming is not None:
            self._incoming.abort(AbortCode.CANCELLED, str(error))
            self.close(self._incoming)
        self.reply(error=str(error))

    def close(self, *transfers: ReceiveTransfer | SendTransfer) -> None:
        """Let go of streams that are over."""
        for transfer in transfers:
            transfer.hand_to(self._session.withdraw)


class ClientLink:
    """A session with the server at ``address`` under ``name``, and another where that one is lost.

    A server that was killed and started again is joined again, for as long as ``rejoin_timeout``
    allows. What it had asked for is called off.

    Raises:
        ConnectFailed: nobody answers there.
        StreamAborted: the server refused us; its reason says why.
        AuthenticationFailed: one end does not accept the other's certificate, token or name.
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        Cancelled: ``cancel`` was, before there was a session.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str,
        serve: Callable[[Assignment], None],
        config: LinkConfig | None = None,
        cancel: CancelToken | None = None,
        on_transfer: OnTransfer | None = None,
    ) -> None:
        config, self._cancel = config or LinkConfig(), cancel or CancelToken()
        self._on_transfer = on_transfer
        self._dialer = dial(address, config, name=name, cancel=self._cancel)
        self._serve = serve
        self._known = KnownSpecs(self._dialer.config.limits.max_tensors)
        self._assignments: set[Assignment] = set()
        self._changed = threading.Condition()
        self._rejoin_seconds = config.timeouts.rejoin_timeout
        self._is_closing, self._is_over = threading.Event(), threading.Event()
        self._error: StreamlinkError | None = None
        try:
            self._session = once_free(self._connect, name, config.timeouts, self._cancel)
            self._keeper = threading.Thread(target=self._keep, name="keep-session", daemon=True)
            self._keeper.start()
        except BaseException:
            self._is_closing.set()
            self._dialer.close()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the last session has ended; False: not within ``seconds``."""
        return self._is_over.wait(seconds)

    def wait_finished(self) -> None:
        """Wait until the last session has ended and no task is being done.

        Raises:
            Cancelled: the token was, before that.
        """
        with self._cancel.calling(lambda _: self._wake()), self._changed:
            while not self._is_over.is_set() or self._assignments:
                self._cancel.check()
                self._changed.wait(_RECHECK_SECONDS)

    @property
    def traffic(self) -> Traffic:
        """What all streams of this client have moved."""
        return self._dialer.traffic

    @property
    def error(self) -> StreamlinkError | None:
        """Why the last session ended, once it has."""
        return self._error

    def close(self, reason: str = "the client is closing") -> None:
        """Say goodbye and drop the connections."""
        self._is_closing.set()
        self._session.close(reason)
        self._keeper.join(_LAST_TRY_SECONDS)  # no connection is closed under its last try
        self._dialer.close()
        self._keeper.join(_LAST_SECONDS)

    # --- sessions -----------------------------------------------------------------------

    def _connect(self, seconds: float | None = None) -> Session:
        tasks: dict[int, Assignment] = {}  # of this session: another server counts from 1 again

        def called_off(number: int, reason: str) -> None:
            if (assignment := tasks.get(number)) is not None:
                assignment.call_off(reason)

        return self._dialer.connect(
            lambda session, request: self._on_request(tasks, session, request),
            called_off,
            seconds=seconds,
        )

    def _keep(self) -> None:
        """Wait for the end of each session, and begin another where it was lost."""
        error: StreamlinkError | None = None
        try:
            while error is None:
                self._session.closed.wait()
                error = self._session.error
                if error is not None and self._rejoin_seconds and is_lost(error):
                    error = self._join_again(error)
        finally:  # whatever was raised: nobody waits for ever
            self._error = error
            self._is_over.set()
            self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _join_again(self, why: StreamlinkError) -> StreamlinkError | None:
        """Begin a new session; return why that was not possible."""
        server, epoch, began = self._session.peer, self._dialer.epoch, time.monotonic()
        seconds = self._rejoin_seconds
        text = "lost the %s (%s); trying for up to %g s to join again"
        logger.warning(text, server, why, seconds)
        try:
            session = join_again(
                self._connect, self._dialer.renew, why, seconds=seconds, is_closing=self._is_closing
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
        passed = time.monotonic() - began
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
