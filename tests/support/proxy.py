"""An HTTP proxy that knows CONNECT and nothing else, and counts what goes through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from streamlink.closing import Closing

_BLOCK = 1 << 16
_HEAD_BYTES = 1 << 14


class Proxy(Closing):
    """Listens on a free port of the loopback. A context manager; every tunnel ends with it.

    Attributes:
        port: where it listens.
        asked: ``host:port`` of each CONNECT, in order.
        carried: bytes through its tunnels so far: to the servers, and back.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.asked: list[str] = []
        self.carried = [0, 0]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        with self._lock:
            opened, threads = [self._listening, *self._open], list(self._threads)
        for each in opened:
            _shut(each)
        for thread in threads:
            thread.join(5)
        for each in opened:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # it was shut
                return
            self._keep(client)
            self._start(self._tunnel, client)

    def _tunnel(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES:
            read = client.recv(_BLOCK)
            if not read:
                return
            head += read
        method, _, rest = head.decode("latin-1").partition(" ")
        if method != "CONNECT":
            _shut(client)
            return
        target = rest.split(" ")[0]
        self.asked.append(target)
        host, _, port = target.rpartition(":")
        server = socket.create_connection((host, int(port)))
        self._keep(server)
        client.sendall(b"HTTP/1.1 200 connected\r\n\r\n")
        self._start(self._pour, client, server, 0)
        self._start(self._pour, server, client, 1)

    def _pour(self, source: socket.socket, target: socket.socket, direction: int) -> None:
        with suppress(OSError):  # one of the two has gone
            while read := source.recv(_BLOCK):
                target.sendall(read)
                with self._lock:
                    self.carried[direction] += len(read)
        _shut(source)
        _shut(target)

    def _keep(self, opened: socket.socket) -> None:
        with self._lock:
            self._open.append(opened)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()


def _shut(each: socket.socket) -> None:
    with suppress(OSError):  # it was not connected, or is shut already
        each.shutdown(socket.SHUT_RDWR)
