"""``ClientLink``: a client's side: reach the server, and serve what it asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.link.incoming import IncomingModel, KnownSpecs
from streamlink.link.outgoing import OutgoingModel
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, Attempt, Request, Update
from streamlink.transport.grpc_client import GrpcClient
from streamlink.transport.session import Session

__all__ = ["Assignment", "ClientLink"]


class Assignment:
    """One request from the server, as the client's work sees it."""

    def __init__(
        self, grpc: GrpcClient, session: Session, request: Request, known: KnownSpecs
    ) -> None:
        self._grpc = grpc
        self._session = session
        self._request = request
        self._known = known
        self._progress = 0
        self._incoming: IncomingModel | None = None
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

    def incoming(self) -> IncomingModel:
        """Open the stream of the model that comes with the request; the same one each time."""
        if self._incoming is None:
            self._incoming = self._open_incoming()
        return self._incoming

    def _open_incoming(self) -> IncomingModel:
        model = IncomingModel(
            self._session.config,
            stream_id=self._request.sends,
            peer=self._session.peer,
            name=f"model from {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            known=self._known,
        )
        self._grpc.open_transfer(self._session, model.pump)
        return model

    def outgoing(self, spec: ModelSpec, update: Update = Update()) -> OutgoingModel:
        """Open the stream of the model that goes back."""
        model = OutgoingModel(
            self._session.config,
            spec,
            stream_id=self._request.returns,
            peer=self._session.peer,
            name=f"update to {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            update=update,
        )
        self._grpc.open_transfer(self._session, model.pump)
        return model

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

    def close(self, *models: IncomingModel | OutgoingModel) -> None:
        """Let go of streams that are over."""
        for model in models:
            self._session.withdraw(model.pump)


class ClientLink:
    """A session with the server at ``address`` under ``name``.

    Raises:
        ConnectFailed: nobody answers there.
        StreamAborted: the server refused us; its reason says why.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str,
        serve: Callable[[Assignment], None],
        config: LinkConfig | None = None,
    ) -> None:
        self._grpc = GrpcClient(address, config or LinkConfig(), name=name)
        self._serve = serve
        self._known = KnownSpecs()
        self._assignments: dict[int, Assignment] = {}
        self._changed = threading.Condition()
        try:
            self._session = self._grpc.connect(self._on_request, self._on_called_off)
        except BaseException:
            self._grpc.close()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the session has ended; False: not within ``seconds``."""
        return self._session.closed.wait(seconds)

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no task is being done; False: not within ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._assignments, seconds)

    @property
    def error(self) -> StreamlinkError | None:
        """Why the session ended, once it has."""
        return self._session.error

    def close(self, reason: str = "the client is closing") -> None:
        """Say goodbye and drop the connections."""
        self._session.close(reason)
        self._grpc.close()

    def _on_request(self, session: Session, request: Request) -> None:
        assignment = Assignment(self._grpc, session, request, self._known)
        with self._changed:
            self._assignments[request.request_id] = assignment

        def serve() -> None:
            try:
                self._serve(assignment)
            finally:
                with self._changed:
                    del self._assignments[request.request_id]
                    self._changed.notify_all()

        threading.Thread(target=serve, name=f"task-{request.request_id}", daemon=True).start()

    def _on_called_off(self, number: int, reason: str) -> None:
        with self._changed:
            assignment = self._assignments.get(number)
        if assignment is not None:
            assignment.call_off(reason)
