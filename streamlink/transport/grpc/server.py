"""The server's end of the gRPC carrier: listens, and hands each call to the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc

from streamlink.errors import AddressInUse, StreamlinkError
from streamlink.transport.addresses import is_answered, is_unix
from streamlink.transport.budget import budget_for
from streamlink.transport.grpc import health
from streamlink.transport.grpc.credentials import server_credentials, x509_names
from streamlink.transport.grpc.options import server_options
from streamlink.transport.grpc.strangers import Strangers
from streamlink.transport.grpc.workers import Workers
from streamlink.transport.hub import Hub
from streamlink.transport.server_calls import only_answer

__all__ = ["SERVICE", "GrpcListener"]

SERVICE = "streamlink.v1.Streamlink"

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
        self._strangers = Strangers(
            most=self._budget.strangers,
            seconds=self._config.timeouts.open_timeout,
            has_tls=self._config.security.certificate is not None,
            log=hub.log,
            clock=hub.clock,
        )
        announce = self._strangers.announce
        self._credentials = server_credentials(address, self._config.security, announce)
        self._pool = Workers(self._calls, "streamlink-grpc")
        self._server, self._port = self._listen(address)
        self._strangers.start(self._port)

    @property
    def port(self) -> int:
        """The port it listens on; 0: a Unix socket."""
        return self._port

    def stop(self) -> None:
        """See ``Listener``."""
        # A second for what was sent, such as an abort, to leave. Both waits have a limit, and the
        # workers are not joined: one of them may be reading from a disk that hangs.
        self._server.stop(grace=1).wait(timeout=5)
        self._strangers.close()
        self._pool.shutdown()

    @property
    def _calls(self) -> int:
        """Calls that may be open at once.

        A synchronous call keeps its worker: fewer workers than admitted calls are a deadlock. A
        session may have two, while the old one is not yet known to be dead. One more session than
        clients: a probe.
        """
        known = (self._config.grpc.max_clients + 1) * (2 + self._config.limits.max_streams)
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
        sessions = self._handler(self._hub.session_call)
        transfers = self._handler(self._hub.transfer_call)
        methods = {"Session": sessions, "Transfer": transfers}
        ours = grpc.method_handlers_generic_handler(SERVICE, methods)
        check = {"Check": self._handler(self._check)}
        return ours, grpc.method_handlers_generic_handler(health.SERVICE, check)

    def _handler(self, serve: _Serve) -> Any:
        """Return how gRPC handles a call.

        No serialisers: frames stay bytes, so that a chunk is not copied by protobuf. A check of
        health is no call of one message either: gRPC would keep a worker until that comes.
        """

        def answer(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            self._strangers.called(context.peer())
            return serve(_GrpcCall(requests, context, self._strangers))

        return grpc.stream_stream_rpc_method_handler(answer)

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


class _GrpcCall:
    """A call as the hub sees it; see ``ServerCall``."""

    carrier = "grpc"

    def __init__(self, requests: Iterator[bytes], context: Any, strangers: Strangers) -> None:
        self.raws = requests
        self.remote: str = context.peer()
        self._context = context
        self._strangers = strangers

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
