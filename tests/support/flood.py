"""Strangers: many connections that say nothing, each made again at once when it is cut."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from typing import Self

from streamlink.closing import Closing

__all__ = ["Flood"]


class Flood(Closing):
    """Keeps ``count`` connections to a port of this machine, in a thread, until it is left.

    Args:
        says: the first bytes on each of them; nothing follows.
    """

    def __init__(self, port: int, count: int, *, says: bytes = b"") -> None:
        self._address = ("127.0.0.1", port)
        self._count = count
        self._says = says
        self._is_over = threading.Event()
        self._has_come = threading.Event()
        self.made = 0
        """Connections that stood, in sum."""
        self.cut = 0
        """Those of them that the server has ended."""
        self._thread = threading.Thread(target=self._run, name="flood")

    def wait(self, seconds: float) -> None:
        """Wait until as many connections were made as there are to be."""
        assert self._has_come.wait(seconds), f"only {self.made} of {self._count} connections"

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for _ in range(self._count):
                self._connect(selector)
            while not self._is_over.is_set():
                for key, events in selector.select(0.2):
                    self._act(selector, key.fileobj, events)  # type: ignore[arg-type]
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]

    def _connect(self, selector: selectors.BaseSelector) -> None:
        line = socket.socket()
        line.setblocking(False)
        line.connect_ex(self._address)
        selector.register(line, selectors.EVENT_WRITE)

    def _act(self, selector: selectors.BaseSelector, line: socket.socket, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                if line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    self._stands(line)
                    selector.modify(line, selectors.EVENT_READ)
                    return
            elif line.recv(4096):
                return
        except OSError:
            pass
        self.cut += 1
        selector.unregister(line)
        line.close()
        self._connect(selector)

    def _stands(self, line: socket.socket) -> None:
        self.made += 1
        if self.made >= self._count:
            self._has_come.set()
        if self._says:
            with suppress(BlockingIOError):
                line.send(self._says)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
