"""One model between two machines, without rounds: ``receive`` listens, ``send`` brings it."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout

from streamlink.config import LinkConfig
from streamlink.errors import ConnectFailed, StreamlinkError
from streamlink.link.incoming import IncomingModel, receive_model
from streamlink.link.outgoing import OutgoingModel, Receipt, send_model
from streamlink.model.interfaces import ModelSink, ModelSource
from streamlink.model.spec import ModelSpec, require_same
from streamlink.protocol.frames import Request
from streamlink.transport.grpc_client import GrpcClient
from streamlink.transport.grpc_server import GrpcServer
from streamlink.transport.session import Session

__all__ = ["receive", "send"]

_TOPIC = "push"
_STREAM = "stream"

Into = ModelSink | Callable[[ModelSpec], ModelSink]
"""Where a model goes: a sink whose tensors it must have, or a function that makes one for them."""


def receive(
    into: Into,
    listen: str = "127.0.0.1:0",
    *,
    config: LinkConfig | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
) -> Receipt:
    """Listen, take one model into ``into``, commit it, and return what it was.

    Args:
        into: see ``Into``.
        listen: ``host:port``; port 0 takes a free one.
        config: settings of this end.
        on_listening: told the port, once it can be reached.

    Raises:
        AddressInUse: the address is taken.
        SpecMismatch: the model has other tensors than the sink.
        StreamlinkError: the transfer failed; nothing of it is visible.
    """
    pushes: queue.SimpleQueue[tuple[Session, Request]] = queue.SimpleQueue()
    server = GrpcServer(
        listen,
        config or LinkConfig(),
        on_request=lambda session, request: pushes.put((session, request)),
    )
    try:
        on_listening(server.port)
        session, request = pushes.get()
        while request.topic != _TOPIC:
            session.reply(request, error=f"this end takes one model; it knows no {request.topic!r}")
            session, request = pushes.get()
        return _take(server, session, request, into)
    finally:
        server.close("the model was taken")


def send(
    model: ModelSource, to: str, *, name: str = "sender", config: LinkConfig | None = None
) -> Receipt:
    """Bring ``model`` to whoever receives at ``to`` (``host:port``); returns once it is committed.

    Raises:
        ConnectFailed: nobody answers there.
        StreamlinkError: the transfer failed; the receiver has nothing of it.
    """
    client = GrpcClient(to, config or LinkConfig(), name=name)
    try:
        session = client.connect(
            lambda session, request: session.reply(request, error="this end only sends")
        )
        seconds = session.config.timeouts.open_timeout
        try:
            reply = session.request(_TOPIC).result(timeout=seconds)
        except FutureTimeout as error:
            raise ConnectFailed(
                f"{to} takes no model within {seconds:g} s (open_timeout); is it busy with another?"
            ) from error
        if reply.error or _STREAM not in reply.metadata:
            raise ConnectFailed(f"{to} does not take a model: {reply.error or 'no stream'}")
        outgoing = OutgoingModel(
            session.config,
            model.spec,
            stream_id=int(reply.metadata[_STREAM]),
            peer=session.peer,
            name=f"model to {to}",
        )
        client.open_transfer(session, outgoing.pump)
        receipt = send_model(outgoing, model)
        session.close("sent")
        return receipt
    finally:
        client.close()


def _take(server: GrpcServer, session: Session, request: Request, into: Into) -> Receipt:
    incoming = IncomingModel(
        session.config,
        stream_id=server.new_stream_id(),
        peer=session.peer,
        name=f"model from {session.peer}",
    )
    session.offer(incoming.pump)
    server.ticker.add(incoming.pump)
    session.reply(request, metadata={_STREAM: str(incoming.pump.stream.stream_id)})
    try:
        receipt = receive_model(incoming, lambda model: _sink(model.spec, into))
        session.closed.wait(session.config.timeouts.open_timeout)  # until the sender has heard it
        return receipt
    except StreamlinkError:
        session.close("the transfer failed")
        raise


def _sink(spec: ModelSpec, into: Into) -> ModelSink:
    if not isinstance(into, ModelSink):
        return into(spec)
    require_same(into.spec, spec, "the sender")
    return into
