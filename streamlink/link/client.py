"""``ClientLink``: a client's side: reach the server, and serve what it asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from streamlink.config import LinkConfig
from streamlink.errors import StreamlinkError
from streamlink.link.incoming import IncomingModel, KnownSpecs
from streamlink.link.outgoing import OutgoingModel
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_ENTRIES, Attempt, Request
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

    def incoming(self) -> IncomingModel:
        """Open the stream of the model that comes with the request."""
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

    def outgoing(self, spec: ModelSpec, weight: float) -> OutgoingModel:
        """Open the stream of the model that goes back."""
        model = OutgoingModel(
            self._session.config,
            spec,
            stream_id=self._request.returns,
            peer=self._session.peer,
            name=f"update to {self._session.peer}, {self.attempt}",
            attempt=self.attempt,
            weight=weight,
        )
        self._grpc.open_transfer(self._session, model.pump)
        return model

    def progress(self) -> None:
        """Say that the work has moved; keeps the server's *processing* clock from expiring."""
        self._progress += 1
        self._session.report_progress(self._request, self._progress)

    def reply(
        self, *, error: str = "", traceback: str = "", metadata: Mapping[str, str] = NO_ENTRIES
    ) -> None:
        """Answer the request."""
        self._session.reply(self._request, error=error, traceback=traceback, metadata=metadata)

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
        try:
            self._session = self._grpc.connect(self._on_request)
        except BaseException:
            self._grpc.close()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the session has ended; False: not within ``seconds``."""
        return self._session.closed.wait(seconds)

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
        threading.Thread(
            target=self._serve, args=(assignment,), name=f"task-{request.request_id}", daemon=True
        ).start()
