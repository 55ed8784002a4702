"""A connection of the TCP carrier whose peer has said everything already: no I/O."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from streamlink.transport.tcp.sockets import Socket

__all__ = ["ToldSocket"]


class ToldSocket(Socket):
    """Gives what was ``said``, and keeps what is sent.

    Args:
        said: all that comes from the peer, before it closes the connection.
        before: called before each read, with its size: what the other threads of an end may do
            meanwhile.
    """

    def __init__(self, said: bytes = b"", *, before: Callable[[int], object] = bool) -> None:
        super().__init__(socket.socket())
        self._left, self._before = memoryview(said), before
        self.asked = 0
        """Bytes that were asked for, in sum."""
        self.most = 0
        """The most that was asked for at once (bytes)."""
        self.sent: list[bytes] = []
        """What was sent, a message each."""

    def send(self, buffers: Sequence[bytes | memoryview]) -> None:
        """See ``Socket``."""
        self.sent.append(b"".join(buffers))

    def receive_into(self, view: memoryview) -> None:
        """See ``Socket``."""
        self._before(view.nbytes)
        self.asked += view.nbytes
        self.most = max(self.most, view.nbytes)
        if view.nbytes > self._left.nbytes:
            raise EOFError
        view[:] = self._left[: view.nbytes]
        self._left = self._left[view.nbytes :]
