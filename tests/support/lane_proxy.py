"""A proxy of TCP whose connections are cut and stalled one by one: each is a lane of a stream."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from benchmarks.closing import Closing

__all__ = ["LaneProxy", "Line"]

_PIECE = 64 * 1024


class Line:
    """One connection through the proxy. Bytes are counted as they are read."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._near, self._far = near, far
        self._flows = threading.Event()
        self._flows.set()
        self.up = self.down = 0
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._up, self._down)
        ]

    def begin(self) -> None:
        """Forward what comes from now on."""
        for each in self._threads:
            each.start()

    @property
    def is_live(self) -> bool:
        """Whether neither end has closed it."""
        return all(each.is_alive() for each in self._threads)

    def stall(self) -> None:
        """Forward nothing more, and say so to nobody."""
        self._flows.clear()

    def cut(self) -> None:
        """End it at both ends."""
        for each in (self._near, self._far):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._flows.set()

    def close(self) -> None:
        """End it, and wait until nobody uses it."""
        self.cut()
        for thread in self._threads:
            if thread.is_alive():  # else it has ended, or was not begun
                thread.join()
        self._near.close()
        self._far.close()

    def _up(self) -> None:
        for piece in self._pieces(self._near, self._far):
            self.up += piece

    def _down(self) -> None:
        for piece in self._pieces(self._far, self._near):
            self.down += piece

    def _pieces(self, source: socket.socket, target: socket.socket) -> Iterator[int]:
        with suppress(OSError):
            while raw := source.recv(_PIECE):
                yield len(raw)
                self._flows.wait()
                target.sendall(raw)
            target.shutdown(socket.SHUT_WR)


class LaneProxy(Closing):
    """Listens on a free port and carries each connection to ``port`` of this machine."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self.lines: list[Line] = []
        """In the order in which they came, those that have ended included."""
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it and every line."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join()  # no line comes after that
        for each in self.lines:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                line = Line(near, self._connected(near))
                self.lines.append(line)  # first: what it carries may be asked for at once
                line.begin()

    def _connected(self, near: socket.socket) -> socket.socket:
        try:
            return socket.create_connection(self._target)
        except OSError:  # who listened there has left
            near.close()
            raise
