"""An HTTP server for one small page, with limits on the number and duration of connections.

Anybody who reaches its address may connect, and each connection costs a thread. A connection above
the limit is closed without an answer. One that takes too long is cut, whether it sends nothing,
sends byte by byte (slowloris), or does not read.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from streamlink.descriptors import unhurried

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

__all__ = ["CONNECTIONS", "CONNECTION_SECONDS", "HttpServer"]

logger = logging.getLogger("streamlink.operate")

CONNECTIONS = 8
"""The most connections at the same time, each with a thread."""

CONNECTION_SECONDS = 5.0
"""The longest duration of a connection (seconds); a page takes milliseconds."""

_LOOK_SECONDS = 0.2  # how late a connection may be cut


class HttpServer(ThreadingMixIn, WSGIServer):
    """Listens and answers in its own threads until it is closed.

    Args:
        host: a name or an IP address; empty: all addresses of this machine.
        port: 0 takes a free one.
        page: answers each request.

    Raises:
        OSError: the address is in use, or invalid.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, host: str, port: int, page: WSGIApplication) -> None:
        self._since: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        # ``WSGIServer`` speaks IPv4 only, unless it is given the family of the address.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        super().__init__((str(address[0]), port), _Quiet)
        self.set_app(page)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_LOOK_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and cut the open connections."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        self._cut(older_than=0.0)

    # --- what socketserver calls --------------------------------------------------------------

    def get_request(self) -> Any:
        """Accept a connection."""
        return unhurried(super().get_request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close it if there are too many."""
        with self._lock:
            has_room = len(self._since) < CONNECTIONS
            if has_room:
                # Entered here and not in the connection's thread: the count would lag, and a burst
                # of connections would find room that is already taken.
                self._since[request] = time.monotonic()
        if not has_room:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)  # no thread could be started, so none will
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def service_actions(self) -> None:
        """Cut connections that take too long; called several times a second."""
        self._cut(older_than=CONNECTION_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection at debug level: a scraper may disconnect at any time."""
        logger.debug("a scraper of the metrics disconnected", exc_info=True)

    def _forget(self, request: Any) -> None:
        with self._lock:
            del self._since[request]

    def _cut(self, *, older_than: float) -> None:
        until = time.monotonic() - older_than
        # The lock keeps the table from changing. A socket that its thread has just closed has the
        # number -1, so ``shutdown`` fails, and cannot hit a file that has got its old number.
        with self._lock:
            for request, since in self._since.items():
                if since <= until:
                    with suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)


class _Quiet(WSGIRequestHandler):
    """Answers one request, and logs nothing to stderr."""

    timeout = CONNECTION_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("metrics: " + format, *args)
