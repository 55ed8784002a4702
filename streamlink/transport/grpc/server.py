"""The server's end of the gRPC carrier: listens, and hands each call to the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc

from streamlink.errors import AddressInUse, StreamlinkError
from streamlink.transport.addresses import is_answered, is_unix
from streamlink.transport.budget import budget_for
from streamlink.transport.grpc import health
from streamlink.transport.grpc.credentials import server_credentials, x509_names
from streamlink.transport.grpc.options import server_options
from streamlink.transport.grpc.posts import (
    KEY,
    MOST_AHEAD,
    SAYS,
    SERVICE,
    Inbox,
    Inboxes,
    address_of_post,
)
from streamlink.transport.grpc.strangers import Strangers
from streamlink.transport.hub import Hub
from streamlink.transport.server_calls import first_message, only_answer
from streamlink.transport.workers import Workers

__all__ = ["GrpcListener"]

_Serve = Callable[["_GrpcCall"], Iterator[bytes]]


class GrpcListener:
    """Listens on ``address`` for ``hub``.

    Raises:
        AddressInUse: the address is taken.
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        TooFewDescriptors: the settings cannot work with so few as this process may have.
    """

    def __init__(self, address: str, hub: Hub) -> None:
        self._hub, self._config = hub, hub.config
        self._budget = budget_for(self._config)
        self.strangers = Strangers(
            most=self._budget.strangers,
            seconds=self._config.timeouts.open_timeout,
            has_tls=self._config.security.certificate is not None,
            log=hub.log,
            clock=hub.clock,
        )
        announce = self.strangers.announce
        self._credentials = server_credentials(address, self._config.security, announce)
        self._pool = Workers(self._calls, "streamlink-grpc", hub.clock)
        self._inboxes = Inboxes(self._sessions)
        # Apart: a writer may wait for its client, and events of other sessions must not.
        self.writers = Workers(self._sessions, "session-write", hub.clock)
        self.workers = Workers(self._sessions, "session-work", hub.clock)
        with ExitStack() as started:
            for each in (self._pool, self.writers, self.workers):
                each.start()
                started.callback(each.shutdown)
            self._server, self._port = self._listen(address)
            started.pop_all()
        self.strangers.start(self._port)

    @property
    def port(self) -> int:
        """The port it listens on; 0: a Unix socket."""
        return self._port

    def open_inbox(self, call: _PostedGrpcCall, key: str) -> Inbox:
        """Return what takes the posts of a session call until that is over.

        Raises:
            RemoteProtocolError: the key is none, or taken; or there are too many.
        """
        inbox = Inbox(call.cut, self._hub.clock, self._config.timeouts.open_timeout)
        self._inboxes.open(key, inbox, call.x509_names())

        def over() -> None:
            self._inboxes.close(key)
            inbox.close()

        if not call.on_over(over):
            over()
        self._hub.ticker.add(inbox)
        return inbox

    def stop(self) -> None:
        """See ``Listener``."""
        # A second for what was sent, such as an abort, to leave. Both waits have a limit, and the
        # workers are not joined: one of them may be reading from a disk that hangs.
        self._server.stop(grace=1).wait(timeout=5)
        self.strangers.close()
        self._pool.shutdown()
        self.writers.shutdown()
        self.workers.retire()  # the ends of sessions that were left are still to be told

    @property
    def _sessions(self) -> int:
        """Calls of sessions that may be open at once.

        A session may have two, while the old one is not yet known to be dead. One more session than
        clients: a probe.
        """
        return 2 * (self._config.grpc.max_clients + 1) + self._config.limits.max_silent_calls

    @property
    def _calls(self) -> int:
        """Calls that may run at once.

        A synchronous call keeps its worker: fewer workers than admitted calls are a deadlock. Calls
        of sessions that are posted keep none, but each of their posts does.
        """
        each = 2 + MOST_AHEAD + self._config.limits.max_streams
        known = (self._config.grpc.max_clients + 1) * each
        return known + self._config.limits.max_silent_calls + 2

    def _listen(self, address: str) -> tuple[grpc.Server, int]:
        options = server_options(self._config, self._budget.connections)
        # With the limit gRPC refuses a call that is one too many. Without it the call would wait in
        # the pool's queue, which has no bound, and look to its client like a server that is mute.
        server = grpc.server(
            self._pool,  # type: ignore[arg-type]  # any executor will do
            options=options,
            maximum_concurrent_rpcs=self._calls,
        )
        server.add_generic_rpc_handlers(self._handlers())
        try:
            # Where a live server has a Unix socket gRPC would replace it, without an error.
            if is_answered(address):
                raise RuntimeError("another process answers there")
            if self._credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise AddressInUse(
                f"cannot listen on {address}; is another server running there or at the port below "
                "(it takes this one for data), or is the address not this machine's?"
            ) from error
        server.start()
        # gRPC returns 1 for a Unix socket.
        return server, 0 if is_unix(address) else port

    def _handlers(self) -> Any:
        methods = {
            "Session": self._handler(self._lasting(self._hub.session_call)),
            "Say": self._handler(self._say),
            "Transfer": self._handler(self._lasting(self._hub.transfer_call)),
        }
        ours = grpc.method_handlers_generic_handler(SERVICE, methods)
        # It waits for a message of a client that nobody knows.
        check = {"Check": self._handler(self._lasting(self._check))}
        return (
            _PostedSessions(self._posted_handler()),
            ours,
            grpc.method_handlers_generic_handler(health.SERVICE, check),
        )

    def _posted_handler(self) -> Any:
        """Return how gRPC handles a session call whose further messages are posted."""

        def answer(requests: Iterator[bytes], context: Any, send: Callable[[Any], None]) -> None:
            self.strangers.called(context.peer())
            key = str(dict(context.invocation_metadata())[KEY])
            self._hub.open_session(_PostedGrpcCall(requests, context, self, send, key))

        # As in gRPC's own health service: the handler returns, and its responses follow when there
        # are any. No thread waits for them.
        answer.experimental_non_blocking = True  # type: ignore[attr-defined]
        return grpc.stream_stream_rpc_method_handler(answer)

    def _say(self, call: _GrpcCall) -> Iterator[bytes]:
        """Take in one message of a session."""
        try:
            key, number = address_of_post(call.metadata)
            inbox = self._inboxes.find(key, call.x509_names())
            # Not among the calls of strangers: those push each other out.
            with inbox.coming(call.cut) as arrived:
                raw = first_message(call, bytes)
                arrived()
                inbox.put(number, raw)
                yield b""
        except StreamlinkError as error:
            call.abort(grpc.StatusCode.NOT_FOUND, str(error))

    def _handler(self, serve: _Serve) -> Any:
        """Return how gRPC handles a call.

        No serialisers: frames stay bytes, so that a chunk is not copied by protobuf. A check of
        health is no call of one message either: gRPC would keep a worker until that comes.
        """

        def answer(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            self.strangers.called(context.peer())
            return serve(_GrpcCall(requests, context, self.strangers))

        return grpc.stream_stream_rpc_method_handler(answer)

    def _lasting(self, serve: _Serve) -> _Serve:
        """Have others take up calls while ``serve`` waits for its client, as it mostly does."""

        def answer(call: _GrpcCall) -> Iterator[bytes]:
            with self._pool.aside():
                yield from serve(call)

        return answer

    def _check(self, call: _GrpcCall) -> Iterator[bytes]:
        """Say whether this server admits clients. One that is full does: its clients come back."""
        try:
            service = health.service_in(self._hub.first(call, bytes))
        except (StreamlinkError, ValueError) as error:
            call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if service not in ("", SERVICE):
            call.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {service!r} here")
        is_closing = self._hub.registry.is_closing
        yield from only_answer(
            health.NOT_SERVING if is_closing else health.SERVING, call, self._hub.clock
        )


class _PostedSessions(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Takes the session calls of clients that can post; others are left to the next handler.

    Those are of clients that do not know ``Say``: they send everything on the call itself, and the
    server keeps threads for it.
    """

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def service(self, handler_call_details: Any) -> Any:
        """Return how a call is handled; None: it is no such call."""
        is_ours = handler_call_details.method == f"/{SERVICE}/Session"
        metadata = handler_call_details.invocation_metadata or ()
        return self._handler if is_ours and KEY in dict(metadata) else None


class _GrpcCall:
    """A call as the hub sees it; see ``ServerCall``."""

    carrier = "grpc"

    def __init__(self, requests: Iterator[bytes], context: Any, strangers: Strangers) -> None:
        self.raws = requests
        self.remote: str = context.peer()
        self._context = context
        self._strangers = strangers

    @property
    def metadata(self) -> dict[str, str | bytes]:
        """What the client has sent before its first message."""
        return dict(self._context.invocation_metadata())

    def x509_names(self) -> frozenset[str] | None:
        return x509_names(self._context)

    def vouch(self) -> None:
        self._strangers.vouch(self.remote)

    def cut(self) -> None:
        self._context.cancel()

    def break_off(self, why: str) -> None:
        self._context.set_code(grpc.StatusCode.UNAVAILABLE)
        self._context.set_details(why)

    def on_over(self, then: Callable[[], None]) -> bool:
        return bool(self._context.add_callback(then))

    def abort(self, code: grpc.StatusCode, why: str) -> None:
        """End it with a status; raises."""
        self._context.abort(code, why)


class _PostedGrpcCall(_GrpcCall):
    """A session call whose further messages are posted; see ``PostedCall``."""

    def __init__(
        self,
        requests: Iterator[bytes],
        context: Any,
        listener: GrpcListener,
        send: Callable[[Any], None],
        key: str,
    ) -> None:
        super().__init__(requests, context, listener.strangers)
        self._listener, self._send, self._key = listener, send, key
        self.workers, self.writers = listener.workers, listener.writers

    def open(self) -> None:
        self._inbox = self._listener.open_inbox(self, self._key)
        self._context.send_initial_metadata(((SAYS, "1"),))

    def on_message(self, take: Callable[[bytes], None]) -> None:
        self._inbox.on_message(take)

    def send(self, raw: bytes) -> None:
        self._send(raw)

    def end(self) -> None:
        self._send(None)  # the status: OK, or what ``break_off`` has set
