"""A port that a server may leave and come back to, and that nobody else is given meanwhile."""

from __future__ import annotations

import os
import socket
import weakref

__all__ = ["KeptPort"]


class KeptPort:
    """A TCP port of this machine's own address. It is kept until ``close``, or the object's end.

    A port that was only looked up is free again at once: the system gives it to the next server
    or connection that asks for any.
    """

    def __init__(self) -> None:
        # Bound, and not listening: clients are refused, and a server may still bind it by its
        # number, since both have SO_REUSEADDR. The system gives no bound port to those who ask for
        # any.
        keeper = socket.socket()
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        self.number: int = keeper.getsockname()[1]
        self.close = weakref.finalize(self, os.close, keeper.detach())

    @property
    def address(self) -> str:
        """Where a server listens on it."""
        return f"127.0.0.1:{self.number}"
