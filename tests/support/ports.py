"""Ports that a server may leave and come back to, and that nobody else is given meanwhile."""

from __future__ import annotations

import os
import socket
import weakref

__all__ = ["KeptPort"]


class KeptPort:
    """A TCP port of this machine's own address, and the one above it, where a server takes streams.

    Both are kept until ``close``, or the object's end. A port that was only looked up is free again
    at once: the system gives it to the next server or connection that asks for any.
    """

    def __init__(self) -> None:
        keepers = _bound_pair()
        self.number: int = keepers[0].getsockname()[1]
        self.close = weakref.finalize(self, _close, [each.detach() for each in keepers])

    @property
    def address(self) -> str:
        """Where a server listens on it."""
        return f"127.0.0.1:{self.number}"


def _bound_pair() -> tuple[socket.socket, socket.socket]:
    while True:
        lower = _bound(0)
        try:
            return lower, _bound(lower.getsockname()[1] + 1)
        except (OSError, OverflowError):  # somebody else has the upper one; there is none
            lower.close()


def _bound(port: int) -> socket.socket:
    # Bound, and not listening: clients are refused, and a server may still bind it by its number,
    # since both have SO_REUSEADDR. The system gives no bound port to those who ask for any.
    keeper = socket.socket()
    try:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", port))
    except BaseException:
        keeper.close()
        raise
    return keeper


def _close(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)
